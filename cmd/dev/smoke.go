package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
)

const (
	// smokeStep bounds each step of the smoke test.
	smokeStep = time.Minute
	// smokePoll is how often the thread is looked at.
	smokePoll = 20 * time.Millisecond
)

// smokeCmd starts everything, runs the main job once and stops.
type smokeCmd struct {
	JSON     bool   `help:"Print one JSON object instead of lines." name:"json"`
	Greeting string `help:"What the agent has to find in README.md." default:"hello from the smoke test" placeholder:"TEXT"`
	Keep     string `help:"Keep the data directory here; cmd/dev --data-dir DIR then shows the thread." placeholder:"DIR"`
}

// smokeReport is what --json prints.
type smokeReport struct {
	OK         bool         `json:"ok"`
	Answer     string       `json:"answer"`
	WorkflowID string       `json:"workflow_id"`
	DataDir    string       `json:"data_dir"`
	MS         int64        `json:"ms"`
	Steps      []smokeTimed `json:"steps"`
}

type smokeTimed struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	MS    int64  `json:"ms"`
	Error string `json:"error"`
}

// smoke is one run.
type smoke struct {
	cmd       *smokeCmd
	env       *process.Env
	dev       *dev
	workspace string
	thread    string
	report    smokeReport
}

// Run runs the smoke test; it exits with 1 when a step fails.
func (c *smokeCmd) Run(ctx context.Context, e *process.Env) error {
	s := &smoke{cmd: c, env: e}
	began := time.Now()
	s.run(ctx)
	s.report.MS = time.Since(began).Milliseconds()
	if c.JSON {
		if err := json.NewEncoder(e.Stdout).Encode(s.report); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	} else {
		s.print(e.Stdout)
	}
	if !s.report.OK {
		return process.ExitError{Code: process.ExitFailed}
	}
	return nil
}

func (s *smoke) run(ctx context.Context) {
	clean, err := s.prepare()
	defer clean()
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"server", s.startServer}, {"worker", s.startWorker}, {"bot", s.startBot},
		{"session", s.ask}, {"command", s.awaitCommand}, {"answer", s.awaitAnswer},
	}
	for _, st := range steps {
		if err == nil {
			err = s.step(ctx, st.name, st.run)
		}
	}
	stopped := s.step(ctx, "shutdown", func(context.Context) error {
		if s.dev == nil {
			return nil
		}
		return s.dev.Stop()
	})
	if err != nil && len(s.report.Steps) == 1 {
		s.report.Steps[0] = smokeTimed{Name: "server", Error: err.Error()}
	}
	s.report.OK = err == nil && stopped == nil
}

func (s *smoke) step(ctx context.Context, name string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, smokeStep)
	defer cancel()
	began := time.Now()
	err := run(ctx)
	t := smokeTimed{Name: name, OK: err == nil, MS: time.Since(began).Milliseconds()}
	if err != nil {
		t.Error = err.Error()
	}
	s.report.Steps = append(s.report.Steps, t)
	return err
}

