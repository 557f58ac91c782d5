// Package control is the only Temporal client code: it starts, signals, updates
// and queries sessions and their managers by our own types, and holds the
// registry of ended sessions.
package control
