// Command testsum reads what go test -json prints, shows one line for each
// package and the output of what failed, and ends with what failed, in short, and
// the line "N passed, N failed, N skipped". It counts tests and subtests that have no
// subtests of their own; a package that fails without a failed test (it does
// not build, panics or runs out of time) counts as one failure. It exits with 1
// when anything failed or nothing passed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	s := newSum(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	if !s.finish() {
		os.Exit(1)
	}
}

// event is one line of go test -json, or of go build -json within it.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// pkg is what is known of one package's run. A package that runs twice in one
// input (with other flags) starts anew at its next "start".
type pkg struct {
	output  map[string][]string // by test; "" is the package's own
	result  map[string]string   // by test
	parents map[string]bool
}

type sum struct {
	out                     io.Writer
	packages                map[string]*pkg
	build                   map[string][]string
	passed, failed, skipped int
	skips                   []string
	runnerFailed            bool
	failures, first         []attempt // at the last attempt, and those that were made again
}

func newSum(out io.Writer) *sum {
	return &sum{out: out, packages: map[string]*pkg{}, build: map[string][]string{}}
}

// maxLine is the longest line read: a test's output of one line is within it.
const maxLine = 16 << 20 // 16 MiB

func (s *sum) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.print("%s\n", lines.Text()) // Not from the test runner: show it.
			continue
		}
		s.take(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading test events: %w", err)
	}
	return nil
}

func (s *sum) print(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *sum) take(e event) {
	switch e.Action {
	case "build-output":
		s.build[e.ImportPath] = append(s.build[e.ImportPath], e.Output)
		return
	case "runner-failed": // From .ci/run: go test's exit code was not 0.
		s.runnerFailed = true
		return
	case "build-fail":
		text := strings.Join(s.build[e.ImportPath], "")
		s.failures = append(s.failures, attempt{e.ImportPath, "", text})
		s.print("%s", text)
		return
	case "first-attempt": // From .ci/run: what failed, and is made again.
		s.first = append(s.first, attempt{e.Package, e.Test, e.Output})
		return
	}
	p := s.packages[e.Package]
	if p == nil || e.Action == "start" {
		p = &pkg{output: map[string][]string{}, result: map[string]string{}, parents: map[string]bool{}}
		s.packages[e.Package] = p
	}
	switch e.Action {
	case "run":
		p.result[e.Test] = ""
		for name := e.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			p.parents[name] = true
		}
	case "output":
		p.output[e.Test] = append(p.output[e.Test], e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			p.result[e.Test] = e.Action
			return
		}
		s.end(e, p)
		delete(s.packages, e.Package)
	}
}

// end counts a package that has ended, and shows it.
func (s *sum) end(e event, p *pkg) {
	failedHere := 0
	for test, result := range p.result {
		if p.parents[test] && (result != "fail" || s.childFailed(p, test)) {
			continue
		}
		switch result {
		case "pass":
			s.passed++
		case "skip":
			s.skipped++
			s.skips = append(s.skips, e.Package+" "+test)
		default: // "fail", or it never ended
			failedHere++
			text := strings.Join(p.output[test], "")
			s.failures = append(s.failures, attempt{e.Package, test, text})
			s.print("%s", text)
		}
	}
	if e.Action == "fail" && failedHere == 0 {
		failedHere = 1
		if text := strings.Join(p.output[""], ""); text != "" { // else what does not build has said so
			s.failures = append(s.failures, attempt{e.Package, "", text})
		}
	}
	if failedHere > 0 {
		s.print("%s", strings.Join(p.output[""], ""))
	}
	s.failed += failedHere
	word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "none"}[e.Action]
	s.print("%-4s %s %s\n", word, e.Package, time.Duration(e.Elapsed*float64(time.Second)).Round(10*time.Millisecond))
}

// childFailed says whether a subtest of test did not pass: the failure is
// counted there.
func (s *sum) childFailed(p *pkg, test string) bool {
	for name, result := range p.result {
		if strings.HasPrefix(name, test+"/") && result != "pass" && result != "skip" {
			return true
		}
	}
	return false
}

// finish prints the totals and says whether all is well. A package whose end
// was never reported counts as a failure.
func (s *sum) finish() bool {
	for name, p := range s.packages {
		s.failed++
		s.print("FAIL %s did not end\n", name)
		s.failures = append(s.failures, attempt{name, "", strings.Join(p.output[""], "")})
	}
	if s.runnerFailed && s.failed == 0 {
		s.failed++
		s.print("FAIL go test failed without a failed test\n")
	}
	for _, skip := range s.skips {
		s.print("skip %s\n", skip)
	}
	s.tellFailures()
	s.print("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return s.failed == 0 && s.passed > 0
}
