// Package audit is the record of what was asked, decided and run: one chain of
// entries per session, each holding the hash of the one before it, so that a
// changed, missing or cut-off entry shows.
//
// The chain's head, its last number and hash, is workflow state: whoever can
// write the blob store but not Temporal's history cannot cut the chain unseen.
// Entries hold masked text only.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Kinds of entries.
const (
	KindJudged      = "judged"
	KindRequested   = "requested"
	KindVote        = "vote"
	KindRefused     = "refused"
	KindDecided     = "decided"
	KindExecStarted = "exec_started"
	KindExecEnded   = "exec_ended"
	KindStopped     = "stopped"
	KindDestroyed   = "destroyed"
	// KindHostLeft: the session went on on another host, from what was saved.
	KindHostLeft   = "host_left"
	KindGranted    = "granted"
	KindGrantEnded = "grant_ended"
)

// Entry is one thing that happened. Empty fields do not apply to its kind.
type Entry struct {
	// Seq counts from 1 without gaps; Prev is the hash of entry Seq-1, empty in
	// the first.
	Seq  int    `json:"seq"`
	Prev string `json:"prev,omitempty"`
	// Hash covers all other fields.
	Hash string    `json:"hash"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`

	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	// EventID is the length of the run's history when the entry was made: the
	// events just before it hold what the entry says.
	EventID int `json:"event_id"`

	// Actor is the person's ID; Evidence the groups they were found in.
	Actor       string   `json:"actor,omitempty"`
	Evidence    []string `json:"evidence,omitempty"`
	Interaction string   `json:"interaction,omitempty"`

	ToolCall      string `json:"tool_call,omitempty"`
	Exec          string `json:"exec,omitempty"`
	Approval      string `json:"approval,omitempty"`
	Tier          string `json:"tier,omitempty"`
	Digest        string `json:"digest,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
	Command       string `json:"command,omitempty"`
	// Whole is the blob key of a command of which Command is the beginning.
	Whole   string   `json:"whole,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Outcome is the verdict, the state a request or call ended in, or why a
	// click was refused.
	Outcome string `json:"outcome,omitempty"`
	Text    string `json:"text,omitempty"`
	// ExitCode and Millis, how long it took, are those of a command that ran.
	ExitCode *int  `json:"exit_code,omitempty"`
	Millis   int64 `json:"millis,omitempty"`
}

// Chain is the head of a session's chain. Its zero value is an empty chain.
type Chain struct {
	Seq  int    `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// Add numbers, links and hashes an entry and makes it the head.
func (c *Chain) Add(e Entry) Entry {
	e.Seq, e.Prev = c.Seq+1, c.Hash
	e.At = e.At.UTC()
	e.Hash = e.Sum()
	c.Seq, c.Hash = e.Seq, e.Hash
	return e
}

// Sum computes the hash that e must have: SHA-256 over its fields, each with its
// length, in a fixed order.
func (e Entry) Sum() string {
	h := sha256.New()
	write := func(fields ...string) {
		for _, f := range fields {
			_, _ = h.Write([]byte(strconv.Itoa(len(f)) + ":" + f)) // never fails
		}
	}
	list := func(l []string) {
		write(strconv.Itoa(len(l)))
		write(l...)
	}
	write("countersign audit 1", strconv.Itoa(e.Seq), e.Prev, e.At.UTC().Format(time.RFC3339Nano), e.Kind,
		e.WorkflowID, e.RunID, strconv.Itoa(e.EventID), e.Actor, e.Interaction, e.ToolCall, e.Exec, e.Approval,
		e.Tier, e.Digest, e.PolicyVersion, e.Command, e.Outcome, e.Text)
	list(e.Evidence)
	list(e.Reasons)
	// Fields that came later count where they are set, so that older entries keep
	// their hashes.
	later := func(name, value string) {
		if value != "" {
			write(name, value)
		}
	}
	later("whole", e.Whole)
	if e.ExitCode != nil {
		later("exit_code", strconv.Itoa(*e.ExitCode))
	}
	if e.Millis != 0 {
		later("millis", strconv.FormatInt(e.Millis, 10))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Prefix is where a session's entries lie in the blob store.
func Prefix(workflowID string) string {
	sum := sha256.Sum256([]byte(workflowID))
	return "audit/" + strings.ReplaceAll(workflowID, "/", "_") + "-" + hex.EncodeToString(sum[:4])
}

// Key is the blob key of one entry.
func Key(workflowID string, seq int) string {
	n := strconv.Itoa(seq)
	return Prefix(workflowID) + "/" + strings.Repeat("0", max(0, 9-len(n))) + n + ".json"
}
