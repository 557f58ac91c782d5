package sandbox

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// seed says what a new sandbox on a backend holds.
func (a *Activities) seed(in workflows.OpenInput, backend string) (Seed, error) {
	switch {
	case in.Snapshot != "":
		return a.snapshotSeed(in, backend), nil
	case in.Workspace == "":
		return Seed{Directory: a.cfg.Workspace}, nil
	}
	w, err := a.workspace(in.Workspace)
	if err != nil {
		return Seed{}, err
	}
	return Seed{Fill: func(ctx context.Context, dir string) error { return a.cfg.Fill(ctx, w, dir) }}, nil
}

// workspace is the manifest of this name; the one without a name is empty.
func (a *Activities) workspace(name string) (manifest.Workspace, error) {
	w, ok := a.cfg.Workspaces[name]
	if !ok && name != "" {
		text := fmt.Sprintf("There is no workspace %q on this worker.", name)
		if names := a.cfg.Workspaces.Names(); len(names) > 0 {
			text += " There is: " + strings.Join(names, ", ") + "."
		}
		return w, Refuse(text)
	}
	return w, nil
}

// complete adds to a spec what the manifest says of the sandbox itself. What a
// workspace held stays, when its manifest is gone; what it allowed does not.
func (a *Activities) complete(spec *Spec, workspace string) {
	w := a.cfg.Workspaces[workspace]
	spec.Image, spec.Network = w.Image, w.Network
}

// environ is the environment that the manifest gives commands.
func (a *Activities) environ(workspace string) (map[string]string, error) {
	w, err := a.workspace(workspace)
	if err != nil {
		return nil, err
	}
	env, err := w.Environ(a.getenv)
	if err != nil {
		return nil, Refuse("The command did not run: in workspace " + workspace + " " + err.Error() + ".")
	}
	return env, nil
}

func (a *Activities) getenv(name string) string {
	if a.cfg.Getenv == nil {
		return ""
	}
	return a.cfg.Getenv(name)
}

// secrets are a workspace's, as they are at this moment. One that cannot be looked
// up now cannot be masked by its value.
func (a *Activities) secrets(workspace string) []string {
	var values []string
	for _, ref := range a.cfg.Workspaces[workspace].Secrets {
		if v, err := ref.Value(a.getenv); err == nil {
			values = append(values, v)
		}
	}
	return values
}

// masker masks for people: what is always masked, and a workspace's secrets.
func (a *Activities) masker(workspace string) *mask.Masker {
	return a.cfg.Mask.With(a.secrets(workspace)...)
}

// progress is what a long open is at, for heartbeats.
type progress struct {
	exec string

	mu   sync.Mutex
	line string
}

func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = line
}

func (p *progress) details() []any {
	if p.exec == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return []any{workflows.ExecProgress{ExecID: p.exec, Tail: p.line}}
}

// setupTimeout bounds one set-up command: a large build's downloads.
const setupTimeout = 30 * time.Minute

// setUp runs the manifest's set-up commands, one after the other, each at most
// once under this open's name. The first that fails ends it.
func (a *Activities) setUp(ctx context.Context, s Session, in workflows.OpenInput, ref workflows.SandboxRef, told *progress) ([]workflows.SetupRun, error) {
	var done []workflows.SetupRun
	for i, command := range a.cfg.Workspaces[in.Workspace].Setup {
		id := fmt.Sprintf("%s.%d", in.ExecID, i+1)
		if in.ExecID == "" {
			id = fmt.Sprintf("setup.%d.%d", ref.Generation, i+1)
		}
		ran, err := a.setUpOne(ctx, s, ref, id, command, in.WorkflowID, told)
		if err != nil {
			return nil, err
		}
		done = append(done, ran)
	}
	return done, nil
}

func (a *Activities) setUpOne(
	ctx context.Context, s Session, ref workflows.SandboxRef, id, command, session string, told *progress,
) (workflows.SetupRun, error) {
	env, err := a.environ(ref.Workspace)
	if err != nil {
		return workflows.SetupRun{}, err
	}
	shown := cutText(a.masker(ref.Workspace).Text(command), workflows.MaxShownCommand)
	told.say("$ " + shown)
	in := workflows.RunInput{WorkflowID: session, Sandbox: ref, ExecID: id, Timeout: setupTimeout}
	f := newFollower(&run{a: a, s: s, in: in, began: time.Now()})
	f.tell = func(p workflows.ExecProgress) { told.say("$ " + shown + "\n" + p.Tail) }
	if err := s.Start(ctx, ExecSpec{ID: id, Command: command, Env: env, Limits: Limits{Timeout: setupTimeout}}); err != nil {
		return workflows.SetupRun{}, err
	}
	st, err := f.follow(ctx)
	if err != nil {
		return workflows.SetupRun{}, err
	}
	if st.State != StateExited || st.ExitCode != 0 {
		return workflows.SetupRun{}, Refuse(setupFailed(ref.Workspace, shown, st, f.progress().Tail))
	}
	return workflows.SetupRun{
		ExecID: id, Command: shown, ExitCode: st.ExitCode, StartedAt: st.StartedAt.UTC(), EndedAt: st.EndedAt.UTC(),
	}, nil
}

// setupFailed is the sentence about a set-up command that failed.
func setupFailed(workspace, command string, st ExecStatus, tail string) string {
	how := fmt.Sprintf("ended with exit code %d", st.ExitCode)
	switch st.State {
	case StateExited:
	case StateTimedOut:
		how = "was ended after " + setupTimeout.String() + ", its time-out"
	case StateUnknown:
		how = "was ended from outside"
	default:
		how = "did not run to its end"
	}
	text := fmt.Sprintf("The workspace %s is not set up: `%s` %s", workspace, firstLine(command), how)
	if lines := strings.Split(strings.TrimSpace(tail), "\n"); lines[len(lines)-1] != "" {
		text += ": " + lines[len(lines)-1]
	}
	return text + "."
}

// withEnv adds a workspace's environment to a command's own.
func withEnv(workspace, own map[string]string) map[string]string {
	if len(workspace) == 0 {
		return own
	}
	env := maps.Clone(workspace)
	maps.Copy(env, own)
	return env
}
