package chat_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
)

var backends = []string{"local", "docker", "e2b", "daytona", "modal"}

func TestParse(t *testing.T) {
	t.Parallel()
	run := func(task string) chat.Command { return chat.Command{Verb: chat.VerbRun, Task: task} }
	for text, want := range map[string]chat.Command{
		"fix the flaky test":               run("fix the flaky test"),
		"  fix\n\nthe `x  y` test \n":      run("fix\n\nthe `x  y` test"),
		"list":                             {Verb: chat.VerbList},
		"List":                             {Verb: chat.VerbList},
		"list the files":                   run("list the files"),
		"run -- list":                      run("list"),
		"-- list":                          run("list"),
		"run list":                         run("list"),
		"run — list":                       run("list"),
		"run -- --backend x":               run("--backend x"),
		"run fix it":                       run("fix it"),
		"run fix --backend docker":         run("fix --backend docker"),
		"grep for --color in it":           run("grep for --color in it"),
		"- fix the list":                   run("- fix the list"),
		"-5 degrees is cold":               run("-5 degrees is cold"),
		`"quoted" start`:                   run(`"quoted" start`),
		`don't stop`:                       run(`don't stop`),
		"stop":                             {Verb: chat.VerbStop},
		"stop.":                            run("stop."),
		"stop it":                          run("stop it"),
		`"stop"`:                           run(`"stop"`),
		"pause":                            {Verb: chat.VerbPause},
		"done":                             {Verb: chat.VerbDone},
		"destroy":                          {Verb: chat.VerbDestroy},
		"destroy the build directory":      run("destroy the build directory"),
		"status":                           {Verb: chat.VerbStatus},
		"history":                          {Verb: chat.VerbHistory},
		"grants":                           {Verb: chat.VerbGrants},
		"help":                             {Verb: chat.VerbHelp},
		"help me":                          run("help me"),
		"files":                            {Verb: chat.VerbFiles},
		"files internal/chat":              {Verb: chat.VerbFiles, Path: "internal/chat"},
		"files are missing":                run("files are missing"),
		"switch":                           {Verb: chat.VerbSwitch},
		"switch docker":                    {Verb: chat.VerbSwitch, Backend: "docker"},
		"Switch Docker":                    {Verb: chat.VerbSwitch, Backend: "docker"},
		"switch docker /srv/x":             {Verb: chat.VerbSwitch, Backend: "docker", Root: "/srv/x"},
		"switch docker on":                 run("switch docker on"),
		"switch the lights":                run("switch the lights"),
		"switch to docker please":          run("switch to docker please"),
		"fork":                             {Verb: chat.VerbFork},
		`fork "try two"`:                   {Verb: chat.VerbFork, Title: "try two"},
		`fork “try two”`:                   {Verb: chat.VerbFork, Title: "try two"},
		`fork "a" --backend docker`:        {Verb: chat.VerbFork, Title: "a", Backend: "docker"},
		`fork --backend=Docker "a"`:        {Verb: chat.VerbFork, Title: "a", Backend: "docker"},
		"fork the repository":              run("fork the repository"),
		"fork --depth 1":                   run("fork --depth 1"),
		"fork --backend":                   run("fork --backend"),
		`fork "a" "b"`:                     run(`fork "a" "b"`),
		"new --from 1764459690123456":      {Verb: chat.VerbNew, From: "1764459690123456"},
		"new --from=agent/web/main/17":     {Verb: chat.VerbNew, From: "agent/web/main/17"},
		"new feature please":               run("new feature please"),
		"new --from x y":                   run("new --from x y"),
		`title "a new name"`:               {Verb: chat.VerbTitle, Title: "a new name"},
		`title 'it is'`:                    {Verb: chat.VerbTitle, Title: "it is"},
		`title "it's"`:                     {Verb: chat.VerbTitle, Title: "it's"},
		"title case the headings":          run("title case the headings"),
		"title x":                          run("title x"),
		`title ""`:                         run(`title ""`),
		`title "open`:                      run(`title "open`),
		"model gpt-5.6-mini":               {Verb: chat.VerbModel, Model: "gpt-5.6-mini"},
		"model the data":                   run("model the data"),
		"grants revoke g1":                 {Verb: chat.VerbRevoke, Grant: "g1"},
		"Grants Revoke g1":                 {Verb: chat.VerbRevoke, Grant: "g1"},
		"grants revoke":                    run("grants revoke"),
		"grants revoke g1 g2":              run("grants revoke g1 g2"),
		"grants for everybody":             run("grants for everybody"),
		"revoke g1":                        run("revoke g1"),
		"run --backend docker fix it":      {Verb: chat.VerbRun, Backend: "docker", Task: "fix it"},
		"--backend docker fix it":          {Verb: chat.VerbRun, Backend: "docker", Task: "fix it"},
		"run --backend=docker -- --fix":    {Verb: chat.VerbRun, Backend: "docker", Task: "--fix"},
		`run --title "a b" --model m do`:   {Verb: chat.VerbRun, Title: "a b", Model: "m", Task: "do"},
		`run --title="a b" do`:             {Verb: chat.VerbRun, Title: "a b", Task: "do"},
		"run —title x do":                  {Verb: chat.VerbRun, Title: "x", Task: "do"},
		"run —why not":                     run("—why not"),
		"run --workspace api\nfix\nit":     {Verb: chat.VerbRun, Workspace: "api", Task: "fix\nit"},
		"rm -rf build":                     run("rm -rf build"),
		"run":                              {},
		"run --":                           {},
		"":                                 {},
		" \n\t":                            {},
		"run --backend docker":             {},
		"run --bakend docker fix":          {},
		"--force fix":                      {},
		"-v fix":                           {},
		"run --title fix --title again it": {},
		"run --backend --model x fix":      {},
		"switch dokcer":                    {},
		"switch off":                       {},
	} {
		c, err := chat.Parse(text, backends)
		if want == (chat.Command{}) {
			var e *chat.Error
			require.ErrorAs(t, err, &e, "%q gave %+v", text, c)
			require.Equal(t, chat.KindInvalid, e.Kind)
			require.NotEmpty(t, e.Hint, text)
			require.True(t, strings.HasSuffix(e.Message, "."), e.Message)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, c, text)
	}
}

