package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// journal is the file of a workspace to which every command of the script appends
// a line: its token, a word, and the exec that it ran as.
const journal = "journal"

// witnessEvery is how often the recorder looks for new workspaces. It only has to
// find one before the sandbox is removed: what was written before is in the file.
const witnessEvery = 100 * time.Millisecond

// maxJournal bounds what is read of a journal, in bytes; lines have some 40.
const maxJournal = 1 << 20

// said is a message that a person sent.
type said struct {
	Thread    string    `json:"thread"`
	MessageID string    `json:"message_id"`
	By        string    `json:"by"`
	Token     string    `json:"token"`
	Text      string    `json:"text"`
	At        time.Time `json:"at"`
	// Accepted: the chat said that it has the message. Refused says why not, and
	// Unsure is a message that the chat never confirmed.
	Accepted bool   `json:"accepted"`
	Refused  string `json:"refused,omitempty"`
	Unsure   bool   `json:"unsure,omitempty"`
	// Commands are the journal's words that the message asks for; Risky ones wait
	// for an approval.
	Commands []string `json:"commands"`
	Risky    bool     `json:"risky,omitempty"`
	// Ending: the author was destroying the session; it may come too late.
	Ending bool `json:"ending,omitempty"`
}

// moved is a switch that was asked for.
type moved struct {
	Thread string    `json:"thread"`
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	// Unsure: its answer did not come, or was another than that it is accepted.
	Unsure bool `json:"unsure,omitempty"`
}

// decided is a click on a card, with its answer.
type decided struct {
	Thread   string    `json:"thread"`
	Message  string    `json:"message"`
	Approval string    `json:"approval,omitempty"`
	Button   string    `json:"button"`
	By       string    `json:"by"`
	Outcome  string    `json:"outcome"`
	At       time.Time `json:"at"`
}

// fault is what was done to a part or a link.
type fault struct {
	Kind string    `json:"kind"`
	Part string    `json:"part"`
	What string    `json:"what"`
	At   time.Time `json:"at"`
	Back time.Time `json:"back"`
}

// line is one line of a journal.
type line struct{ Token, Word, Exec string }

// witnessed is the journal of one sandbox.
type witnessed struct {
	Host, WorkflowID string
	Generation       int
	Lines            []line

	file *os.File
}

// recorder keeps what happened at every edge, in memory and in the run's
// directory.
type recorder struct {
	dir    string
	hosts  []string // data directories
	engine *engine  // nil where there is none

	mu       sync.Mutex
	said     []said
	clicks   []decided
	faults   []fault
	threads  map[string]bool
	versions map[string][]message // every state of a message that was seen, by ID
	holds    map[string]witnessed // witnessed sandboxes by the witness's file name
	moves    []moved
	out      map[string]*os.File
}

func newRecorder(dir string, hosts []string, e *engine) (*recorder, error) {
	r := &recorder{
		dir: dir, hosts: hosts, engine: e, threads: map[string]bool{}, versions: map[string][]message{},
		holds: map[string]witnessed{}, out: map[string]*os.File{},
	}
	for _, name := range []string{"said", "clicks", "moves", "faults", "events"} {
		f, err := os.Create(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making a recording: %w", err), r.close())
		}
		r.out[name] = f
	}
	if err := os.Mkdir(filepath.Join(dir, "witness"), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("making a recording: %w", err), r.close())
	}
	return r, nil
}

func (r *recorder) close() error {
	var err error
	for _, f := range r.out {
		err = errors.Join(err, f.Close())
	}
	for _, w := range r.holds {
		err = errors.Join(err, w.file.Close())
	}
	return err
}

// write appends to a recording; r.mu is held. The file is for people who look for
// a cause: a full disk shows elsewhere.
func (r *recorder) write(name string, v any) {
	if data, err := json.Marshal(v); err == nil {
		_, _ = r.out[name].Write(append(data, '\n'))
	}
}