// prepare makes a workspace with the greeting and the settings. clean removes
// what is not to be kept.
func (s *smoke) prepare() (clean func(), err error) {
	temp, err := os.MkdirTemp("", "countersign-smoke-")
	if err != nil {
		return func() {}, fmt.Errorf("making a directory: %w", err)
	}
	clean = func() { _ = os.RemoveAll(temp) }
	s.workspace = filepath.Join(temp, "workspace")
	if err := os.Mkdir(s.workspace, 0o755); err != nil {
		return clean, fmt.Errorf("making the workspace: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.workspace, "README.md"), []byte(s.cmd.Greeting+"\n"), 0o644); err != nil {
		return clean, fmt.Errorf("writing the greeting: %w", err)
	}
	s.report.DataDir = s.cmd.Keep
	if s.report.DataDir == "" {
		s.report.DataDir = filepath.Join(temp, "data")
	}
	if s.report.DataDir, err = filepath.Abs(s.report.DataDir); err != nil {
		return clean, fmt.Errorf("finding the data directory: %w", err)
	}
	cfg, err := config.Load(config.Sources{Embedded: true, Defaults: devDefaults(s.workspace), Flags: map[string]string{
		"data_dir": s.report.DataDir, "openai.model": config.ModelOffline, "web.listen": "127.0.0.1:0", "log.level": "error",
	}})
	if err != nil {
		return clean, err
	}
	s.dev = &dev{config: cfg, env: s.env}
	return clean, nil
}

func (s *smoke) startServer(ctx context.Context) error {
	s.dev.failed = make(chan error, 2)
	for _, step := range []func(context.Context) error{s.dev.openDirectory, s.dev.startTemporal, s.dev.shareSettings} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *smoke) startWorker(ctx context.Context) error { return s.dev.startWorker(ctx) }

func (s *smoke) startBot(ctx context.Context) error {
	if err := s.dev.startBot(ctx); err != nil {
		return err
	}
	return s.dev.publish(ctx)
}

// ask opens the session as a person would.
func (s *smoke) ask(ctx context.Context) error {
	var reply struct {
		ThreadID string `json:"thread_id"`
	}
	err := s.call(ctx, http.MethodPost, "/channels/general/messages", map[string]string{
		"text": "/agent read the greeting with `cat README.md` and report it", "client_id": rand.Text(), // the directory may hold an earlier run
	}, &reply)
	if err != nil {
		return err
	}
	s.thread = reply.ThreadID
	var t smokeThread
	if err := s.call(ctx, http.MethodGet, "/threads/"+s.thread, nil, &t); err != nil {
		return err
	}
	s.report.WorkflowID = t.WorkflowID
	return nil
}

// smokeThread is what the smoke test looks at of a thread.
type smokeThread struct {
	WorkflowID string `json:"workflow_id"`
	Messages   []struct {
		Kind      string `json:"kind"`
		Text      string `json:"text"`
		ToolCalls []struct {
			State    string `json:"state"`
			ExitCode *int   `json:"exit_code"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

func (s *smoke) awaitCommand(ctx context.Context) error {
	return s.await(ctx, "the command did not end", func(t smokeThread) (bool, error) {
		for _, m := range t.Messages {
			for _, c := range m.ToolCalls {
				switch c.State {
				case "pending", "running":
				case "completed":
					if c.ExitCode == nil || *c.ExitCode != 0 {
						return false, errors.New("the command did not exit with 0")
					}
					return true, nil
				default:
					return false, fmt.Errorf("the command is %s", c.State)
				}
			}
		}
		return false, nil
	})
}

func (s *smoke) awaitAnswer(ctx context.Context) error {
	return s.await(ctx, "no answer came", func(t smokeThread) (bool, error) {
		for _, m := range t.Messages {
			if m.Kind != "answer" {
				continue
			}
			s.report.Answer = m.Text
			if !strings.Contains(m.Text, s.cmd.Greeting) {
				return false, errors.New("the answer lacks the greeting")
			}
			return true, nil
		}
		return false, nil
	})
}

func (s *smoke) await(ctx context.Context, what string, done func(smokeThread) (bool, error)) error {
	tick := time.NewTicker(smokePoll)
	defer tick.Stop()
	for {
		var t smokeThread
		if err := s.call(ctx, http.MethodGet, "/threads/"+s.thread, nil, &t); err != nil {
			return err
		}
		if ok, err := done(t); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case err := <-s.dev.Failed():
			return err
		case <-tick.C:
		}
	}
}

func (s *smoke) call(ctx context.Context, method, path string, in, out any) error {
	return s.dev.chat().call(ctx, method, path, in, out)
}

func (s *smoke) print(w io.Writer) {
	for _, st := range s.report.Steps {
		word := "ok"
		if !st.OK {
			word = "failed: " + st.Error
		}
		_, _ = fmt.Fprintf(w, "%-9s %5d ms  %s\n", st.Name, st.MS, word)
	}
	if s.report.OK {
		_, _ = fmt.Fprintf(w, "The main job works (%d ms).\n", s.report.MS)
	}
}
