package web_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/web"
	"github.com/countersign/countersign/internal/workflows"
)

func TestPosterConforms(t *testing.T) {
	t.Parallel()
	chattest.Conform(t, func(t *testing.T) chattest.Platform {
		s := open(t)
		p := s.post(general, text("/agent hello", ""))
		thread := func(id string) workflows.Thread {
			return workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: id}
		}
		return chattest.Platform{
			Poster: s.Poster(), Thread: thread(p.ThreadID), New: thread(""), Drawn: true,
			Read: func(t *testing.T, th workflows.Thread) []chattest.Shown {
				t.Helper()
				var out []chattest.Shown
				for _, m := range s.thread(th.ID).Messages {
					if m.Kind == "user" {
						continue
					}
					shown := chattest.Shown{Ref: m.ID, Text: m.Text}
					for _, b := range m.Buttons {
						shown.Buttons = append(shown.Buttons, b.Label)
					}
					out = append(out, shown)
				}
				return out
			},
		}
	})
}

// childDir is set in a process of the test that posts until it is killed.
const childDir = "COUNTERSIGN_TEST_WEB_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := postForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func keyed(n int) chat.Content {
	t := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "1764459690123456"}
	return chat.Content{WorkflowID: t.WorkflowID(), Thread: t, Text: fmt.Sprint("text ", n), View: workflows.MessageView{
		Key: fmt.Sprint("notice-", n), Kind: workflows.KindNotice, Version: 1,
	}}
}

// postForever posts one message after the other and says the reference of each
// on stdout once it has it.
func postForever(dir string) error {
	s, err := web.New(context.Background(), web.Options{Dir: dir, Listen: "127.0.0.1:0", Sessions: &chattest.Sessions{}})
	if err != nil {
		return err
	}
	if _, err := s.Poster().OpenThread(context.Background(), workflows.OpenThreadInput{Thread: keyed(0).Thread, Key: "root-1", Title: "t"}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		ref, err := s.Poster().Post(context.Background(), keyed(n))
		if err != nil {
			return err
		}
		fmt.Println(n, ref)
	}
}

// A bot that is killed at any moment leaves what it has posted, and its successor,
// which posts all of it again, leaves one copy of each.
func TestKilledBotLeavesOneCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := map[int]string{}
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for i := 0; lines.Scan(); i++ {
			var n int
			var ref string
			_, err := fmt.Sscan(lines.Text(), &n, &ref)
			require.NoError(t, err)
			if known, ok := acknowledged[n]; ok {
				require.Equal(t, known, ref)
			}
			acknowledged[n] = ref
			if i == 20+30*round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	require.Greater(t, len(acknowledged), 100)
	s := openIn(t, dir, &chattest.Sessions{})
	for n := range len(acknowledged) {
		ref, err := s.Poster().Post(t.Context(), keyed(n))
		require.NoError(t, err)
		require.Equal(t, acknowledged[n], ref)
	}
	count := map[string]int{}
	for _, m := range s.thread(keyed(0).Thread.ID).Messages {
		if strings.HasPrefix(m.Key, "notice-") {
			count[m.Key]++
		}
	}
	require.GreaterOrEqual(t, len(count), len(acknowledged))
	for key, n := range count {
		require.Equal(t, 1, n, key)
	}
}
