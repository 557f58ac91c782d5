// Package workflows holds the deterministic half of Countersign: the session's
// AgentWorkflow, the SessionManagerWorkflow, the messages they take, the state
// they carry and the names and inputs of the activities they call.
//
// It performs no I/O and imports no client of a chat service, a model or a
// sandbox. What it decides is recorded in Temporal's history; whatever is long
// is a reference into the blob store (see [TextRef]).
package workflows
