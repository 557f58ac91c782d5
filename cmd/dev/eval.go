package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// evalTaskWithin bounds one task.
	evalTaskWithin = 5 * time.Minute
	// evalPoll is how often a thread is looked at.
	evalPoll = 200 * time.Millisecond
)

// evalCmd gives a real model a handful of small tasks and checks what it did.
type evalCmd struct {
	Names []string `arg:"" optional:"" help:"Tasks to run; all by default." placeholder:"TASK"`
	Model string   `help:"The model (openai.model)." placeholder:"NAME"`
	Set   []string `help:"Set a setting: KEY=VALUE." placeholder:"KEY=VALUE" sep:"none"`
	JSON  bool     `help:"Print one JSON object instead of lines." name:"json"`
}

// evalReport is what --json prints.
type evalReport struct {
	Model string `json:"model"`
	// Skipped says why nothing was run.
	Skipped string       `json:"skipped,omitempty"`
	Results []evalResult `json:"results"`
}

type evalResult struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	MS     int64   `json:"ms"`
	Tokens int64   `json:"tokens"`
	Cost   float64 `json:"cost,omitempty"`
	Calls  int     `json:"calls"`
	Error  string  `json:"error,omitempty"`
}

// evaluation is one run.
type evaluation struct {
	dev       *dev
	workspace string
}

// Run runs the tasks; it exits with 1 when one fails, with 2 for an unknown name,
// and with 0, saying so, where there is no model to ask.
func (c *evalCmd) Run(ctx context.Context, e *process.Env) error {
	tasks := evalTasks()
	if len(c.Names) > 0 {
		for _, n := range c.Names {
			if !slices.ContainsFunc(tasks, func(t evalTask) bool { return t.name == n }) {
				_, _ = fmt.Fprintf(e.Stderr, "there is no task %q; there is: %s\n", n, taskNames(tasks))
				return process.ExitError{Code: process.ExitUsage}
			}
		}
		tasks = slices.DeleteFunc(tasks, func(t evalTask) bool { return !slices.Contains(c.Names, t.name) })
	}
	report, err := c.run(ctx, e, tasks)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := json.NewEncoder(e.Stdout).Encode(report); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	} else {
		report.print(e.Stdout)
	}
	if slices.ContainsFunc(report.Results, func(r evalResult) bool { return !r.OK }) {
		return process.ExitError{Code: process.ExitFailed}
	}
	return nil
}

func taskNames(tasks []evalTask) string {
	var names []string
	for _, t := range tasks {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func (c *evalCmd) run(ctx context.Context, e *process.Env, tasks []evalTask) (report evalReport, err error) {
	report.Results = []evalResult{}
	temp, err := os.MkdirTemp("", "countersign-eval-")
	if err != nil {
		return report, fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	v := &evaluation{workspace: filepath.Join(temp, "workspace")}
	if err := v.fill(tasks); err != nil {
		return report, err
	}
	values, err := process.Flags{Set: c.Set}.Values(map[string]string{
		"data_dir": filepath.Join(temp, "data"), "openai.model": c.Model, "web.listen": "127.0.0.1:0", "log.level": "error",
	})
	if err != nil {
		return report, err
	}
	cfg, err := config.Load(config.Sources{Environ: e.Environ, Flags: values, Embedded: true, Defaults: devDefaults(v.workspace)})
	if err != nil {
		return report, err
	}
	report.Model = cfg.OpenAI.Model
	if cfg.OpenAI.Offline() {
		report.Skipped = "there is no key: set OPENAI_API_KEY (or openai.base_url) to ask a real model"
		return report, nil
	}
	v.dev = &dev{config: cfg, env: e, without: map[string]bool{}}
	defer func() { err = errors.Join(err, v.dev.Stop()) }()
	if err := v.dev.start(ctx); err != nil {
		return report, err
	}
	for _, t := range tasks {
		report.Results = append(report.Results, v.try(ctx, t))
	}
	return report, nil
}

// fill writes the tasks' files, each task's in a directory of its name.
func (v *evaluation) fill(tasks []evalTask) error {
	for _, t := range tasks {
		for name, text := range t.files {
			full := filepath.Join(v.workspace, t.name, name)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				return fmt.Errorf("making the workspace: %w", err)
			}
			if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
				return fmt.Errorf("writing a task's file: %w", err)
			}
		}
	}
	if err := os.MkdirAll(v.workspace, 0o755); err != nil {
		return fmt.Errorf("making the workspace: %w", err)
	}
	return nil
}

// evalThread is what an evaluation looks at of a thread.
type evalThread struct {
	WorkspacePath string `json:"workspace_path"`
	Messages      []struct {
		ID        string `json:"id"`
		Kind      string `json:"kind"`
		Text      string `json:"text"`
		ToolCalls []struct {
			Command  string `json:"command"`
			State    string `json:"state"`
			ExitCode *int   `json:"exit_code"`
		} `json:"tool_calls"`
		Approval *struct {
			State string `json:"state"`
		} `json:"approval"`
		Turn *struct {
			State string `json:"state"`
			Error string `json:"error"`
			Usage struct {
				Input  int64 `json:"input"`
				Output int64 `json:"output"`
				Micros int64 `json:"micros"`
			} `json:"usage"`
		} `json:"turn"`
	} `json:"messages"`
}

// over reports whether the answer stands and the turn's card shows how it ended.
func (t evalThread) over() bool {
	answered, done := false, false
	for _, m := range t.Messages {
		answered = answered || m.Kind == "answer"
		done = done || m.Turn != nil && m.Turn.State == string(workflows.TurnDone)
	}
	return answered && done
}

// outcome is what came of a task, for its check.
type outcome struct {
	answer   string
	commands []string
	// passed are the commands that exited with 0.
	passed []string
	dir    string
}

func (o outcome) file(name string) string {
	data, err := os.ReadFile(filepath.Join(o.dir, name))
	if err != nil {
		return ""
	}
	return string(data)
}

func (o outcome) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(o.dir, name))
	return err == nil
}

