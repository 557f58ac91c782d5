package sandbox

import "context"

// OnHeartbeat makes a tell its heartbeats to f instead of the server.
func OnHeartbeat(a *Activities, f func(ctx context.Context, details ...any)) { a.heartbeat = f }
