package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox/evidence"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// evidenceTime bounds a look at what a command would lose; the whole of it,
	// with its start, must fit into a person's patience for the card.
	evidenceTime  = 3 * time.Second
	evidenceWhole = 4 * time.Second
	evidenceBytes = 16 << 10
	// What of it goes into history.
	maxEvidence    = 5
	maxEvidenceLen = 300 // bytes
)

// evidence looks at what a command that will be asked about would lose. It is a
// help for those who decide: what cannot be had in time is left out, and no
// verdict rests on it.
func (a *Activities) evidence(ctx context.Context, s Session, ref workflows.SandboxRef, c act) ([]string, error) {
	p := planOf(ref, c)
	if p.Empty() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceWhole)
	defer cancel()
	found := map[string][]string{}
	for _, pattern := range p.Patterns() {
		if list, err := s.Glob(ctx, pattern, evidence.MaxMatches+1); err == nil {
			found[pattern] = list
		}
	}
	out := p.Sentences(look(ctx, s, p.Script(found)), found)
	out = out[:min(len(out), maxEvidence)]
	for i := range out {
		out[i] = cutText(a.cfg.Mask.Text(out[i]), maxEvidenceLen)
	}
	return out, nil
}

// planOf is what there is to look at; empty where nobody will be asked.
func planOf(ref workflows.SandboxRef, c act) evidence.Plan {
	asked := c.verdict.Tier == policy.Risky || c.verdict.Tier == policy.Critical
	if c.tool != workflows.ToolShell || !asked || !c.verdict.Displayable {
		return evidence.Plan{}
	}
	return evidence.Of(c.command, ref.Shell != "sh", c.cwd, ref.Home)
}

// look runs a script of our own and returns what it printed until its time was
// over.
func look(ctx context.Context, s Session, script string) string {
	if script == "" {
		return ""
	}
	var b [6]byte
	_, _ = rand.Read(b[:])
	id := "evidence-" + hex.EncodeToString(b[:])
	if err := s.Start(ctx, ExecSpec{ID: id, Command: script, Limits: Limits{Timeout: evidenceTime, OutputBytes: evidenceBytes}}); err != nil {
		return ""
	}
	var out bytes.Buffer
	if s.Attach(ctx, id, Stdout, 0, &out) != nil {
		_ = s.Signal(context.WithoutCancel(ctx), id, SignalKill)
	}
	return out.String()
}
