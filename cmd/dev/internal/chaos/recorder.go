package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// fault is what was done to a part.
type fault struct {
	Part string    `json:"part"`
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
}

// recorder keeps what happened at every edge, in memory and in the run's
// directory.
type recorder struct {
	dir   string
	hosts []string // data directories

	mu       sync.Mutex
	said     []said
	clicks   []decided
	faults   []fault
	threads  map[string]bool
	versions map[string][]message // every state of a message that was seen, by ID
	holds    map[string]witnessed // witnessed sandboxes by the witness's file
	out      map[string]*os.File
}

func newRecorder(dir string, hosts []string) (*recorder, error) {
	r := &recorder{
		dir: dir, hosts: hosts, threads: map[string]bool{}, versions: map[string][]message{},
		holds: map[string]witnessed{}, out: map[string]*os.File{},
	}
	for _, name := range []string{"said", "clicks", "faults", "events"} {
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
		r.takeHold()
		select {
		case <-ctx.Done():
			return
		case <-time.After(witnessEvery):
		}
	}
}

// takeHold links the journals that are new. Whatever cannot be linked now is
// tried again or was removed: then no exec has written to it, as sandboxes live
// for seconds.
func (r *recorder) takeHold() {
	for i, host := range r.hosts {
		boxes, _ := filepath.Glob(filepath.Join(host, "sandboxes", "*", "sandbox.json")) // the pattern is well formed
		for _, file := range boxes {
			box := filepath.Dir(file)
			hold := filepath.Join(r.dir, "witness", fmt.Sprintf("%d-%s", i+1, filepath.Base(box)))
			if strings.Contains(filepath.Base(box), ".") || r.held(hold) {
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
			err = os.Link(filepath.Join(box, "workspace", journal), hold)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				continue
			}
			r.mu.Lock()
			r.holds[hold] = witnessed{Host: host, WorkflowID: about.ID, Generation: about.Generation}
			r.mu.Unlock()
		}
	}
}

func (r *recorder) held(hold string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.holds[hold]
	return ok
}

// journals reads all that was witnessed.
func (r *recorder) journals() ([]witnessed, error) {
	r.takeHold()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []witnessed
	for _, hold := range slices.Sorted(maps.Keys(r.holds)) {
		data, err := os.ReadFile(hold)
		if err != nil {
			return nil, fmt.Errorf("reading a witness: %w", err)
		}
		w := r.holds[hold]
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
