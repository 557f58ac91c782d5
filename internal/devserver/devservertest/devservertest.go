// Package devservertest gives a package's tests one shared Temporal server in
// memory, and each test a namespace of its own on it.
//
// It links the whole server, which costs a test binary about nine seconds of
// linking: use it in few packages.
//
//	func TestMain(m *testing.M) { os.Exit(devservertest.Main(m)) }
//
//	func TestX(t *testing.T) {
//		env := devservertest.New(t)
//		w := worker.New(env.Client, "queue", worker.Options{})
//		…
//	}
package devservertest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/countersign/countersign/internal/devserver"
)

// maxTests is how many tests of one binary can have a namespace.
const maxTests = 400

// startWithin bounds the start of the server, on whichever machine.
const startWithin = 5 * time.Minute

// Env is one test's share of the server.
type Env struct {
	// Client is connected to Namespace, and closed when the test ends.
	Client client.Client
	// Namespace is used by this test alone.
	Namespace string
	// Address is the frontend's host:port.
	Address string
}

// shared is the binary's one server. It is started by the first New and ended
// by Main.
type shared struct {
	mu     sync.Mutex
	server *devserver.Server
	used   int
}

var process shared

// attributes are registered in every namespace of a binary; Main sets them.
var attributes = map[string]enumspb.IndexedValueType{}

// Main runs the tests and stops the server if one of them started it. attrs
// are search attributes to register in every namespace. It returns the exit
// code.
func Main(m *testing.M, attrs ...map[string]enumspb.IndexedValueType) int {
	for _, set := range attrs {
		for name, kind := range set {
			attributes[name] = kind
		}
	}
	code := m.Run()
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.server != nil {
		if err := process.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// New returns a fresh namespace of the shared server, which it starts when it
// is the first. Stop workers before the test ends: t.Cleanup(w.Stop).
func New(t testing.TB) Env {
	t.Helper()
	s, namespace := process.next(t)
	o := client.Options{HostPort: s.Address(), Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	c, err := client.DialContext(t.Context(), o)
	for end := time.Now().Add(startWithin); err != nil && time.Now().Before(end); { // it has much to do
		c, err = client.DialContext(t.Context(), o)
	}
	if err != nil {
		t.Fatalf("dialling the shared Temporal server: %v", err)
	}
	t.Cleanup(c.Close)
	return Env{Client: c, Namespace: namespace, Address: s.Address()}
}

func (p *shared) next(t testing.TB) (*devserver.Server, string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		defer cancel()
		s, err := devserver.Start(ctx, devserver.Options{
			InMemory: true, Namespaces: namespaces(), SearchAttributes: attributes,
		})
		if err != nil {
			t.Fatalf("starting the shared Temporal server: %v", err)
		}
		p.server = s
	}
	if p.used == maxTests {
		t.Fatalf("more than %d tests asked for a namespace", maxTests)
	}
	p.used++
	return p.server, name(p.used)
}

func namespaces() []string {
	out := make([]string, maxTests)
	for i := range out {
		out[i] = name(i + 1)
	}
	return out
}

func name(i int) string { return fmt.Sprintf("test-%03d", i) }
