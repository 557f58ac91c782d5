package transcript

import (
	"container/list"
	"sync"
)

// cache holds decoded segments, the least recently used dropped first, bounded
// by the bytes of their encoded form (in memory they take about as much).
type cache struct {
	mu    sync.Mutex
	limit int
	used  int
	order *list.List // of cached, front is newest
	byKey map[string]*list.Element
}

type cached struct {
	key string
	seg *segment
}

func newCache(limit int) *cache {
	return &cache{limit: limit, order: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) get(key string) (*segment, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cached).seg, true
}

func (c *cache) put(key string, seg *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok || seg.size > c.limit {
		return
	}
	c.byKey[key] = c.order.PushFront(cached{key: key, seg: seg})
	c.used += seg.size
	for c.used > c.limit {
		last := c.order.Back()
		old := last.Value.(cached)
		c.order.Remove(last)
		delete(c.byKey, old.key)
		c.used -= old.seg.size
	}
}
