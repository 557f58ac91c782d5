package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slower is how much longer something may take beside what must not slow it:
// generous, as machines that run tests have more to do.
func slower(alone time.Duration) time.Duration { return 5*alone + stretched(3*time.Second) }

// splitModel answers who says "hang" never, others with one shell command and,
// given its output, with an answer.
func splitModel(t testing.TB, command string) (base string, hung func() int) {
	t.Helper()
	var mu sync.Mutex
	waiting := 0
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusTeapot)
		case strings.Contains(string(data), "please hang"):
			mu.Lock()
			waiting++
			mu.Unlock()
			select {
			case <-r.Context().Done():
			case <-end:
			}
		case strings.Contains(string(data), "function_call_output"):
			gives(text("done"))(w, r)
		default:
			arguments, err := json.Marshal(map[string]any{"command": command, "cwd": nil, "timeout_seconds": nil})
			if err != nil {
				panic(err) // of strings
			}
			gives(asks(fmt.Sprintf("c%d", time.Now().UnixNano()), "shell", string(arguments)))(w, r)
		}
	}))
	t.Cleanup(func() { close(end); s.Close() })
	return s.URL + "/v1", func() int { mu.Lock(); defer mu.Unlock(); return waiting }
}

// Model calls that never return take nothing from the shell: a command approved
// meanwhile runs as soon as one approved before.
func TestABlockedModelDoesNotSlowAShell(t *testing.T) {
	t.Parallel()
	base, hung := splitModel(t, "sh s.sh")
	d := newDev(t, "--set", "openai.base_url="+base, "--model", "fake-1")
	d.env = []string{"OPENAI_API_KEY=" + modelKey}
	d.up(t)
	ada := d.as("ada")
	ids := []string{ada.opens(t, "run it"), ada.opens(t, "run it too")}
	took := make([]time.Duration, len(ids))
	const blocked = 40
	for i, id := range ids {
		m := ada.sees(t, id, "a request", waiting).pending()[0]
		began := time.Now()
		require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
		th := ada.sees(t, id, "the command has run", func(th thread) bool {
			calls := th.calls(1)
			return len(calls) == 1 && calls[0].State == "completed"
		})
		took[i] = time.Since(began)
		ran(t, th.calls(1)[0])
		require.Equal(t, "one\n", th.inWorkspace(t, "ran"))
		for n := 0; i == 0 && n < blocked; n++ {
			ada.opens(t, "please hang")
		}
		await(t, within, "the model is blocked", func() (int, bool) { n := hung(); return n, i > 0 || n >= blocked })
	}
	t.Logf("from the click to the output on the card: %v alone, %v beside %d blocked model calls", took[0], took[1], blocked)
	require.Less(t, took[1], slower(took[0]))
}

// With every place for a model call taken, a command still ends, is recorded and
// shown, and a turn that waits for its place is stopped.
func TestAFullModelPoolDoesNotSlowAShell(t *testing.T) {
	t.Parallel()
	const places = 2
	base, hung := splitModel(t, "sh s.sh")
	d := newDev(t, "--set", "openai.base_url="+base, "--model", "fake-1", "--set", fmt.Sprint("worker.model_calls=", places))
	d.env = []string{"OPENAI_API_KEY=" + modelKey}
	d.up(t)
	ada := d.as("ada")
	ids := []string{ada.opens(t, "run it"), ada.opens(t, "run it too")}
	took := make([]time.Duration, len(ids))
	for i, id := range ids {
		m := ada.sees(t, id, "a request", waiting).pending()[0]
		for n := 0; i == 1 && n < 2*places; n++ {
			ada.opens(t, "please hang")
		}
		await(t, within, "the pool is full", func() (int, bool) { n := hung(); return n, i == 0 || n >= places })
		began := time.Now()
		require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
		th := ada.sees(t, id, "the command has run", func(th thread) bool {
			calls := th.calls(1)
			return len(calls) == 1 && calls[0].State == "completed"
		})
		took[i] = time.Since(began)
		ran(t, th.calls(1)[0])
		require.Equal(t, "one\n", th.inWorkspace(t, "ran"))
		if i == 0 {
			ada.sees(t, id, "its answer", answered(1))
		}
	}
	t.Logf("from the click to the output on the card: %v alone, %v with the pool full", took[0], took[1])
	require.Less(t, took[1], slower(took[0]))
	require.GreaterOrEqual(t, hung(), places, "the pool was full all the time; a call that was given up for late was made again")
	th := ada.thread(t, ids[1])
	require.Empty(t, th.answer(1).ID, "its next model call waits")
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	ada.sees(t, ids[1], "it is stopped", over(1))
}

