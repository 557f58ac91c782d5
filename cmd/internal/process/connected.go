package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

// Connected is what a process that uses somebody else's Temporal server works
// with.
type Connected struct {
	Config *config.Config
	Dir    *datadir.Dir
	Log    *slog.Logger
	Client client.Client
	// FromDev says that the server and the settings are those of a cmd/dev on the
	// same data directory.
	FromDev bool
}

// Service is something that runs until it is stopped.
type Service interface {
	// Failed gives the error after which the service runs no longer.
	Failed() <-chan error
	// Stop ends it and waits for what it waits for.
	Stop() error
}

// Connected loads the settings, connects to Temporal, starts a service and
// stops it when ctx ends or it fails. While Temporal is away the start is tried
// again.
func (f Flags) Connected(
	ctx context.Context, e *Env, extra map[string]string,
	start func(context.Context, Connected) (Service, error),
) error {
	c, fromDev, err := f.Load(e, extra)
	if err != nil {
		return err
	}
	log, err := Logger(e, c)
	if err != nil {
		return err
	}
	dir, err := datadir.Open(c.DataDir)
	if err != nil {
		return err
	}
	t, err := dial(ctx, c, log)
	if err != nil {
		return err
	}
	defer t.Close()
	service, err := started(ctx, log, func(ctx context.Context) (Service, error) {
		return start(ctx, Connected{Config: c, Dir: dir, Log: log, Client: t, FromDev: fromDev})
	})
	if err != nil {
		return err
	}
	return Serve(ctx, service)
}

// started starts a service, again and again while Temporal is away.
func started(ctx context.Context, log *slog.Logger, start func(context.Context) (Service, error)) (Service, error) {
	for {
		service, err := start(ctx)
		if err == nil || !Away(err) {
			return service, err
		}
		log.Warn("Temporal went away during the start", telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialPause):
		}
	}
}

// Away reports an error by which Temporal was not reached: it comes back.
func Away(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// Once loads the settings, connects to Temporal and runs one thing.
func (f Flags) Once(ctx context.Context, e *Env, run func(context.Context, *config.Config, client.Client) error) error {
	c, _, err := f.Load(e, nil)
	if err != nil {
		return err
	}
	log, err := Logger(e, c)
	if err != nil {
		return err
	}
	t, err := dial(ctx, c, log)
	if err != nil {
		return err
	}
	defer t.Close()
	return run(ctx, c, t)
}

// Serve waits until ctx ends or a service fails, and stops them all, the last
// first.
func Serve(ctx context.Context, services ...Service) error {
	failed := make(chan error, len(services))
	for _, s := range services {
		go func() {
			select {
			case err := <-s.Failed():
				failed <- err
			case <-ctx.Done():
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for i := len(services) - 1; i >= 0; i-- {
		err = errors.Join(err, services[i].Stop())
	}
	return err
}

// dialPause is how long dial waits between two attempts.
const dialPause = 2 * time.Second

// dial connects, and keeps trying until ctx ends: where all is started at
// once, Temporal is up last.
func dial(ctx context.Context, c *config.Config, log *slog.Logger) (client.Client, error) {
	options, err := c.TemporalOptions()
	if err != nil {
		return nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(Calm(log))
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, control.OnServerTime())
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		t, err := client.DialContext(attempt, options)
		cancel()
		if err == nil {
			return t, nil
		}
		var denied *serviceerror.PermissionDenied
		if errors.As(err, &denied) {
			return nil, fmt.Errorf("temporal at %s refuses this process (%w): look at temporal.api_key and temporal.tls", options.HostPort, err)
		}
		log.Warn("Temporal does not answer yet", telemetry.KeyAddress, options.HostPort, telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while Temporal at %s did not answer: %w", options.HostPort, err)
		case <-time.After(dialPause):
		}
	}
}
