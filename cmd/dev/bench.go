package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/countersign/countersign/cmd/internal/process"
)

// benchCmd measures. Its figures are ratios to a yardstick taken in the same
// run, or stand against a stated budget: this machine's speed is no result.
type benchCmd struct {
	JSON   bool     `help:"Print one JSON object." name:"json"`
	Parked int      `help:"How many idle sessions memory_parked makes." default:"2000"`
	Turns  int      `help:"How many turns replay_age lets a session grow to." default:"2000"`
	Name   []string `arg:"" optional:"" help:"What to measure; all that exist by default."`
}

// Help is what bench --help says besides the flags.
func (*benchCmd) Help() string {
	return "Names: " + strings.Join(benchNames(), ", ") + ".\n\n" +
		"Exit codes: 0 everything was measured, whatever the budgets; 1 something could not be; 2 unknown name or wrong flags."
}

// benchReport is what --json prints.
type benchReport struct {
	CPUs    int           `json:"cpus"`
	Results []benchResult `json:"results"`
}

// benchResult is one figure. Samples are in Unit, milliseconds unless it says
// else.
type benchResult struct {
	Name      string          `json:"name"`
	Unit      string          `json:"unit"`
	N         int             `json:"n"`
	P50       float64         `json:"p50"`
	P99       float64         `json:"p99"`
	Samples   []float64       `json:"samples"`
	Yardstick *benchYardstick `json:"yardstick"`
	// Ratio is P50 by the yardstick's, Budget what it may be; without a yardstick
	// Budget is in Unit.
	Ratio  *float64 `json:"ratio"`
	Budget *float64 `json:"budget"`
	Pass   bool     `json:"pass"`
	// Note says what the figure does not: what bounds it, what else was seen.
	Note string `json:"note,omitempty"`
}

type benchYardstick struct {
	Name    string    `json:"name"`
	P50     float64   `json:"p50"`
	Samples []float64 `json:"samples"`
}

// benchmark measures one thing; budget 0 means that none is set.
type benchmark struct {
	name   string
	unit   string
	budget float64
	// run returns samples and those of the yardstick, named by what.
	run func(context.Context, *process.Env) (samples, yardstick []float64, what string, err error)
	// measure is run for figures that need words.
	measure func(context.Context, *process.Env, benchOptions) (measurement, error)
}

// measurement is what a benchmark saw.
type measurement struct {
	samples, yardstick []float64
	what               string // the yardstick's name
	note               string
	broken             bool // something that must hold did not, as note says
}

// benchOptions are the flags that some benchmarks look at.
type benchOptions struct{ parked, turns int }

func benchmarks() []benchmark {
	return []benchmark{
		{name: "noop_activity", unit: "ms", budget: 2, run: benchNoop},
		{name: "tool_call", unit: "ms", budget: 4, run: benchToolCall},
		{name: "approval_to_exec", unit: "ms", budget: 4, run: benchApproval},
		{name: "local_exec", unit: "ms", run: benchLocalExec},
		{name: "policy", unit: "µs", budget: 50, run: benchPolicy},
		{name: "turns_per_second", unit: "1/s", measure: benchTurns},
		{name: "card_latency", unit: "ms", budget: 1000, measure: benchCards},
		{name: "replay_age", unit: "ms", budget: 1.2, measure: benchReplayAge},
		{name: "recovery", unit: "ms", budget: 1000, measure: benchRecovery},
		{name: "memory_active", unit: "kB", measure: benchActive},
		{name: "memory_parked", unit: "kB", budget: 50, measure: benchParked},
		{name: "snapshot_first", unit: "ms", budget: 2, measure: benchSnapshotFirst},
		{name: "snapshot_incremental", unit: "ms", budget: 0.05, measure: benchSnapshotIncremental},
		{name: "restore", unit: "ms", measure: benchRestore},
		{name: "fork", unit: "ms", budget: 1.5, measure: benchFork},
		{name: "docker_exec", unit: "ms", budget: 1.5, measure: benchDockerExec},
		{name: "wakeup", unit: "ms", budget: 3, measure: benchWakeup},
	}
}

func benchNames() []string {
	var names []string
	for _, b := range benchmarks() {
		names = append(names, b.name)
	}
	return names
}

// Run measures what was named. Its exit code is 0 when everything was measured,
// also when a budget is missed, and 2 for an unknown name.
func (c *benchCmd) Run(ctx context.Context, e *process.Env) error {
	chosen, err := c.choose()
	if err != nil {
		_, _ = fmt.Fprintf(e.Stderr, "dev: %v\n", err)
		return process.ExitError{Code: process.ExitUsage}
	}
	report := benchReport{CPUs: runtime.NumCPU(), Results: []benchResult{}}
	for _, b := range chosen {
		_, _ = fmt.Fprintf(e.Stderr, "measuring %s\n", b.name)
		m, err := b.take(ctx, e, benchOptions{parked: c.Parked, turns: c.Turns})
		if err != nil {
			return fmt.Errorf("measuring %s: %w", b.name, err)
		}
		report.Results = append(report.Results, b.result(m))
	}
	if c.JSON {
		if err := json.NewEncoder(e.Stdout).Encode(report); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		return nil
	}
	report.print(e.Stdout)
	return nil
}

func (c *benchCmd) choose() ([]benchmark, error) {
	all := benchmarks()
	if len(c.Name) == 0 {
		return all, nil
	}
	var chosen []benchmark
	for _, name := range c.Name {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("bench: there is no %q; there is: %s", name, strings.Join(benchNames(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (b benchmark) take(ctx context.Context, e *process.Env, o benchOptions) (m measurement, err error) {
	if b.measure != nil {
		return b.measure(ctx, e, o)
	}
	m.samples, m.yardstick, m.what, err = b.run(ctx, e)
	return m, err
}

func (b benchmark) result(m measurement) benchResult {
	r := benchResult{
		Name: b.name, Unit: b.unit, N: len(m.samples), P50: percentile(m.samples, 50), P99: percentile(m.samples, 99),
		Samples: append([]float64{}, m.samples...), Pass: true, Note: m.note,
	}
	measured := r.P50
	if len(m.yardstick) > 0 {
		r.Yardstick = &benchYardstick{Name: m.what, P50: percentile(m.yardstick, 50), Samples: m.yardstick}
		ratio := r.P50 / r.Yardstick.P50
		r.Ratio, measured = &ratio, ratio
	}
	if b.budget > 0 {
		r.Budget, r.Pass = &b.budget, measured <= b.budget
	}
	r.Pass = r.Pass && !m.broken
	return r
}

// percentile is the nearest-rank percentile, 0 without samples.
func percentile(samples []float64, p int) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return s[min((len(s)*p+99)/100, len(s))-1]
}

func (r benchReport) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%d CPUs\n", r.CPUs)
	for _, x := range r.Results {
		line := fmt.Sprintf("%-17s p50 %8.2f %-2s p99 %8.2f %-2s n %d", x.Name, x.P50, x.Unit, x.P99, x.Unit, x.N)
		if x.Ratio != nil {
			line += fmt.Sprintf("  %.1f × %s (%.2f)", *x.Ratio, x.Yardstick.Name, x.Yardstick.P50)
		}
		if x.Budget != nil {
			line += fmt.Sprintf("  budget %g", *x.Budget)
			if !x.Pass {
				line += "  MISSED"
			}
		}
		if x.Note != "" {
			line += "  (" + x.Note + ")"
		}
		_, _ = fmt.Fprintln(w, line)
	}
}
