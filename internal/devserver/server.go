// Package devserver runs a Temporal server inside this process, in memory or
// on one SQLite file, for cmd/dev and for tests. It links the whole server:
// nothing else may import it.
//
// What a workflow has done survives a SIGKILL of the process: every write is in
// the file's write-ahead log before the server answers. It does not survive a
// power loss (synchronous=NORMAL); a cluster does, this is for one machine.
//
// The server listens on loopback only and has no authentication: whoever may
// open a TCP connection on this machine may use it.
package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"github.com/countersign/countersign/internal/ports"
	"github.com/countersign/countersign/internal/telemetry"
)

// DefaultNamespace is registered when [Options] name none.
const DefaultNamespace = "default"

// readyPoll is how often a starting server is asked whether it answers.
const readyPoll = 20 * time.Millisecond

// attributesKnown is when all parts of the server know attributes that were added to
// a namespace: each reads it anew every 2 s (system.namespaceCacheRefreshInterval).
const attributesKnown = 2500 * time.Millisecond

// Options configure [Start].
type Options struct {
	// DataDir is the existing directory of the SQLite file temporal.db. Two
	// processes must not share it: the caller locks it. Unused when InMemory.
	DataDir string
	// DatabaseURL is a PostgreSQL server that keeps everything instead, in its
	// databases temporal and temporal_visibility, which are made where they are
	// missing: postgres://user:password@host:port, with the driver's attributes
	// (sslmode=disable) as a query.
	DatabaseURL string
	// InMemory keeps everything in memory instead.
	InMemory bool
	// FrontendPort is the port that clients dial; 0 takes a free one. A taken
	// one is [ErrPortTaken].
	FrontendPort int
	// Namespaces are registered at start; none means [DefaultNamespace].
	Namespaces []string
	// SearchAttributes are registered in each of the namespaces, also where the
	// namespace exists already and lacks one.
	SearchAttributes map[string]enumspb.IndexedValueType
	// Versions lets worker versions be served, which takes workers of the server's
	// own in each namespace.
	Versions bool
	// Retention is how long a closed workflow can be looked up; 0 means 30 days.
	Retention time.Duration
	// Log gets the server's warnings and errors; nil drops them.
	Log *slog.Logger

	// asReleased leaves the server's own poll rates, for the test that measures
	// what raising them gains.
	asReleased bool
}

// ErrPortTaken is returned when Options.FrontendPort is in use.
var ErrPortTaken = ports.ErrTaken

// Server is a running server.
type Server struct {
	inner      temporal.Server
	address    string
	namespaces []string
	log        *slog.Logger
	stopping   *atomic.Bool
}

// Start starts a server and returns when it answers for each namespace. ctx
// bounds the start only. Stop it when done.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = withDefaults(o)
	taken, release, err := ports.Take(len(temporal.DefaultServices), o.FrontendPort)
	if err != nil {
		return nil, err
	}
	defer release()
	s := &Server{address: ports.Address(taken[0]), namespaces: o.Namespaces, log: o.Log, stopping: new(atomic.Bool)}
	ready := new(atomic.Bool)
	out := logger{out: o.Log.With(telemetry.KeyComponent, "temporal"), ready: ready, stopping: s.stopping}
	cfg, err := serverConfig(o, taken)
	if err != nil {
		return nil, err
	}
	if err := prepareStore(o, cfg, out); err != nil {
		return nil, err
	}
	release() // the server listens itself
	s.inner, err = temporal.NewServer(serverOptions(o, cfg, taken, out)...)
	if err != nil {
		return nil, fmt.Errorf("making the embedded Temporal server: %w", err)
	}
	if err := s.inner.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded Temporal server: %w", err)
	}
	if err := s.becomeReady(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	ready.Store(true)
	return s, nil
}

func withDefaults(o Options) Options {
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{DefaultNamespace}
	}
	if o.Retention == 0 {
		o.Retention = 30 * 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// Address is the host:port to dial.
func (s *Server) Address() string { return s.address }

// Namespace is the first of the registered namespaces.
func (s *Server) Namespace() string { return s.namespaces[0] }

// Dial connects a client to namespace, or to the first one when it is empty.
// The caller closes it.
func (s *Server) Dial(ctx context.Context, namespace string) (client.Client, error) {
	if namespace == "" {
		namespace = s.Namespace()
	}
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(s.log),
		// Nothing is gained by compressing what stays on the machine.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	})
	if err != nil {
		return nil, fmt.Errorf("dialling the embedded Temporal server: %w", err)
	}
	return c, nil
}

// Stop ends the server, after it has written what it accepted. Stop workers
// and clients first, or their polls delay it by seconds.
func (s *Server) Stop() error {
	s.stopping.Store(true)
	if err := s.inner.Stop(); err != nil {
		return fmt.Errorf("stopping the embedded Temporal server: %w", err)
	}
	return nil
}

// becomeReady waits until the frontend answers for every namespace, and adds
// search attributes that an older file lacks.
func (s *Server) becomeReady(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	lazy, err := client.NewLazyClient(client.Options{
		HostPort: s.address, Namespace: s.Namespace(), Logger: sdklog.NewStructuredLogger(s.log),
	})
	if err != nil {
		return fmt.Errorf("connecting to the embedded Temporal server: %w", err)
	}
	defer lazy.Close()
	added := false
	for _, ns := range s.namespaces {
		if o.DatabaseURL != "" {
			if err := registerNamespace(ctx, lazy, ns, o.Retention); err != nil {
				return err
			}
		}
		if err := awaitNamespace(ctx, lazy, ns); err != nil {
			return err
		}
		some, err := addSearchAttributes(ctx, lazy, ns, o.SearchAttributes)
		if err != nil {
			return err
		}
		added = added || some
	}
	if !added {
		return nil
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting until the embedded Temporal server knows its search attributes: %w", ctx.Err())
	case <-time.After(attributesKnown):
		return nil
	}
}

func awaitNamespace(ctx context.Context, c client.Client, namespace string) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the embedded Temporal server, namespace %s: %w", namespace, err)
		case <-tick.C:
		}
	}
}

// serverConfig is the server's static configuration: one shard, one store (two in
// PostgreSQL), all services on loopback.
func serverConfig(o Options, taken []int) (*config.Config, error) {
	frontend := ports.Address(taken[0])
	stores, listing := map[string]config.DataStore{storeName: {SQL: storeConfig(o)}}, storeName
	if o.DatabaseURL != "" {
		var err error
		if stores, err = postgresStores(o); err != nil {
			return nil, err
		}
		listing = visibilityStore
	}
	cfg := &config.Config{
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: ports.Host}},
		Persistence: config.Persistence{
			DefaultStore: storeName, VisibilityStore: listing, NumHistoryShards: 1, DataStores: stores,
		},
		ClusterMetadata:     clusterConfig(frontend),
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
	for i, name := range temporal.DefaultServices {
		cfg.Services[name] = config.Service{RPC: config.RPC{GRPCPort: taken[i], BindOnIP: ports.Host}}
	}
	return cfg, nil
}

func serverOptions(o Options, cfg *config.Config, taken []int, out logger) []temporal.ServerOption {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for i, name := range temporal.DefaultServices {
		hosts[primitives.ServiceName(name)] = static.Hosts{All: []string{ports.Address(taken[i])}, Self: ports.Address(taken[i])}
	}
	return []temporal.ServerOption{
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(out),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
		temporal.WithDynamicConfigClient(dynamicSettings(o)),
	}
}
