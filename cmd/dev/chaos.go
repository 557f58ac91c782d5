package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/dev/internal/chaos"
	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/ports"
)

// chaosCmd kills parts of an installation while people use it, and checks what
// is left.
type chaosCmd struct {
	Seed   uint64        `help:"Seed of what people do and of what is killed; 0 takes one at random. It is printed." placeholder:"S"`
	For    time.Duration `help:"How long parts are killed." default:"60s" name:"for"`
	People int           `help:"How many people use it at once." default:"5"`
	Faults []string      `help:"Kinds of faults to make; all by default: kill, freeze, cut, stall, clock, store." enum:"kill,freeze,cut,stall,clock,store" placeholder:"KIND"`
	Docker bool          `help:"Start a Docker engine of the run's own, which people move sessions to and which is hit too (needs root, dockerd and a static busybox)." default:"true" negatable:""`
	JSON   bool          `help:"Print one JSON object instead of lines." name:"json"`
	Keep   string        `help:"Keep logs, recordings and data below this directory, also when all is well." placeholder:"DIR"`
	Defect string        `help:"Plant a defect, which the checker must find: double-exec, lost-message, double-post, wall-clock or (with Docker) stale-save." enum:",double-exec,lost-message,double-post,stale-save,wall-clock" default:"" placeholder:"NAME"`
}

// Help is what chaos --help says besides the flags.
func (*chaosCmd) Help() string {
	return `Starts cmd/dev as the Temporal server, cmd/bot, two cmd/worker on two data directories and a dockerd on a socket of its own, each as a process of its own. While scripted people use the web chat it kills them with SIGKILL at random moments, freezes them with SIGSTOP for longer than heartbeats may be late, cuts and stalls the connections between bot or worker and Temporal, and sets the clocks of bot and workers wrong. Then it checks what was sent, posted and run against the sessions' state and the audit record.

cmd/bot and cmd/worker are taken from beside this program; where they are not there, they are built.

Exit codes: 0 every rule held, 1 one was broken (or the run itself failed), 2 wrong flags.

JSON: {"ok","seed","seconds","broken":[{"rule","thread","what"}],"counts":{"threads","messages",…},"kills":{"server","bot","worker-1","worker-2","engine"},"faults":{"kill","freeze","cut","stall","clock"},"without":["what: why"],"settled_ms","dir","ms"}

Rules: ` + strings.Join(chaos.Rules(), ", ") + "."
}

// Run makes one run.
func (c *chaosCmd) Run(ctx context.Context, e *process.Env) error {
	if c.Seed == 0 {
		c.Seed = rand.Uint64()>>32 + 1 // short enough to be typed
	}
	dir, err := c.directory()
	if err != nil {
		return err
	}
	o := chaos.Options{Seed: c.Seed, For: c.For, People: c.People, Faults: c.Faults, Docker: c.Docker, Dir: dir, Say: func(format string, args ...any) {
		_, _ = fmt.Fprintf(e.Stderr, format+"\n", args...)
	}}
	o.Say("chaos: seed %d for %v in %s", c.Seed, c.For, dir)
	if o.Port, err = ports.Free(); err != nil {
		return err
	}
	if o.Programs, err = c.programs(ctx, dir); err != nil {
		return err
	}
	r, err := chaos.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("seed %d, see %s: %w", c.Seed, dir, err)
	}
	if r.OK && c.Keep == "" {
		r.Dir = ""
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the run's directory: %w", err)
		}
	}
	if err := c.print(e.Stdout, r); err != nil {
		return err
	}
	if !r.OK {
		return process.ExitError{Code: process.ExitFailed}
	}
	return nil
}

// directory is a new one, whose name no other process has on its command line.
func (c *chaosCmd) directory() (string, error) {
	if c.Keep != "" {
		if err := os.MkdirAll(c.Keep, 0o755); err != nil {
			return "", fmt.Errorf("making %s: %w", c.Keep, err)
		}
	}
	dir, err := os.MkdirTemp(c.Keep, fmt.Sprintf("countersign-chaos-%d-", c.Seed))
	if err != nil {
		return "", fmt.Errorf("making a directory: %w", err)
	}
	return filepath.Abs(dir)
}

// programs are how the parts are started. A part with a defect is this program
// itself.
func (c *chaosCmd) programs(ctx context.Context, dir string) (chaos.Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return chaos.Programs{}, fmt.Errorf("finding this program: %w", err)
	}
	found, err := siblings(ctx, self, dir)
	if err != nil {
		return chaos.Programs{}, err
	}
	p := chaos.Programs{Dev: []string{self}, Worker: []string{found["worker"]}, Bot: []string{found["bot"]}}
	if d, ok := defects[c.Defect]; ok {
		broken := []string{self, "defective", d.part, "--defect", c.Defect}
		if d.part == partWorker {
			p.Worker = broken
		} else {
			p.Bot = broken
		}
	}
	return p, nil
}

// siblings finds bot and worker beside this program, or builds them into dir: also
// where those beside it were built from another commit.
func siblings(ctx context.Context, self, dir string) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range []string{"worker", "bot"} {
		path := filepath.Join(filepath.Dir(self), name)
		if sameBuild(self, path) {
			found[name] = path
			continue
		}
		path = filepath.Join(dir, name)
		out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/countersign/countersign/cmd/"+name).CombinedOutput()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("there is no %s of the same build beside %s, and it cannot be built here: %w\n%s", name, self, err, out), os.RemoveAll(dir))
		}
		found[name] = path
	}
	return found, nil
}

// sameBuild reports that there is a program, and that nothing says that it was built
// from another commit than this one.
func sameBuild(self, other string) bool {
	a, err := revision(self)
	b, otherErr := revision(other)
	return otherErr == nil && (err != nil || a == b || a == "" || b == "")
}

// revision is the commit that a program was built from; empty where it does not say.
func revision(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading what %s was built from: %w", program, err)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value, nil
		}
	}
	return "", nil
}

func (c *chaosCmd) print(w io.Writer, r *chaos.Report) error {
	if c.JSON {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		return nil
	}
	_, _ = fmt.Fprintf(w, "seed %d: %d kills, %d freezes, %d cuts, %d stalls, %d clocks, %d times without the blob store, %d threads, %d messages, %d turns, %d calls, %d requests\n", r.Seed,
		r.Faults[chaos.FaultKill], r.Faults[chaos.FaultFreeze], r.Faults[chaos.FaultCut], r.Faults[chaos.FaultStall], r.Faults[chaos.FaultClock], r.Faults[chaos.FaultStore],
		r.Counts["threads"], r.Counts["messages"], r.Counts["turns"], r.Counts["calls"], r.Counts["approvals"])
	for _, v := range r.Broken {
		_, _ = fmt.Fprintf(w, "%s: %s %s\n", v.Rule, v.Thread, v.What)
	}
	if r.OK {
		_, _ = fmt.Fprintf(w, "Every rule held, %.1f s after the last fault.\n", float64(r.SettledMS)/1000)
	} else {
		_, _ = fmt.Fprintf(w, "Broken: %s. What was recorded is in %s.\n", strings.Join(names(r.Broken), ", "), r.Dir)
	}
	return nil
}

// names are the rules that were broken, each once.
func names(broken []chaos.Violation) []string {
	var out []string
	for _, v := range broken {
		if !slices.Contains(out, v.Rule) {
			out = append(out, v.Rule)
		}
	}
	return out
}
