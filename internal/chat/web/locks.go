package web

import (
	"sync"
	"time"
)

// keyedLocks hands out one lock for each key that is in use.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	mu    sync.Mutex
	users int
}

// lock waits for the key's lock and returns what frees it.
func (k *keyedLocks) lock(key string) (unlock func()) {
	l := k.take(key)
	l.mu.Lock()
	return func() { l.mu.Unlock(); k.put(key, l) }
}

// tryLock takes the key's lock if it is free.
func (k *keyedLocks) tryLock(key string) (unlock func(), ok bool) {
	l := k.take(key)
	if !l.mu.TryLock() {
		k.put(key, l)
		return nil, false
	}
	return func() { l.mu.Unlock(); k.put(key, l) }, true
}

func (k *keyedLocks) take(key string) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{}
		k.locks[key] = l
	}
	l.users++
	return l
}

func (k *keyedLocks) put(key string, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}

// retries says when a pending message is due to be handed over again.
type retries struct {
	mu  sync.Mutex
	due map[string]retry
}

type retry struct {
	at    time.Time
	delay time.Duration
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// isDue reports whether a message's time has come; one that is not known is due.
func (r *retries) isDue(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !now.Before(r.due[id].at)
}

// failed puts the next try off, twice as long each time.
func (r *retries) failed(id string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = map[string]retry{}
	}
	d := min(max(2*r.due[id].delay, firstRetry), lastRetry)
	r.due[id] = retry{at: now.Add(d), delay: d}
}

func (r *retries) done(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, id)
}
