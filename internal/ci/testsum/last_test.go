package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What failed is told last, both attempts of it, however much is printed around it.
func TestFailuresAreToldLast(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	event := func(format string, args ...any) { fmt.Fprintf(&in, format+"\n", args...) }
	long := strings.Repeat(`a step\n`, 300) + `    Error Trace: %s\n` + strings.Repeat(`cleaning up\n`, 300)
	event(`{"Action":"first-attempt","Package":"p","Test":"TestFlaky","Output":"`+long+`"}`, "once")
	event(`{"Action":"first-attempt","Package":"p","Test":"TestBroken","Output":"`+long+`"}`, "one")
	for _, line := range []string{
		`"start"`, `"run","Test":"TestFlaky"`, `"pass","Test":"TestFlaky"`, `"run","Test":"TestBroken"`, `"run","Test":"TestBroken/part"`,
		`"output","Test":"TestBroken/part","Output":"` + fmt.Sprintf(long, "two") + `"`, `"fail","Test":"TestBroken/part"`, `"fail","Test":"TestBroken"`, `"fail"`,
	} {
		event(`{"Package":"p","Action":%s}`, line)
	}
	for n := range 120 {
		event(`{"Action":"start","Package":"p%d"}`, n)
		event(`{"Action":"pass","Package":"p%d"}`, n)
	}
	var out bytes.Buffer
	s := newSum(&out)
	require.NoError(t, s.read(strings.NewReader(in.String())))
	require.False(t, s.finish())
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, "1 passed, 1 failed, 0 skipped", lines[len(lines)-1])
	end := strings.Join(lines[len(lines)-100:], "\n")
	for _, said := range []string{
		"== passed at the second attempt: p TestFlaky\na step\na step\n    Error Trace: once\ncleaning up\n",
		"== failed: p TestBroken/part\n-- the first attempt:\na step\na step\n    Error Trace: one\n",
		"-- the second:\na step\na step\n    Error Trace: two\n",
	} {
		require.Contains(t, end, said)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\nb\n", excerpt("a\nb\n", 10))
	require.Equal(t, "b\nc\n… and 1 lines more, above\n", excerpt("a\nb\nc\n", 2))
	require.Equal(t, "b\nc\npanic: no\n… and 3 lines more, above\n", excerpt("a\nb\nc\npanic: no\nd\ne\n", 3))
}
