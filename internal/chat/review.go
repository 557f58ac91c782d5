package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Review is everything that an approval covers, for a person to read before
// they decide.
type Review struct {
	Command string   `json:"command"`
	Cwd     string   `json:"cwd"`
	Backend string   `json:"backend"`
	Tier    string   `json:"tier"`
	Reasons []string `json:"reasons"`
	// Evidence are phrases on what it would lose, as it was when it was asked for.
	Evidence []string     `json:"evidence,omitempty"`
	Env      []string     `json:"env,omitempty"`
	Files    []ReviewFile `json:"files,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
	Digest   string       `json:"digest"`
	// Original is the command as the agent asked for it, cut to
	// [workflows.MaxShownCommand] bytes, and EditedBy who changed it, where
	// somebody did.
	Original string `json:"original,omitempty"`
	EditedBy string `json:"edited_by,omitempty"`
}

// ReviewFile is a file that the command line itself runs.
type ReviewFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Review reads what stands behind an approval card.
func (r *Router) Review(ctx context.Context, a workflows.ApprovalView) (Review, error) {
	v := Review{Cwd: a.Cwd, Backend: a.Backend, Tier: a.Tier, Reasons: r.Mask.Texts(a.Reasons), Digest: a.Digest, Original: r.Mask.Text(a.Original), Evidence: r.Mask.Texts(a.Evidence)}
	if a.EditedBy != nil {
		v.EditedBy = r.Style.Person(*a.EditedBy)
	}
	var err error
	if v.Command, err = GetText(ctx, r.Blobs, a.Command); err != nil {
		return v, reviewFailed(err)
	}
	v.Command = r.Mask.Text(v.Command)
	if a.Detail == "" {
		return v, nil
	}
	data, err := r.Blobs.Get(ctx, a.Detail)
	if err != nil {
		return v, reviewFailed(err)
	}
	data = r.Mask.Bytes(data)
	var detail struct {
		Env   []string     `json:"env"`
		Files []ReviewFile `json:"files"`
		Notes []string     `json:"notes"`
	}
	if json.Unmarshal(data, &detail) != nil {
		v.Notes = []string{string(data)}
		return v, nil
	}
	v.Env, v.Files, v.Notes = detail.Env, detail.Files, detail.Notes
	return v, nil
}

func reviewFailed(err error) error {
	return &Error{
		Kind: KindUnavailable, Code: "review_unavailable", Message: "What is behind this request cannot be read now.",
		Hint: "It was not approved; try Review again in a moment.", Err: err,
	}
}

// Environment are the changes of the environment, one a line.
func (v Review) Environment() string {
	lines := make([]string, len(v.Env))
	for i, e := range v.Env {
		lines[i] = ShownExactly(e)
	}
	return strings.Join(lines, "\n")
}

// Text is the review as plain text: the command first, whole. What does not show is
// escaped, also in the files: what is read is what runs.
func (v Review) Text() string { return ShownLines(v.text()) }

func (v Review) text() string {
	var b strings.Builder
	b.WriteString(v.Command + "\n\n")
	if v.EditedBy != "" {
		b.WriteString("Changed by " + v.EditedBy + ". The agent had asked for:\n" + v.Original + "\n\n")
	}
	fmt.Fprintf(&b, "Directory: %s\nBackend: %s\nTier: %s\n", ShownExactly(v.Cwd), v.Backend, v.Tier)
	for _, reason := range v.Reasons {
		b.WriteString("Why: " + Shown(reason) + "\n")
	}
	if e := Evidence(v.Evidence); e != "" {
		b.WriteString(e + "\n")
	}
	if len(v.Env) > 0 {
		b.WriteString("\nEnvironment changes:\n" + v.Environment() + "\n")
	}
	for _, f := range v.Files {
		b.WriteString("\nRuns " + ShownExactly(f.Path) + ":\n" + f.Text + "\n")
	}
	for _, n := range v.Notes {
		b.WriteString("\n" + n + "\n")
	}
	b.WriteString("\nWhat these files load in turn is not covered.\nDigest: " + v.Digest + "\n")
	return b.String()
}
