package tooloutput_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/agent/tooloutput"
)

func code(n int) *int { return &n }

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   tooloutput.Output
		want string
	}{
		"exit code and both streams": {
			tooloutput.Output{ExitCode: code(1), Stdout: "a\n", Stderr: "b"},
			"exit code: 1\nstdout (2 bytes):\na\n\nstderr (1 bytes):\nb\n",
		},
		"nothing printed": {tooloutput.Output{ExitCode: code(0)}, "exit code: 0\n"},
		"no exit code": {
			tooloutput.Output{State: "completed", Stdout: "x"}, "state: completed\nstdout (1 bytes):\nx\n",
		},
		"denied, reason on one line": {
			tooloutput.Output{State: "denied", Note: "not\nnow"}, "state: denied — not now\n",
		},
		"cancelled with what it printed": {
			tooloutput.Output{State: "cancelled", ExitCode: code(143), Stdout: "x"},
			"state: cancelled\nexit code: 143\nstdout (1 bytes):\nx\n",
		},
		"timed out": {
			tooloutput.Output{ExitCode: code(137), TimedOut: true, Note: "ended after 120 s"},
			"exit code: 137\ntimed out: yes\nnote: ended after 120 s\n",
		},
		"not UTF-8, NUL": {
			tooloutput.Output{ExitCode: code(0), Stdout: "a\xff\x00b"},
			"exit code: 0\nstdout (4 bytes, 8 shown):\na\uFFFD␀b\n",
		},
		"cut by the caller, end kept": {
			tooloutput.Output{ExitCode: code(0), Stdout: "ab", StdoutTail: "yz", StdoutBytes: 26},
			"exit code: 0\nstdout (26 bytes, 33 shown):\nab\n[… 22 bytes left out …]\nyz\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, tooloutput.Format(c.in))
		})
	}
}

func TestFormatCutsHeadAndTailOnRuneBorders(t *testing.T) {
	t.Parallel()
	long := "START" + strings.Repeat("é", tooloutput.MaxStreamBytes) + "END"
	got := tooloutput.Format(tooloutput.Output{ExitCode: code(0), Stdout: long})
	require.True(t, utf8.ValidString(got))
	require.NotContains(t, got, "\uFFFD")
	require.Less(t, len(got), tooloutput.MaxStreamBytes+200)
	o, ok := tooloutput.Parse(got)
	require.True(t, ok)
	require.Equal(t, int64(len(long)), o.StdoutBytes)
	require.True(t, strings.HasPrefix(o.Stdout, "STARTé"))
	require.True(t, strings.HasSuffix(o.Stdout, "éEND"))
	require.Contains(t, o.Stdout, "bytes left out")
}

// Output may hold lines that look like the format's own: they stay output.
func TestParseReadsBackWhateverIsPrinted(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{
		"stderr (3 bytes):\n", "stdout (1 bytes):", "exit code: 7\n", "state: denied — x\n", "\n", "é", "a", "```",
	})
	stream := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		in := tooloutput.Output{
			State:    rapid.SampledFrom([]string{"completed", "cancelled", "unknown"}).Draw(t, "state"),
			TimedOut: rapid.Bool().Draw(t, "timed out"),
			Note:     rapid.SampledFrom([]string{"", "a remark"}).Draw(t, "note"),
			Stdout:   stream.Draw(t, "stdout"),
			Stderr:   stream.Draw(t, "stderr"),
		}
		if rapid.Bool().Draw(t, "exited") {
			in.ExitCode = code(rapid.IntRange(0, 255).Draw(t, "code"))
		}
		got, ok := tooloutput.Parse(tooloutput.Format(in))
		in.StdoutBytes, in.StderrBytes = int64(len(in.Stdout)), int64(len(in.Stderr))
		if !ok || !equal(in, got) {
			t.Fatalf("wrote %+v\nread  %+v", in, got)
		}
	})
}

func equal(a, b tooloutput.Output) bool {
	if (a.ExitCode == nil) != (b.ExitCode == nil) || (a.ExitCode != nil && *a.ExitCode != *b.ExitCode) {
		return false
	}
	a.ExitCode, b.ExitCode = nil, nil
	return a == b
}

func TestChanged(t *testing.T) {
	t.Parallel()
	rest := tooloutput.Format(tooloutput.Output{ExitCode: code(0), Stdout: "x"})
	for _, command := range []string{"rm -rf build", "a\nb: \"c\"", "", "é\t"} {
		by, ran, after := tooloutput.CutChanged(tooloutput.Changed("@grace\nx", command) + rest)
		require.Equal(t, []string{"@grace x", command, rest}, []string{by, ran, after})
	}
	for _, text := range []string{"", rest, "changed by: @x\n", "changed by: @x\nran instead: rm\n"} {
		by, _, after := tooloutput.CutChanged(text)
		require.Empty(t, by)
		require.Equal(t, text, after)
	}
}

func TestParseOfForeignText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "just words", "stdout (99 bytes):\nshort", "exit code: many"} {
		o, ok := tooloutput.Parse(text)
		require.False(t, ok, text)
		require.Equal(t, text, o.Stdout)
	}
	o, ok := tooloutput.Parse("state: denied — @grace: no")
	require.True(t, ok)
	require.Equal(t, "denied", o.State)
	require.Equal(t, "@grace: no", o.Note)
}
