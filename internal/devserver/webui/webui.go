// Package webui serves Temporal's own Web UI beside the embedded server, for
// looking at sessions as workflows. It is read-only: what changes a session
// goes through the chat, where it is known who did it.
//
// It has no login. It listens on loopback, and answers only requests that name
// a loopback host, so that a web page elsewhere cannot reach it by pointing its
// own name at this machine.
package webui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"github.com/countersign/countersign/internal/telemetry"
)

// ErrPortTaken is returned when Options.Port is in use.
var ErrPortTaken = errors.New("port is taken")

// Options configure [Start].
type Options struct {
	// TemporalAddress is the host:port of the Temporal frontend.
	TemporalAddress string
	// Namespace is the one that the page opens with.
	Namespace string
	// Port on loopback; 0 takes a free one.
	Port int
	// Log gets errors; nil drops them.
	Log *slog.Logger
}

// Server is a running Web UI.
type Server struct {
	http *http.Server
	url  string
}

// Start serves the Web UI until [Server.Stop].
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	handler, err := newHandler(o)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %w", addr, ErrPortTaken)
	case err != nil:
		return nil, fmt.Errorf("listening for the Web UI: %w", err)
	}
	s := &Server{
		http: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)},
		url:  "http://" + l.Addr().String(),
	}
	go func() {
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("Web UI ended", telemetry.KeyError, err)
		}
	}()
	return s, nil
}

// URL is the page's address, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Stop ends the Web UI, with requests that are under way.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stopping the Web UI: %w", err), s.http.Close())
	}
	return nil
}

func newHandler(o Options) (http.Handler, error) {
	provider, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: o.TemporalAddress,
		DefaultNamespace:    o.Namespace,
		EnableUI:            true,
		DisableWriteActions: true,
		DisableNewsFetch:    true,
		HideLogs:            true,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the Web UI: %w", err)
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, fmt.Errorf("opening the Web UI's pages: %w", err)
	}
	pages, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, fmt.Errorf("opening the Web UI's pages: %w", err)
	}
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.Recover(), middleware.Secure(), middleware.Gzip())
	route.SetHealthRoute(e)
	forward := headers.WithForwardHeaders([]string{"Caller-Type"})
	if err := route.SetAPIRoutes(e, provider, []api.Middleware{forward}); err != nil {
		return nil, fmt.Errorf("connecting the Web UI: %w", err)
	}
	if err := route.SetUIRoutes(e, "", pages); err != nil {
		return nil, fmt.Errorf("serving the Web UI's pages: %w", err)
	}
	route.SetRenderRoute(e, "")
	return onlyLoopback(e), nil
}

// onlyLoopback refuses requests whose Host is a name or another address.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if h, _, err := net.SplitHostPort(r.Host); err == nil {
			name = h
		}
		if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this address is not served here", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
