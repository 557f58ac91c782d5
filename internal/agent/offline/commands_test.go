package offline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/wire"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	one := func(commands ...string) [][]string {
		var groups [][]string
		for _, c := range commands {
			groups = append(groups, []string{c})
		}
		return groups
	}
	for name, c := range map[string]struct {
		text string
		want [][]string
	}{
		"none":                    {"look around", nil},
		"two in a sentence":       {"look around with `ls -la`, then `rm -rf build`", one("ls -la", "rm -rf build")},
		"a loop":                  {"`for i in $(seq 30); do echo $i | tee -a log; sleep 1; done`", one("for i in $(seq 30); do echo $i | tee -a log; sleep 1; done")},
		"backtick inside":         {"``echo `date` ``", one("echo `date` ")},
		"spaces taken off":        {"`` `date` ``", one("`date`")},
		"only spaces":             {"` ` and `  `", nil},
		"empty run":               {"`` and then", nil},
		"three on one line":       {"```ls```", one("ls")},
		"unclosed":                {"`ls and more", nil},
		"unclosed longer first":   {"``ls `pwd`", one("pwd")},
		"escaped":                 {"\\`ls` `pwd`", nil},
		"backslash in code":       {"`printf '\\n'` \\\\`pwd`", one("printf '\\n'", "pwd")},
		"line break in span":      {"`echo a\nb`", one("echo a b")},
		"not over paragraphs":     {"`a\n\nb` c`", one(" c")},
		"fence is one command":    {"```sh\ncd x\nls\n```", one("cd x\nls")},
		"fence unclosed":          {"```\nls", one("ls")},
		"tilde fence":             {"~~~\necho ```\n~~~\n`pwd`", one("echo ```", "pwd")},
		"longer fence":            {"````\necho\n```\n````", one("echo\n```")},
		"parallel":                {"```parallel\nsleep 1\n\n  sleep 2\n```\nthen `pwd`", [][]string{{"sleep 1", "sleep 2"}, {"pwd"}}},
		"parallel, more words":    {"``` sh Parallel\na\nb\n```", [][]string{{"a", "b"}}},
		"parallel without lines":  {"```parallel\n\n```", nil},
		"parallel behind text":    {"please ```parallel\na\nb\n``` and `c`", [][]string{{"a", "b"}, {"c"}}},
		"fence closed behind":     {"do ```parallel\na\nb```, then `c`", [][]string{{"a", "b"}, {"c"}}},
		"span over fence length":  {"text ```a\nb``` c", one("a b")},
		"fence between spans":     {"`a`\n```\nb\n```\n`c`", one("a", "b", "c")},
		"fence ends a paragraph":  {"`a\n```\nb\n```\n", one("b")},
		"windows line ends":       {"```parallel\r\na\r\nb\r\n```\r\n", [][]string{{"a", "b"}}},
		"indented fence":          {"   ```\n   ls\n   ```", one("   ls")},
		"heredoc in a fence":      {"```bash\ncat > x <<'E'\n`hi`\nE\n```", one("cat > x <<'E'\n`hi`\nE")},
		"unicode":                 {"führe `echo „ü“ 日本` aus", one("echo „ü“ 日本")},
		"apostrophes are nothing": {"it's `ls`'s turn", one("ls")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := commandsOf(c.text)
			require.Equal(t, c.want, got)
		})
	}
}

// A message of a mebibyte of backticks is read in reasonable time.
func TestCommandsOfHostileText(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var b strings.Builder
	for n := 1; b.Len() < 1<<20; n++ {
		b.WriteString(strings.Repeat("`", n%700+1) + "a")
	}
	commandsOf(b.String())
	commandsOf(strings.Repeat("`a\n", 1<<18))
	commandsOf(strings.Repeat("```a\n", 1<<17))
	commandsOf(strings.Repeat("x ```a\n", 1<<17))
	commandsOf(strings.Repeat("`", 1<<20))
	commandsOf(strings.Repeat("` a\n~~~ \n", 1<<16))
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestFileTools(t *testing.T) {
	t.Parallel()
	const patch = "*** Begin Patch\n*** Delete File: a b\n*** End Patch"
	for command, want := range map[string]struct{ tool, arguments string }{
		patch:             {"apply_patch", `{"patch":"*** Begin Patch\n*** Delete File: a b\n*** End Patch"}`},
		"list_files":      {"list_files", `{"path":null,"depth":null}`},
		"list_files a b/": {"list_files", `{"path":"a b/","depth":null}`},
		"list_files2":     {"shell", `{"command":"list_files2","cwd":null,"timeout_seconds":null,"yield_time_ms":null,"tty":null}`},
	} {
		require.Equal(t, want.tool, toolOf(command))
		require.JSONEq(t, want.arguments, step{command: command}.arguments())
		call := wire.Item{Name: want.tool, Arguments: &want.arguments}
		require.Equal(t, command, commandOf(call))
	}
}

// commandsOf are the commands of the steps.
func commandsOf(text string) [][]string {
	var groups [][]string
	for _, g := range steps(text) {
		var one []string
		for _, st := range g {
			one = append(one, st.command)
		}
		groups = append(groups, one)
	}
	return groups
}

func TestInteractive(t *testing.T) {
	t.Parallel()
	got := steps("```interactive tty yield=500\npython3 -i\n> print(6 * 7)\n\n>\n<\n^C\n^D\n```\nand `ls`")
	talk := func(chars string) []step { return []step{{yield: 500, tty: true, talk: true, chars: chars}} }
	require.Equal(t, [][]step{
		{{command: "python3 -i", yield: 500, tty: true}}, talk("print(6 * 7)\n"), talk("\n"), talk(""), talk("\x03"), talk("\x04"), {{command: "ls"}},
	}, got)
	require.Equal(t, [][]step{{{yield: 1000, talk: true, session: "1.2", chars: "y\n"}}}, steps("```interactive session=1.2\n> y\n```"))
}
