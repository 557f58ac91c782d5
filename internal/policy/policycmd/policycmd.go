// Package policycmd is the command `policy check`: it says what the gate makes
// of commands, one line of output for each line of input, without running any
// and without looking at the machine it runs on.
package policycmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/countersign/countersign/internal/policy"
)

// newlineMark stands for a newline in a line of input.
const newlineMark = "\u240a" // ␊

// backends are the kinds of sandbox, and whether each confines what runs in it
// when nothing else is said.
var backends = map[string]bool{"local": false, "docker": true, "e2b": true, "daytona": true, "modal": true}

// Cmd is `policy`, for embedding in a program's own grammar.
type Cmd struct {
	Check Check `cmd:"" help:"Say what tier a command has, and why. Nothing is run."`
}

// Check is `policy check`.
type Check struct {
	Policy    string   `help:"Judge by this policy file instead of the built-in policy." placeholder:"FILE" type:"path"`
	Backend   *string  `help:"Backend that the command would run on: local, docker, e2b, daytona or modal." placeholder:"NAME"`
	Isolated  *bool    `help:"Whether the sandbox confines what runs in it (default: unless the backend is local)." negatable:""`
	Shell     string   `help:"Shell that would run the command." enum:"bash,sh" default:"bash"`
	Cwd       string   `help:"Working directory." default:"/workspace" placeholder:"DIR"`
	Home      string   `help:"Home directory." default:"/home/agent" placeholder:"DIR"`
	Workspace string   `help:"Workspace root." default:"/workspace" placeholder:"DIR"`
	JSON      bool     `name:"json" help:"Write one JSON object a line."`
	Stdin     bool     `help:"Judge each line of standard input; ␊ stands for a newline in it."`
	Command   []string `arg:"" optional:"" passthrough:"partial" help:"The command; its words are joined by blanks."`
}

// Streams are where a run reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError is a fault in flags or in the policy file: exit code 2.
type UsageError struct{ err error }

// Error returns what is wrong.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Run judges the command or each line of standard input. It returns a
// [*UsageError] for bad flags and a bad policy; warnings go to the error stream.
func (c *Check) Run(io Streams) error {
	if len(c.Command) > 1 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	env, err := c.env()
	if err != nil {
		return err
	}
	p, err := c.load(io.Err)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(io.Out)
	if c.Stdin {
		err = c.lines(io.In, out, p, env)
	} else {
		err = c.line(out, p, env, strings.Join(c.Command, " "))
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing verdicts: %w", err)
	}
	return nil
}

func (c *Check) env() (policy.Env, error) {
	if c.Stdin == (len(c.Command) > 0) {
		return policy.Env{}, usage("give either --stdin or a command")
	}
	env := policy.Env{Isolated: true, Shell: policy.Shell(c.Shell), Cwd: c.Cwd, Home: c.Home, Workspace: c.Workspace}
	if c.Shell != string(policy.ShellBash) && c.Shell != string(policy.ShellSh) {
		return env, usage("unknown shell %q: want bash or sh", c.Shell)
	}
	if c.Backend != nil {
		isolated, ok := backends[*c.Backend]
		if !ok {
			return env, usage("unknown backend %q: want local, docker, e2b, daytona or modal", *c.Backend)
		}
		env.Backend, env.Isolated = *c.Backend, isolated
	}
	if c.Isolated != nil {
		env.Isolated = *c.Isolated
	}
	for name, dir := range map[string]string{"cwd": c.Cwd, "home": c.Home, "workspace": c.Workspace} {
		if !strings.HasPrefix(dir, "/") {
			return env, usage("--%s %q is not an absolute path", name, dir)
		}
	}
	return env, nil
}

func (c *Check) load(warn io.Writer) (*policy.Policy, error) {
	if c.Policy == "" {
		return policy.Default(), nil
	}
	data, err := os.ReadFile(c.Policy)
	if err != nil {
		return nil, usage("reading the policy: %w", err)
	}
	p, warnings, err := policy.Load(data, c.Policy)
	if err != nil {
		return nil, usage("%w", err)
	}
	for _, w := range warnings {
		fmt.Fprintf(warn, "%s:%d: warning: %s\n", c.Policy, w.Line, w.Text)
	}
	return p, nil
}

func (c *Check) lines(in io.Reader, out *bufio.Writer, p *policy.Policy, env policy.Env) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading commands: %w", err)
		}
		if line == "" && err != nil {
			return nil
		}
		if werr := c.line(out, p, env, strings.TrimSuffix(line, "\n")); werr != nil {
			return werr
		}
		if err != nil {
			return nil
		}
	}
}

// result is one line of --json output.
type result struct {
	Command string      `json:"command"`
	Tier    policy.Tier `json:"tier"`
	Reasons []string    `json:"reasons"`
}

func (c *Check) line(out *bufio.Writer, p *policy.Policy, env policy.Env, line string) error {
	v := p.Judge(strings.ReplaceAll(line, newlineMark, "\n"), env, policy.Facts{})
	if !c.JSON {
		_, err := fmt.Fprintf(out, "%s\t%s\n", v.Tier, oneLine(v.Summary()))
		return wrapWrite(err)
	}
	res := result{Command: line, Tier: v.Tier, Reasons: []string{}}
	for _, r := range v.Reasons {
		res.Reasons = append(res.Reasons, r.String())
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return wrapWrite(enc.Encode(res))
}

func wrapWrite(err error) error {
	if err != nil {
		return fmt.Errorf("writing verdicts: %w", err)
	}
	return nil
}

func oneLine(s string) string {
	return strings.NewReplacer("\n", newlineMark, "\r", "\\r", "\t", " ").Replace(s)
}

// Main runs `policy …` with its own arguments and returns the exit code: 0
// whatever the tiers, 2 for bad flags or a bad policy, 1 when output fails.
func Main(args []string, io Streams) int {
	var cmd Cmd
	code := -1
	parser, err := kong.New(&cmd, kong.Name("policy"), kong.Writers(io.Out, io.Err), kong.Exit(func(n int) { code = n }))
	if err != nil {
		fmt.Fprintln(io.Err, err)
		return 2
	}
	ctx, err := parser.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(io.Err, "policy: %v\n", err)
		return 2
	}
	if err := ctx.Run(io); err != nil {
		fmt.Fprintf(io.Err, "policy: %v\n", err)
		if bad := (*UsageError)(nil); errors.As(err, &bad) {
			return 2
		}
		return 1
	}
	return 0
}
