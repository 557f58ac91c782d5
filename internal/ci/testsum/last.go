package main

import (
	"fmt"
	"strings"
)

// attempt is what a test printed that failed.
type attempt struct{ pkg, test, output string }

func (a attempt) String() string { return strings.TrimSuffix(a.pkg+" "+a.test, " ") }

const (
	// lastLines is about how many lines tell at the end what failed: who reads a log's
	// last 100 lines reads all of them.
	lastLines = 80
	// fewestLines is what each failure gets of them, however many there are.
	fewestLines = 12
)

// signs begin what says why a test failed; what is printed before it are steps, and
// after it what it cleaned up.
var signs = []string{"Error Trace:", "panic: ", "DATA RACE"}

// excerpt is the part of an output that says most, in so many lines at most.
func excerpt(output string, most int) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	from := max(0, len(lines)-most)
	for i, line := range lines {
		if isSign(line) {
			from = min(from, max(0, i-2))
			break
		}
	}
	to := min(len(lines), from+most)
	text := strings.Join(lines[from:to], "\n") + "\n"
	if left := len(lines) - (to - from); left > 0 {
		text += fmt.Sprintf("… and %d lines more, above\n", left)
	}
	return text
}

func isSign(line string) bool {
	for _, s := range signs {
		if strings.Contains(line, s) {
			return true
		}
	}
	return false
}

// firstOf is the first attempt at a test, or at the test that it is part of, or at its
// whole package.
func (s *sum) firstOf(failed attempt) (attempt, bool) {
	top, _, _ := strings.Cut(failed.test, "/")
	for _, a := range s.first {
		if a.pkg == failed.pkg && (a.test == top || a.test == "") {
			return a, true
		}
	}
	return attempt{}, false
}

// tellFailures prints what failed once more, last: first what passed at its second
// attempt, then what did not, with both attempts.
func (s *sum) tellFailures() {
	parts, again := len(s.failures), map[attempt]bool{}
	for _, f := range s.failures {
		if a, ok := s.firstOf(f); ok {
			parts++
			again[a] = true
		}
	}
	for _, a := range s.first {
		if !again[a] {
			parts++
		}
	}
	most := max(fewestLines, lastLines/max(1, parts))
	for _, a := range s.first {
		if !again[a] {
			s.print("== passed at the second attempt: %s\n%s", a, excerpt(a.output, most))
		}
	}
	for _, f := range s.failures {
		s.print("== failed: %s\n", f)
		if a, ok := s.firstOf(f); ok {
			s.print("-- the first attempt:\n%s-- the second:\n", excerpt(a.output, most))
		}
		s.print("%s", excerpt(f.output, most))
	}
}
