package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
)

// apartWithin bounds the start of a process on a busy machine.
const apartWithin = 60 * time.Second

// apart is a stack whose worker and bot are processes of their own: they can be
// weighed and killed alone.
type apart struct {
	*stack
	bin    map[string]string
	worker *part
	bot    *part
	flags  []string // of the worker
}

// startApart starts a stack and its processes. Flags are the worker's.
func startApart(ctx context.Context, e *process.Env, flags ...string) (*apart, error) {
	s, err := startStack(ctx, e, partWorker, partBot)
	if err != nil {
		return nil, err
	}
	a := &apart{stack: s, flags: flags}
	s.alive = a.alive
	if err := a.startParts(ctx); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

func (a *apart) startParts(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if a.bin, err = siblings(ctx, self, a.temp); err != nil {
		return err
	}
	if a.bot, err = a.launch("bot"); err != nil {
		return err
	}
	if err := a.startWorker(); err != nil {
		return err
	}
	return a.poll(ctx, apartWithin, "the bot answers", func() (bool, error) {
		return a.chat().call(ctx, "GET", "/meta", nil, &struct{}{}) == nil, a.alive()
	})
}

func (a *apart) startWorker() (err error) {
	a.worker, err = a.launch("worker", a.flags...)
	return err
}

func (a *apart) launch(name string, flags ...string) (*part, error) {
	p := &part{log: filepath.Join(a.temp, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(a.bin[name], append([]string{"--data-dir", a.config.DataDir}, flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.temp, log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.cmd = cmd
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	return p, nil
}

// part is a process of the stack.
type part struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// died is what the process last said, where it has ended.
func (p *part) died() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.ended:
	default:
		return nil
	}
	said, _ := os.ReadFile(p.log) // the exit code is told all the same
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("%s has ended with %d: %s", p.cmd.Path, p.cmd.ProcessState.ExitCode(), lines[len(lines)-1])
}

// alive is an error where a process has ended by itself.
func (a *apart) alive() error { return errors.Join(a.bot.died(), a.worker.died()) }

// kill is kill -9.
func (p *part) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
}

func (a *apart) stop() error {
	a.worker.kill()
	a.bot.kill()
	return a.stack.stop()
}

// poll waits until ok says so.
func (a *apart) poll(ctx context.Context, within time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-time.After(smokePoll):
		}
	}
}

// residentKB is a process's resident memory.
func residentKB(p *part) (float64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("reading a process's memory: %w", err)
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kb, err := strconv.ParseFloat(strings.Fields(string(rest))[0], 64)
			if err != nil {
				return 0, fmt.Errorf("reading a process's memory: %w", err)
			}
			return kb, nil
		}
	}
	return 0, errors.New("the system does not tell a process's memory")
}
