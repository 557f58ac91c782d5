package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// bindingKey is where a session's binding lies in the blob store: a digest is the name
// of what it is the digest of.
func bindingKey(workflowID, digest string) string {
	return path.Join(owned.Prefix(owned.Bindings, workflowID), digest)
}

// maxBound is the longest file that a verdict binds by its content: a second's
// reading. A file with holes may say that it holds any number of bytes.
const maxBound = 512 << 20

// binding is all that a verdict rests on. Its digest is what an approval binds.
type binding struct {
	Tool       string   `json:"tool"`
	Command    string   `json:"command,omitempty"`
	Shell      string   `json:"shell,omitempty"`
	Cwd        string   `json:"cwd"`
	Env        []string `json:"env,omitempty"` // environment changes in the command
	Path       string   `json:"path,omitempty"`
	Content    string   `json:"content,omitempty"` // SHA-256 of what is written or sent, or of the patch
	Exec       string   `json:"exec,omitempty"`    // the exec that it is sent to
	Stdin      bool     `json:"stdin,omitempty"`   // it may be sent text while it runs
	TTY        bool     `json:"tty,omitempty"`
	Backend    string   `json:"backend"`
	Sandbox    string   `json:"sandbox"`
	Generation int      `json:"generation"`
	Isolated   bool     `json:"isolated"`
	Network    bool     `json:"network"`
	Tier       string   `json:"tier"`
	// Workspace is of what the manifest gives commands: environment, network.
	Workspace string `json:"workspace,omitempty"`
	// Paths and Runs are sorted: where paths lead, and what the files hold that
	// the command line itself runs.
	Paths []boundPath `json:"paths,omitempty"`
	Runs  []boundFile `json:"runs,omitempty"`
	// Changes are the files that a patch changes, in its order.
	Changes []boundChange `json:"changes,omitempty"`
}

type boundPath struct {
	Path     string `json:"path"`
	Resolved string `json:"resolved"`
}

type boundFile struct {
	Path string `json:"path"`
	// Digest is the content's SHA-256; empty where nothing is known of it: absent,
	// no regular file, or outside the workspace.
	Digest string `json:"digest"`
}

// bind notes what the verdict rests on, as it is now.
func (c *act) bind(ctx context.Context, s Session, ref workflows.SandboxRef, workspace string) error {
	b := binding{
		Workspace: workspace,
		Tool:      c.tool, Command: c.command, Cwd: c.cwd, Env: c.verdict.EnvChanges, Path: c.path,
		Backend: ref.Backend, Sandbox: ref.ID, Generation: ref.Generation, Isolated: ref.Isolated, Network: ref.Network,
		Tier: c.verdict.Tier.String(),
	}
	if c.tool == workflows.ToolShell {
		b.Shell, b.Stdin, b.TTY = ref.Shell, c.stdin, c.tty
	}
	if c.to != nil {
		c.bindTalk(&b)
	}
	if c.tool == workflows.ToolWriteFile || c.tool == workflows.ToolApplyPatch {
		b.Content = digestOf([]byte(c.content))
	}
	b.Changes = c.bound
	for _, p := range sorted(c.verdict.Paths) {
		at, err := s.Stat(ctx, p)
		if fatal(ctx, err) {
			return err
		}
		b.Paths = append(b.Paths, boundPath{p, at.Resolved})
	}
	c.heads = map[string][]byte{}
	for _, p := range sorted(c.verdict.Operands) {
		if at, err := s.Stat(ctx, p); err == nil && at.Mode.IsRegular() && at.Size > maxBound {
			return badCall(fmt.Sprintf("%s holds %s. What a command line runs is bound by its content, and of that at most %s are read: run something smaller.",
				at.Resolved, megabytes(at.Size), megabytes(maxBound)))
		}
		digest, err := s.Hash(ctx, p)
		if fatal(ctx, err) {
			return err
		}
		b.Runs = append(b.Runs, boundFile{p, digest})
		if err == nil {
			if head, _, err := s.ReadFile(ctx, p, headBytes); err == nil {
				c.heads[p] = head
			}
		}
	}
	c.binding = b
	return nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxFacts)]
}

func (b binding) encode() ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing down what a verdict binds: %w", err)
	}
	return data, nil
}

func (b binding) digest() (string, error) {
	data, err := b.encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// saveBinding returns the binding's digest, and keeps the binding under it, so that a
// later look can say what has changed. A command that runs at once needs no such words:
// it is judged again, and the store may be far away.
func (a *Activities) saveBinding(ctx context.Context, workflowID string, c act) (string, error) {
	b := c.binding
	if c.tool == workflows.ToolShell && c.verdict.Tier <= policy.Write {
		return b.digest()
	}
	data, err := b.encode()
	if err != nil {
		return "", err
	}
	if _, err := a.cfg.Blobs.Put(ctx, owned.Prefix(owned.Bindings, workflowID), data); err != nil {
		return "", err
	}
	return b.digest()
}

// changed says what is no longer as the digest binds it; empty when all is.
func (a *Activities) changed(ctx context.Context, workflowID, digest string, now binding) (string, error) {
	have, err := now.digest()
	if err != nil || have == digest {
		return "", err
	}
	const whatever = "What it runs or touches has changed since it was judged."
	data, err := a.cfg.Blobs.Get(ctx, bindingKey(workflowID, digest))
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrBadKey) {
		return whatever, nil
	}
	if err != nil {
		return "", err
	}
	var was binding
	if json.Unmarshal(data, &was) != nil {
		return whatever, nil
	}
	if text := was.differs(now); text != "" {
		return text, nil
	}
	return whatever, nil
}

