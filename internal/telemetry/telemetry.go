// Package telemetry makes the process's logger and keeps secrets out of it.
//
// Logs are JSON lines. Messages are constant, begin with a capital letter, and
// what varies is in attributes whose keys are the Key constants. A [Secret]
// never prints its value; values registered with [Options] are cut from every
// line as well, so that a secret inside somebody else's error text does not
// reach the log either. So is what has the shape of a token; see package mask.
package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/countersign/countersign/internal/mask"
)

// Attribute keys, one spelling for each thing that logs name.
const (
	KeyComponent  = "component"
	KeyError      = "error"
	KeyPlatform   = "platform"
	KeyWorkflowID = "workflow_id"
	KeyRunID      = "run_id"
	KeyNamespace  = "namespace"
	KeyTaskQueue  = "task_queue"
	KeyChannelID  = "channel_id"
	KeyThreadID   = "thread_id"
	KeyMessageID  = "message_id"
	KeyActorID    = "actor_id"
	KeyApprovalID = "approval_id"
	KeyToolCallID = "tool_call_id"
	KeyExecID     = "exec_id"
	KeyBackend    = "backend"
	KeyDataDir    = "data_dir"
	KeyAddress    = "address"
)

// minCutBytes is the shortest value that is cut from log lines: cutting
// shorter ones would eat ordinary words.
const minCutBytes = 6

// Options configure [NewLogger].
type Options struct {
	// Level is debug, info, warn or error; empty means info.
	Level string
	// Secrets are cut from every line, wherever they stand in it. Values
	// shorter than 6 bytes are left, because they would match ordinary text.
	Secrets []Secret
}

// NewLogger returns a logger that writes JSON lines to w. It fails when the
// level is unknown.
func NewLogger(w io.Writer, o Options) (*slog.Logger, error) {
	level, err := ParseLevel(o.Level)
	if err != nil {
		return nil, err
	}
	return slog.New(slog.NewJSONHandler(newCutter(w, o.Secrets), &slog.HandlerOptions{Level: level})), nil
}

// ParseLevel reads debug, info, warn or error in any case; empty means info.
func ParseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("unknown log level %q: use debug, info, warn or error", s)
}

// cutter replaces secrets in what is written through it: the values it was given,
// and what has the shape of one. slog's handlers write
// one whole line a call, so no secret is split between two writes.
type cutter struct {
	mu     sync.Mutex
	w      io.Writer
	values [][]byte
	shapes mask.Masker
}

func newCutter(w io.Writer, secrets []Secret) *cutter {
	c := &cutter{w: w}
	for _, s := range secrets {
		if len(s.Reveal()) < minCutBytes {
			continue
		}
		c.values = append(c.values, []byte(s.Reveal()))
		if quoted, err := json.Marshal(s.Reveal()); err == nil {
			if inner := quoted[1 : len(quoted)-1]; !bytes.Equal(inner, []byte(s.Reveal())) {
				c.values = append(c.values, inner)
			}
		}
	}
	return c
}

func (c *cutter) Write(p []byte) (int, error) {
	line := p
	for _, v := range c.values {
		if bytes.Contains(line, v) {
			line = bytes.ReplaceAll(line, v, []byte(Redacted))
		}
	}
	line = c.shapes.Bytes(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.w.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil
}