// While nothing can be posted, a session's model and shell go on; the chat has
// all of it, once, when it is back.
func TestASilentChatSlowsNeither(t *testing.T) {
	t.Parallel()
	d := newDev(t, "--without", "bot")
	d.listen = "127.0.0.1:" + freePort(t)
	d.up(t)
	b := d.bot(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo 0 >> log; "+untilGo+"`, then `echo 1 >> log`, `echo 2 >> log` and `echo 3 >> log`")
	th := ada.sees(t, id, "it runs", func(th thread) bool { return running(1)(th) && th.WorkspacePath != "" })
	b.kill()
	th.letGo(t)
	began := time.Now()
	log := filepath.Join(th.WorkspacePath, "log")
	await(t, 20*time.Second, "three more steps of model and shell without a chat", func() (string, bool) {
		data, err := os.ReadFile(log)
		return string(data), err == nil && string(data) == "0\n1\n2\n3\n"
	})
	t.Logf("three steps after %v", time.Since(began))
	d.bot(t)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Len(t, th.calls(1), 4)
	once(t, th)
	require.Equal(t, "0\n1\n2\n3\n", th.inWorkspace(t, "log"))
}

// A session with many commands at once starves no other.
func TestABusySessionStarvesNone(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	single := func(word string) time.Duration {
		began := time.Now()
		id := ada.opens(t, "`echo "+word+"`")
		ran(t, ada.sees(t, id, "its answer", answered(1)).calls(1)[0])
		return time.Since(began)
	}
	alone := single("alone")
	const many = 40
	busy := ada.opens(t, "all at once\n```parallel\n"+strings.Repeat("until [ -e go ]; do sleep 1; done; echo x >> log\n", many)+"```")
	ada.sees(t, busy, "many run", func(th thread) bool {
		n := 0
		for _, c := range th.calls(1) {
			if c.State == "running" {
				n++
			}
		}
		return n >= many/2
	})
	beside := single("beside")
	require.Empty(t, ada.thread(t, busy).answer(1).ID, "it was busy all the time")
	ada.thread(t, busy).letGo(t)
	t.Logf("one command, from the message to its answer: %v alone, %v beside %d of another session", alone, beside, many)
	require.Less(t, beside, slower(alone))
	th := ada.sees(t, busy, "the busy one ends", answered(1))
	require.Equal(t, strings.Repeat("x\n", many), th.inWorkspace(t, "log"))
}

// heard is a model that notes the user messages of the longest conversation it
// was given.
type heard struct {
	mu   sync.Mutex
	last string
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	h.mu.Lock()
	if len(data) > len(h.last) {
		h.last = string(data)
	}
	h.mu.Unlock()
	gives(text("heard"))(w, r)
}

func (h *heard) longest() string { h.mu.Lock(); defer h.mu.Unlock(); return h.last }

// burst is how many messages come at once.
const burst = 1500

// Many messages at once, over many runs of the session: each reaches the model
// once, in one turn.
func TestABurstOfMessages(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	d := newDev(t, "--without", "worker", "--set", "openai.base_url="+s.URL+"/v1", "--model", "fake-1")
	d.env = []string{"OPENAI_API_KEY=" + modelKey}
	d.up(t)
	d.worker(t, "--set", "openai.base_url="+s.URL+"/v1", "--model", "fake-1", "--force-continue-as-new", "5")
	ada := d.as("ada")
	id := ada.opens(t, "listen")
	ada.sees(t, id, "the answer", answered(1))
	began := time.Now()
	people := []string{"ada", "grace", "linus"}
	var all sync.WaitGroup
	for k := range 15 {
		c := d.as(people[k%len(people)])
		all.Go(func() {
			for n := k; n < burst; n += 15 {
				body := map[string]string{"text": fmt.Sprintf("item-%04d.", n), "client_id": fmt.Sprint("burst-", n)}
				for {
					status, data, err := c.request(http.MethodPost, "/threads/"+id+"/messages", body)
					if err == nil && status == http.StatusAccepted {
						break
					}
					if err != nil || status != http.StatusServiceUnavailable || time.Since(began) > within {
						t.Errorf("%d: %d %s %v", n, status, data, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	sent := time.Since(began)
	ada.says(t, id, "that was all.")
	await(t, 90*time.Second, "the model hears the last", func() (string, bool) {
		got := h.longest()
		return tail(got, 200), strings.Contains(got, "that was all.")
	})
	t.Logf("%d messages sent in %v, heard after %v", burst, sent, time.Since(began))
	ada.sees(t, id, "it is at rest", func(th thread) bool {
		turns := th.all("turn")
		return len(turns) > 0 && over(len(turns))(th) && len(th.all("answer")) == len(turns)
	})
	conversation := h.longest()
	for n := range burst {
		require.Equal(t, 1, strings.Count(conversation, fmt.Sprintf("item-%04d.", n)), "message %d", n)
	}
	once(t, ada.thread(t, id))
}
