package chaos

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers each connection with what it sends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// hello sends a line and returns what comes back within that time.
func hello(c net.Conn, within time.Duration) (string, error) {
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// long is more than a busy machine takes for a line; short is when nothing comes.
const (
	long  = time.Minute
	short = time.Second
)

func TestLink(t *testing.T) {
	t.Parallel()
	to := echo(t)
	l, err := newLink("link", func() string { return to })
	require.NoError(t, err)
	t.Cleanup(l.close)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.address())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := dial()
	answer, err := hello(c, long)
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)

	// Cut: what was connected is reset, what connects meanwhile too, and later all is
	// well.
	ctx, whole := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.cut(ctx, time.Minute+1) }()
	require.Eventually(t, func() bool { _, err := hello(c, short); return err != nil }, long, 10*time.Millisecond)
	_, err = hello(dial(), short)
	require.Error(t, err)
	whole()
	require.NoError(t, <-done)
	c = dial()
	_, err = hello(c, long)
	require.NoError(t, err)

	// Stalled: nothing comes and nothing ends; afterwards it is reset.
	ctx, whole = context.WithCancel(t.Context())
	go func() { done <- l.stall(ctx, time.Minute) }()
	var late net.Error
	require.Eventually(t, func() bool {
		_, err := hello(c, short)
		return errors.As(err, &late) && late.Timeout()
	}, long, 10*time.Millisecond)
	whole()
	require.NoError(t, <-done)
	_ = c.SetDeadline(time.Now().Add(long))
	_, err = io.Copy(io.Discard, c)
	require.Error(t, err, "a reset, no farewell")
	_, err = hello(dial(), long)
	require.NoError(t, err)
}

// A frozen part does nothing and goes on; one that has ended by itself is told.
func TestFreeze(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "logs", "ticker"))
		require.NoError(t, err)
		return info.Size()
	}
	p := &part{name: "ticker", dir: dir, argv: []string{"/bin/sh", "-c", "while :; do echo tick; sleep 0.02; done"}}
	require.NoError(t, p.start())
	t.Cleanup(p.kill)
	require.Eventually(t, func() bool { return size() > 0 }, long, 10*time.Millisecond)
	ctx, thaw := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.freeze(ctx, time.Minute) }()
	still := func() bool {
		before := size()
		time.Sleep(100 * time.Millisecond) // five ticks of a part that runs
		return size() == before
	}
	require.Eventually(t, still, long, 10*time.Millisecond)
	thaw()
	require.NoError(t, <-done)
	require.Eventually(t, func() bool { return !still() }, long, 10*time.Millisecond)

	short := &part{name: "short", dir: dir, argv: []string{"/bin/true"}}
	require.NoError(t, short.start())
	require.Eventually(t, short.gone, long, 10*time.Millisecond)
	require.Error(t, short.freeze(t.Context(), time.Millisecond))
}
