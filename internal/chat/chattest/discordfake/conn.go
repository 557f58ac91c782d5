package discordfake

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// compressOver is the size from which the fake compresses; Discord's is not
// published.
const compressOver = 1024

// conn is one connection. What is written is queued, so that nobody waits for the
// client.
type conn struct {
	ws      *websocket.Conn
	session *session
	sends   []time.Time
	// fault is what comes in the place of READY or RESUMED, once.
	fault openFault

	mu       sync.Mutex
	compress bool
	queue    [][]byte
	code     int
	closed   bool
	frozen   bool
	wake     chan struct{}
	done     chan struct{}
	once     sync.Once
}

func (c *conn) send(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("discordfake: a frame does not encode: %v", err))
	}
	c.push(raw)
}

func (c *conn) push(raw []byte) {
	c.mu.Lock()
	if !c.frozen && !c.closed {
		c.queue = append(c.queue, raw)
	}
	c.mu.Unlock()
	c.kick()
}

func (c *conn) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close ends the connection with a code after what is queued.
func (c *conn) close(code int) {
	c.mu.Lock()
	if !c.closed {
		c.closed, c.code = true, code
	}
	c.mu.Unlock()
	c.kick()
}

// abort ends the TCP connection without a word.
func (c *conn) abort() { c.once.Do(func() { close(c.done); _ = c.ws.Close() }) }

func (c *conn) isFrozen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

// pump writes what is queued.
func (c *conn) pump() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		queue, closing, code, compress := c.queue, c.closed, c.code, c.compress
		c.queue = nil
		c.mu.Unlock()
		for _, raw := range queue {
			if c.write(raw, compress) != nil {
				c.abort()
				return
			}
		}
		if closing {
			_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
			c.abort()
			return
		}
	}
}

// write sends a frame, compressed where the client asked for it and it is large
// (Gateway, Payload Compression).
func (c *conn) write(raw []byte, compress bool) error {
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if !compress || len(raw) < compressOver {
		return c.ws.WriteMessage(websocket.TextMessage, raw)
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(raw) // a buffer never fails
	_ = z.Close()
	return c.ws.WriteMessage(websocket.BinaryMessage, b.Bytes())
}
