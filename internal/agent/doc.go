// Package agent is the model side: it turns what a session has said so far into
// a request of the Responses API, makes the call, and turns the answer into tool
// calls and text for the workflow.
//
// It runs as one activity, [Activities.CallModel]. The conversation lives in the
// blob store (package transcript) and is sent whole with every call
// (store=false), encrypted reasoning items included, so that any worker can make
// the next call. A call is retried by Temporal, never by the client; whatever
// the model answers, the session goes on: a tool call that makes no sense is
// answered with a sentence instead of being carried out.
package agent