func TestParseNamesBackendsOfABadSwitch(t *testing.T) {
	t.Parallel()
	_, err := chat.Parse("switch dokcer", backends)
	var e *chat.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Message, "dokcer")
	for _, b := range backends {
		require.Contains(t, e.Hint, b)
	}
}

func TestAddressed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/agent fix it": "fix it", " /agent\nfix": "fix", "@Countersign stop": "stop", "/agent": "",
	} {
		got, ok := chat.Addressed(text, "/agent", "@countersign")
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "agent", "/agents x", "tell @countersign stop", "@countersigned x"} {
		_, ok := chat.Addressed(text, "/agent", "@countersign")
		require.False(t, ok, text)
	}
}

// A task is what was typed, byte for byte; whatever is put behind `run --` is a
// task; nothing makes the parser panic or invent text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"list", "run -- list", `title "x"`, "fork “a” --backend=x", "run --title=\"a b\" do", "switch a b", "—", "\"", "-\x00", "\xff'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := chat.Parse(text, backends)
		if err == nil {
			require.NotEmpty(t, c.Verb)
			require.True(t, strings.HasSuffix(strings.TrimSpace(text), c.Task))
			for _, v := range []string{c.Title, c.Model, c.From, c.Path, c.Root} {
				require.Contains(t, text, v)
			}
		}
		if task := strings.TrimSpace(text); task != "" && utf8.ValidString(text) {
			forced, err := chat.Parse("run -- "+text, backends)
			require.NoError(t, err)
			require.Equal(t, chat.Command{Verb: chat.VerbRun, Task: task}, forced)
		}
	})
}