// differs names the first thing that is different now.
func (b binding) differs(now binding) string {
	for _, f := range b.Runs {
		for _, g := range now.Runs {
			if f.Path == g.Path && f.Digest != g.Digest {
				return fmt.Sprintf("%s has changed since it was judged.", f.Path)
			}
		}
	}
	for _, f := range b.Changes {
		for _, g := range now.Changes {
			if f.Path == g.Path && f.Before != g.Before {
				return fmt.Sprintf("%s has changed since it was judged.", f.Path)
			}
		}
	}
	for _, p := range b.Paths {
		for _, q := range now.Paths {
			if p.Path == q.Path && p.Resolved != q.Resolved {
				return fmt.Sprintf("%s leads to another place (%s) than when it was judged.", p.Path, q.Resolved)
			}
		}
	}
	switch {
	case b.Generation != now.Generation || b.Backend != now.Backend || b.Isolated != now.Isolated:
		return "The sandbox is another one than when it was judged."
	case b.Cwd != now.Cwd:
		return "The working directory leads to another place than when it was judged."
	case b.Workspace != now.Workspace:
		return "What the workspace's manifest gives commands has changed since it was judged."
	case b.Tier != now.Tier:
		return "The policy judges it otherwise now."
	}
	return ""
}

// saveDetail keeps what Review shows beside the command.
func (a *Activities) saveDetail(ctx context.Context, workflowID string, c act) (string, error) {
	var t strings.Builder
	if len(c.verdict.EnvChanges) > 0 {
		t.WriteString("Environment changes:\n")
		for _, kv := range c.verdict.EnvChanges {
			t.WriteString("  " + kv + "\n")
		}
	}
	for _, f := range c.binding.Runs {
		head, ok := c.heads[f.Path]
		switch {
		case !ok:
			fmt.Fprintf(&t, "\n%s: its content is not known; it is not bound.\n", f.Path)
		default:
			fmt.Fprintf(&t, "\n%s, SHA-256 %s:\n%s\n", f.Path, f.Digest, clean(string(head)))
			if len(head) == headBytes {
				t.WriteString("[… the rest is not shown …]\n")
			}
		}
	}
	if c.tool == workflows.ToolWriteFile && !c.verdict.Displayable {
		t.WriteString("\n" + clean(c.content) + "\n")
	}
	if c.to != nil {
		t.WriteString("The text goes to the standard input of the running command " + c.to.Session + ":\n\n" + clean(c.command) + "\n")
	}
	if t.Len() == 0 {
		return "", nil
	}
	if c.tool == workflows.ToolShell && len(c.binding.Runs) > 0 {
		t.WriteString("\nWhat these files load in turn is not covered.\n")
	}
	return a.cfg.Blobs.Put(ctx, owned.Prefix(owned.Details, workflowID), []byte(a.cfg.Mask.Text(strings.TrimLeft(t.String(), "\n"))))
}

// CheckBinding tells whether what a digest binds is still so.
func (a *Activities) CheckBinding(ctx context.Context, in workflows.BindingInput) (workflows.BindingResult, error) {
	defer a.beat(ctx)()
	res, err := a.checkBinding(ctx, in)
	return res, activityError(ctx, err)
}

func (a *Activities) checkBinding(ctx context.Context, in workflows.BindingInput) (workflows.BindingResult, error) {
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.BindingResult{}, err
	}
	what, err := a.check(ctx, s, in)
	if err != nil {
		return workflows.BindingResult{}, err
	}
	res := workflows.BindingResult{Changed: what != "", What: what}
	if a.cfg.Rules != nil && in.Tier != "" {
		res.Rule = a.cfg.Rules(in.Tier, in.Channel)
	}
	return res, nil
}

// check judges the call again and compares.
func (a *Activities) check(ctx context.Context, s Session, in workflows.BindingInput) (string, error) {
	c, err := a.read(ctx, s, in.Sandbox, in.Call, in.Running)
	var bad badCall
	var refused *RefusedError
	switch {
	case errors.As(err, &bad):
		return string(bad), nil
	case errors.As(err, &refused):
		return refused.Text, nil
	case errors.Is(err, fs.ErrNotExist):
		return "A file that it needs is gone.", nil
	case err != nil:
		return "", err
	}
	return a.changed(ctx, in.WorkflowID, in.Digest, c.binding)
}