func (r *recorder) saw(s said) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Thread != "" {
		r.threads[s.Thread] = true
	}
	r.said = append(r.said, s)
	r.write("said", s)
}

func (r *recorder) sawThread(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.threads[id] = true
}

func (r *recorder) sawClick(c decided) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clicks = append(r.clicks, c)
	r.write("clicks", c)
}

func (r *recorder) sawMove(m moved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moves = append(r.moves, m)
	r.write("moves", m)
}

func (r *recorder) sawFault(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
	r.write("faults", f)
}

// follow records every state of every message until ctx ends.
func (r *recorder) follow(ctx context.Context, w web) {
	after := 0
	for ctx.Err() == nil {
		after, _ = w.follow(ctx, after, func(m message) { // a broken stream is resumed
			r.mu.Lock()
			defer r.mu.Unlock()
			r.versions[m.ID] = append(r.versions[m.ID], m)
			r.write("events", m)
		})
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// watch holds on to the journal of every sandbox until ctx ends, so that it
// outlives the sandbox.
func (r *recorder) watch(ctx context.Context) {
	for {
		r.takeHold(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(witnessEvery):
		}
	}
}

// takeHold opens the journals that are new. Whatever cannot be opened now is
// tried again or was removed: then no exec has written to it, as sandboxes live
// for seconds.
func (r *recorder) takeHold(ctx context.Context) {
	for i, host := range r.hosts {
		boxes, _ := filepath.Glob(filepath.Join(host, "sandboxes", "*", "sandbox.json")) // the pattern is well formed
		for _, file := range boxes {
			dir := filepath.Dir(file)
			name := fmt.Sprintf("%d-%s", i+1, filepath.Base(dir))
			if strings.Contains(filepath.Base(dir), ".") || r.held(name) {
				continue // one that is being made or removed
			}
			var about struct {
				ID         string `json:"id"`
				Generation int    `json:"generation"`
			}
			data, err := os.ReadFile(file)
			if err != nil || json.Unmarshal(data, &about) != nil {
				continue
			}
			r.hold(name, filepath.Join(dir, "workspace"), witnessed{Host: host, WorkflowID: about.ID, Generation: about.Generation})
		}
	}
	if r.engine == nil {
		return
	}
	boxes, err := r.engine.sandboxes(ctx)
	if err != nil {
		return // it is down, and so are they
	}
	for _, b := range boxes {
		name := "engine-" + strings.TrimPrefix(b.container, "/")
		if b.whole && !r.held(name) {
			r.hold(name, b.workspace, witnessed{Host: b.Host, WorkflowID: b.WorkflowID, Generation: b.Generation})
		}
	}
}

// hold takes hold of the journal of a workspace: of the file, whatever becomes of
// its name. A link would do that too, but not out of an engine's mounts.
func (r *recorder) hold(name, workspace string, w witnessed) {
	f, err := os.Open(filepath.Join(workspace, journal))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.file = f
	r.holds[name] = w
}

func (r *recorder) held(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.holds[name]
	return ok
}

// journals reads all that was witnessed.
func (r *recorder) journals(ctx context.Context) ([]witnessed, error) {
	r.takeHold(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []witnessed
	for _, name := range slices.Sorted(maps.Keys(r.holds)) {
		w := r.holds[name]
		data, err := io.ReadAll(io.NewSectionReader(w.file, 0, maxJournal))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, "witness", name), data, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a witness: %w", err)
		}
		for text := range strings.Lines(string(data)) {
			w.Lines = append(w.Lines, parseLine(text))
		}
		all = append(all, w)
	}
	return all, nil
}

func parseLine(text string) line {
	f := strings.Fields(text)
	for len(f) < 3 {
		f = append(f, "")
	}
	// Where nothing isolates, the mark is the record's path with a semicolon.
	return line{f[0], f[1], strings.TrimSuffix(f[2][strings.LastIndexByte(f[2], '/')+1:], ";")}
}
