package discord

import (
	"sync"
	"time"
)

// memory remembers things for a while, and not too many of them.
type memory[V any] struct {
	mu   sync.Mutex
	data map[string]remembered[V]
}

type remembered[V any] struct {
	value V
	at    time.Time
}

func newMemory[V any]() *memory[V] { return &memory[V]{data: map[string]remembered[V]{}} }

// get returns what was put at most maxAge ago.
func (m *memory[V]) get(k string, maxAge time.Duration) (V, bool) {
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
func (m *memory[V]) put(k string, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(k, v)
}

// drop forgets k.
func (m *memory[V]) drop(k string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, k)
}

// first remembers k and reports whether it was new.
func (m *memory[V]) first(k string, v V) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.data[k]; ok && time.Since(r.at) <= rememberFor {
		return false
	}
	m.set(k, v)
	return true
}

func (m *memory[V]) set(k string, v V) {
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
