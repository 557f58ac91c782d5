package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
)

// Parts that --without leaves out.
const (
	partWorker = "worker"
	partBot    = "bot"
)

// runCmd is cmd/dev without a command's name.
type runCmd struct {
	process.Flags
	Workspace string   `help:"Directory that a session's workspace is a copy of; it is never written. The working directory by default (sandbox.workspace)." placeholder:"DIR"`
	Model     string   `help:"Model of new sessions; 'offline' needs no key (openai.model)." placeholder:"NAME"`
	WebListen string   `help:"host:port of the web chat; port 0 takes a free one (web.listen)." placeholder:"ADDR"`
	Behind    string   `hidden:"" help:"host:port that workers and bots on the directory are to dial instead of the server's own: a proxy before it." placeholder:"ADDR"`
	DBURL     string   `name:"db-url" help:"PostgreSQL server for Temporal's data instead of a file in the data directory: postgres://user:password@host:port. Its databases temporal and temporal_visibility are made where they are missing." placeholder:"URL" env:"COUNTERSIGN_DEV_DB_URL"`
	Without   []string `help:"Leave parts out, to run them as processes of their own: worker, bot." enum:"worker,bot" placeholder:"PART"`
}

// Run serves until ctx ends.
func (c *runCmd) Run(ctx context.Context, e *process.Env) error {
	cfg, err := c.settings(e)
	if err != nil {
		return err
	}
	d := &dev{config: cfg, env: e, behind: c.Behind, database: c.DBURL, without: map[string]bool{}}
	for _, part := range c.Without {
		d.without[part] = true
	}
	if err := d.start(ctx); err != nil {
		return errors.Join(err, d.Stop())
	}
	d.announce(e.Stdout)
	return process.Serve(ctx, d)
}

func (c *runCmd) settings(e *process.Env) (*config.Config, error) {
	values, err := c.Values(map[string]string{
		"sandbox.workspace": c.Workspace, "openai.model": c.Model, "web.listen": c.WebListen,
	})
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working directory: %w", err)
	}
	cfg, err := config.Load(config.Sources{
		File: c.Config, Environ: e.Environ, Flags: values, Embedded: true, Defaults: devDefaults(here),
	})
	if err != nil {
		return nil, err
	}
	return cfg, checkSettings(cfg)
}

// devDefaults are the settings whose defaults differ on a laptop, where one
// person asks and approves.
func devDefaults(workspace string) map[string]string {
	return map[string]string{
		"approvals.approvers":                   "*",
		"approvals.risky.requester_may_approve": "true",
		"sandbox.workspace":                     workspace,
		"sandbox.local.allow_unisolated":        "true",
	}
}

// checkSettings refuses what only cmd/dev must not have.
func checkSettings(cfg *config.Config) error {
	host, _, err := net.SplitHostPort(cfg.Web.Listen)
	if err != nil {
		return fmt.Errorf("web.listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("web.listen: %s is not a loopback address; in cmd/dev one token speaks for everybody, "+
			"so it is served on this machine only", cfg.Web.Listen)
	}
	info, err := os.Stat(cfg.Sandbox.Workspace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("sandbox.workspace: there is no directory %s", cfg.Sandbox.Workspace)
	case err != nil:
		return fmt.Errorf("sandbox.workspace: %w", err)
	case !info.IsDir():
		return fmt.Errorf("sandbox.workspace: %s is not a directory", cfg.Sandbox.Workspace)
	}
	return nil
}

func (d *dev) announce(w io.Writer) {
	_, _ = fmt.Fprintln(w, "Countersign is up. Stop it with Ctrl-C; threads go on at the next start.")
	lines := [][2]string{
		{"Chat", d.link}, {"Temporal's Web UI", d.published.UIURL},
		{"Temporal", d.published.TemporalAddress}, {"Data", d.config.DataDir},
	}
	for _, l := range lines {
		if l[1] != "" {
			_, _ = fmt.Fprintf(w, "  %-18s %s\n", l[0], l[1])
		}
	}
	if d.config.OpenAI.Offline() {
		_, _ = fmt.Fprintln(w, "The built-in offline model answers. For a real one set OPENAI_API_KEY and start again.")
	}
}
