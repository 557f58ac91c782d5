package chattest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Blobs is a blob store in memory. The zero value is empty and ready.
type Blobs struct {
	mu   sync.Mutex
	data map[string][]byte
}

// Put implements [chat.Blobs].
func (b *Blobs) Put(_ context.Context, prefix string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	key := prefix + "/" + hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		b.data = map[string][]byte{}
	}
	b.data[key] = append([]byte(nil), data...)
	return key, nil
}

// PutNew stores data under a key, which must be free: with it Blobs is what an audit
// record is written to.
func (b *Blobs) PutNew(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.data[key]; taken {
		return fmt.Errorf("blob %s is there already", key)
	}
	if b.data == nil {
		b.data = map[string][]byte{}
	}
	b.data[key] = append([]byte(nil), data...)
	return nil
}

// Get implements [chat.Blobs].
func (b *Blobs) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.data[key]
	if !ok {
		return nil, fmt.Errorf("blob %s is not there", key)
	}
	return data, nil
}
