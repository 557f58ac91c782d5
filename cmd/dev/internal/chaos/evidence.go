package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// evidence is all that the checker looks at: what the recorder saw, and what the
// system says of itself afterwards.
type evidence struct {
	Said     []said
	Clicks   []decided
	Moves    []moved
	Journals []witnessed
	Sessions map[string]*session // by thread
	Boxes    []box
	Strays   []string // command lines
}

// session is one session, as its thread shows it and as it says itself.
type session struct {
	Thread thread
	// Silent says why the session did not answer.
	Silent  string
	State   workflows.TurnState
	History workflows.History
	Head    workflows.AuditHead
	Audit   audit.Report
	Entries []audit.Entry
}

// box is a sandbox that is there.
type box struct {
	Host       string // as in task queues
	WorkflowID string
	Generation int
}

// gatherer collects evidence when the people have left.
type gatherer struct {
	site     *site
	rec      *recorder
	sessions *control.Client
	blobs    *blob.Store
	close    func() error
}

func newGatherer(ctx context.Context, s *site, r *recorder) (*gatherer, error) {
	c, err := client.DialContext(ctx, client.Options{HostPort: s.temporal, Namespace: s.namespace, Logger: quiet{}})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	store, err := blob.Open(ctx, s.blobs)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("opening the blob store: %w", err)
	}
	return &gatherer{
		site: s, rec: r, sessions: control.New(c, nil), blobs: store,
		close: func() error { c.Close(); return store.Close() },
	}, nil
}

// quiet drops what the Temporal client says while the server is down.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func (g *gatherer) gather(ctx context.Context) (*evidence, error) {
	e := &evidence{Sessions: map[string]*session{}}
	g.rec.mu.Lock()
	e.Said, e.Clicks, e.Moves = slices.Clone(g.rec.said), slices.Clone(g.rec.clicks), slices.Clone(g.rec.moves)
	threads := slices.Sorted(maps.Keys(g.rec.threads))
	g.rec.mu.Unlock()
	for _, id := range threads {
		s, err := g.session(ctx, id)
		if err != nil {
			return nil, err
		}
		e.Sessions[id] = s
	}
	var err error
	if e.Journals, err = g.rec.journals(ctx); err != nil {
		return nil, err
	}
	for _, pid := range g.site.strays() {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && len(data) > 0 { // else it has ended
			e.Strays = append(e.Strays, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	e.Boxes, err = g.boxes(ctx)
	return e, err
}

// session asks a session; what it does not answer is evidence too.
func (g *gatherer) session(ctx context.Context, id string) (*session, error) {
	var s session
	var err error
	if s.Thread, err = g.site.web.thread(ctx, id); err != nil {
		s.Thread = thread{ID: id}
		s.Silent = "the chat: " + err.Error()
		return &s, ctx.Err()
	}
	workflowID := s.Thread.WorkflowID
	s.State, err = g.sessions.TurnState(ctx, workflowID)
	if err == nil {
		s.History, err = g.sessions.History(ctx, workflowID)
	}
	if err == nil {
		s.Head, err = g.sessions.AuditHead(ctx, workflowID)
	}
	if err != nil {
		s.Silent = err.Error()
		return &s, ctx.Err()
	}
	s.Audit = audit.Verify(ctx, g.blobs, workflowID, s.Head.Chain)
	for seq := 1; seq <= s.Head.Chain.Seq; seq++ {
		var e audit.Entry
		data, err := g.blobs.Get(ctx, audit.Key(workflowID, seq))
		if err == nil && json.Unmarshal(data, &e) == nil { // else the report has it
			s.Entries = append(s.Entries, e)
		}
	}
	return &s, ctx.Err()
}

// boxes lists the sandboxes that are there.
func (g *gatherer) boxes(ctx context.Context) ([]box, error) {
	var all []box
	if g.site.engine != nil {
		there, err := g.site.engine.sandboxes(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range there {
			all = append(all, c.box)
		}
	}
	for _, dir := range g.rec.hosts {
		host, err := os.ReadFile(filepath.Join(dir, "host_id"))
		if err != nil {
			return nil, fmt.Errorf("reading a host's name: %w", err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "sandboxes", "*", "sandbox.json")) // the pattern is well formed
		for _, f := range files {
			var about struct {
				ID         string `json:"id"`
				Generation int    `json:"generation"`
			}
			data, err := os.ReadFile(f)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil {
				err = json.Unmarshal(data, &about)
			}
			if err != nil {
				return nil, fmt.Errorf("reading a sandbox's record: %w", err)
			}
			all = append(all, box{Host: strings.TrimSpace(string(host)), WorkflowID: about.ID, Generation: about.Generation})
		}
	}
	return all, nil
}
