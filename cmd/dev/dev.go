package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/devserver"
	"github.com/countersign/countersign/internal/devserver/webui"
	"github.com/countersign/countersign/internal/ports"
)

// closeWithin bounds how long a stopping cmd/dev waits for open pages of the
// Web UI.
const closeWithin = 2 * time.Second

// dev is everything in one process. What runs is stopped in the reverse order
// of its start.
type dev struct {
	config  *config.Config
	env     *process.Env
	without map[string]bool
	// database is the PostgreSQL server of Temporal's data; empty is a file.
	database string
	// behind is the address of a proxy before the server, which others are told.
	behind string

	log       *slog.Logger
	dir       *datadir.Dir
	client    client.Client
	published datadir.Dev
	// before is what the last cmd/dev on the directory published, if it was
	// killed.
	before datadir.Dev
	link   string
	failed chan error
	undo   []func() error
}

// start brings all parts up, then publishes how to reach them.
func (d *dev) start(ctx context.Context) error {
	d.failed = make(chan error, 2)
	for _, step := range []func(context.Context) error{
		d.openDirectory, d.startTemporal, d.startWebUI, d.shareSettings, d.startWorker, d.startBot, d.publish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Failed gives the error of the first part that serves no longer.
func (d *dev) Failed() <-chan error { return d.failed }

// Stop ends what was started, the last first.
func (d *dev) Stop() error {
	var err error
	for i := len(d.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, d.undo[i]())
	}
	d.undo = nil
	return err
}

func (d *dev) onStop(f func() error) { d.undo = append(d.undo, f) }

func (d *dev) openDirectory(context.Context) error {
	var err error
	if d.dir, err = datadir.Open(d.config.DataDir); err != nil {
		return err
	}
	lock, err := d.dir.LockDev()
	if err != nil {
		return err
	}
	d.onStop(lock.Release)
	// Whoever waits for dev.json must not take a killed process's for ours.
	if d.before, _, err = d.dir.ReadDev(); err != nil {
		d.before = datadir.Dev{}
	}
	if err := d.dir.RemoveDev(); err != nil {
		return err
	}
	token, err := d.dir.WebToken(d.config.Web.Token)
	if err != nil {
		return err
	}
	d.config.Web.Token = token
	d.log, err = process.Logger(d.env, d.config)
	return err
}

// startTemporal prefers the address that it had here before, so that workers
// of their own find it again after a restart.
func (d *dev) startTemporal(ctx context.Context) error {
	before, err := d.dir.ReadSettings()
	if err != nil {
		return err
	}
	port := portOf(d.before.TemporalAddress)
	if port == 0 && before != nil && d.behind == "" {
		port = portOf(before.TemporalAddress)
	}
	o := devserver.Options{
		DataDir: d.dir.Path(), FrontendPort: port, SearchAttributes: workerapp.SearchAttributes(), Log: process.Calm(d.log),
		DatabaseURL: d.database,
		Versions:    d.config.Worker.BuildID != "",
	}
	s, err := devserver.Start(ctx, o)
	if errors.Is(err, devserver.ErrPortTaken) {
		o.FrontendPort = 0
		s, err = devserver.Start(ctx, o)
	}
	if err != nil {
		return err
	}
	d.onStop(s.Stop)
	if d.client, err = s.Dial(ctx, ""); err != nil {
		return err
	}
	d.onStop(func() error { d.client.Close(); return nil })
	d.config.Temporal.Address, d.config.Temporal.Namespace = s.Address(), s.Namespace()
	d.published = datadir.Dev{
		PID: os.Getpid(), TemporalAddress: s.Address(), Namespace: s.Namespace(), Token: d.config.Web.Token.Reveal(),
	}
	return nil
}

func (d *dev) startWebUI(context.Context) error {
	o := webui.Options{TemporalAddress: d.published.TemporalAddress, Namespace: d.published.Namespace, Log: d.log}
	if u, err := url.Parse(d.before.UIURL); err == nil {
		o.Port = portOf(u.Host)
	}
	var s *webui.Server
	var err error
	if o.Port != 0 {
		s, err = webui.Start(o)
	}
	if o.Port == 0 || errors.Is(err, webui.ErrPortTaken) {
		if o.Port, err = ports.Free(); err != nil {
			return err
		}
		s, err = webui.Start(o)
	}
	if err != nil {
		return err
	}
	d.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		return s.Stop(ctx)
	})
	d.published.UIURL = s.URL()
	return nil
}

// shareSettings lets workers and bots on the directory decide as this process
// does.
func (d *dev) shareSettings(context.Context) error {
	if d.without[partBot] {
		if err := d.choosePort(); err != nil {
			return err
		}
	}
	return d.dir.WriteSettings(d.config.Snapshot(cmp.Or(d.behind, d.published.TemporalAddress), d.published.Namespace))
}

// choosePort turns port 0 into a free one, because a bot of its own could not
// say which it took.
func (d *dev) choosePort() error {
	host, port, err := net.SplitHostPort(d.config.Web.Listen)
	if err != nil {
		return fmt.Errorf("web.listen: %w", err)
	}
	if port == "0" {
		free, err := ports.Free()
		if err != nil {
			return err
		}
		port = strconv.Itoa(free)
	}
	d.config.Web.Listen = net.JoinHostPort(host, port)
	d.published.WebURL = "http://" + d.config.Web.Listen
	return nil
}

func (d *dev) startWorker(ctx context.Context) error {
	if d.without[partWorker] {
		return nil
	}
	w, err := workerapp.Start(ctx, workerapp.Options{Config: d.config, Client: d.client, Dir: d.dir, Log: d.log})
	if err != nil {
		return err
	}
	d.watch(w)
	return nil
}

func (d *dev) startBot(ctx context.Context) error {
	if d.without[partBot] {
		return nil
	}
	b, err := botapp.Start(ctx, botapp.Options{
		Config: d.config, Client: d.client, Dir: d.dir, Log: d.log, Dev: true, WebToken: d.config.Web.Token,
	})
	if err != nil {
		return err
	}
	d.watch(b)
	d.published.WebURL, d.link = b.WebURL(), b.Link()
	return nil
}

// watch stops s with the rest, and the rest when s fails.
func (d *dev) watch(s process.Service) {
	gone := make(chan struct{})
	d.onStop(func() error { close(gone); return s.Stop() })
	go func() {
		select {
		case err := <-s.Failed():
			d.failed <- err
		case <-gone:
		}
	}()
}

func (d *dev) publish(context.Context) error {
	d.onStop(d.dir.RemoveDev)
	return d.dir.WriteDev(d.published)
}

// portOf returns the port of host:port, or 0 where there is none.
func portOf(address string) int {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return port
}
