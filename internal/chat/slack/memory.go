package slack

import (
	"sync"
	"time"
)

// memory remembers things for a while, and not too many of them.
type memory[K comparable, V any] struct {
	mu   sync.Mutex
	data map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	at    time.Time
}

func newMemory[K comparable, V any]() *memory[K, V] {
	return &memory[K, V]{data: map[K]remembered[V]{}}
}

// get returns what was put at most maxAge ago.
func (m *memory[K, V]) get(k K, maxAge time.Duration) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.data[k]
	if !ok || time.Since(r.at) > maxAge {
		var none V
		return none, false
	}
	return r.value, true
}

// put remembers v under k.
func (m *memory[K, V]) put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(k, v)
}

// forget forgets k.
func (m *memory[K, V]) forget(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, k)
}

// first remembers k and reports whether it was new.
func (m *memory[K, V]) first(k K, v V) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.data[k]; ok && time.Since(r.at) <= rememberFor {
		return false
	}
	m.set(k, v)
	return true
}

func (m *memory[K, V]) set(k K, v V) {
	m.data[k] = remembered[V]{value: v, at: time.Now()}
	if len(m.data) <= rememberMost {
		return
	}
	for k, r := range m.data {
		if time.Since(r.at) > rememberFor {
			delete(m.data, k)
		}
	}
	for k := range m.data {
		if len(m.data) <= rememberMost*9/10 {
			return
		}
		delete(m.data, k)
	}
}