// try runs one task: ada asks, and grace approves or denies what is risky.
func (v *evaluation) try(ctx context.Context, t evalTask) evalResult {
	ctx, cancel := context.WithTimeout(ctx, evalTaskWithin)
	defer cancel()
	began := time.Now()
	r := evalResult{Name: t.name}
	th, err := v.ask(ctx, t)
	r.MS = time.Since(began).Milliseconds()
	o := outcome{dir: filepath.Join(th.WorkspacePath, t.name)}
	for _, m := range th.Messages {
		if m.Kind == "answer" {
			o.answer = m.Text
		}
		for _, c := range m.ToolCalls {
			r.Calls++
			o.commands = append(o.commands, c.Command)
			if c.State == "completed" && c.ExitCode != nil && *c.ExitCode == 0 {
				o.passed = append(o.passed, c.Command)
			}
		}
		if m.Turn != nil {
			r.Tokens, r.Cost = m.Turn.Usage.Input+m.Turn.Usage.Output, float64(m.Turn.Usage.Micros)/1e6
		}
	}
	if err == nil {
		err = t.check(o)
	}
	r.OK = err == nil
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func (v *evaluation) ask(ctx context.Context, t evalTask) (evalThread, error) {
	ada, grace := v.dev.chat(), v.dev.chat()
	grace.as = "grace"
	var reply struct {
		ThreadID string `json:"thread_id"`
	}
	var th evalThread
	err := ada.call(ctx, http.MethodPost, "/channels/general/messages", map[string]string{
		"text": "/agent run -- In the directory " + t.name + ": " + t.task, "client_id": "eval-" + t.name,
	}, &reply)
	if err != nil {
		return th, err
	}
	button := "approve"
	if t.deny {
		button = "deny"
	}
	tick := time.NewTicker(evalPoll)
	defer tick.Stop()
	for {
		if err := ada.call(ctx, http.MethodGet, "/threads/"+reply.ThreadID, nil, &th); err != nil {
			return th, err
		}
		for _, m := range th.Messages {
			switch {
			case m.Approval != nil && m.Approval.State == "pending":
				var ignored struct{}
				_ = grace.call(ctx, http.MethodPost, "/messages/"+m.ID+"/click", map[string]any{"button": button, "values": map[string]any{"reason": "not now"}}, &ignored)
			case m.Turn != nil && m.Turn.State == "failed":
				return th, errors.New("the turn failed: " + m.Turn.Error)
			}
		}
		if th.over() {
			return th, nil
		}
		select {
		case <-ctx.Done():
			return th, errors.New("it was not done in time")
		case err := <-v.dev.Failed():
			return th, err
		case <-tick.C:
		}
	}
}

func (r evalReport) print(w io.Writer) {
	if r.Skipped != "" {
		_, _ = fmt.Fprintf(w, "Nothing was run: %s.\n", r.Skipped)
		return
	}
	passed := 0
	for _, one := range r.Results {
		word := "ok"
		if one.OK {
			passed++
		} else {
			word = "failed: " + one.Error
		}
		_, _ = fmt.Fprintf(w, "%-10s %6.1f s  %2d calls  %7d tokens  %s\n", one.Name, float64(one.MS)/1e3, one.Calls, one.Tokens, word)
	}
	_, _ = fmt.Fprintf(w, "%s: %d of %d.\n", r.Model, passed, len(r.Results))
}
