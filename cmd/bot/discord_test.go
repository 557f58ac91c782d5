package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
)

const (
	// discordWithin bounds what this test waits for: processes start, an embedded
	// server with them.
	discordWithin = 2 * time.Minute
	// oncall is the role of those who may approve.
	oncall = "1000000000000000041"
)

// TestDiscord runs the executables as they are deployed: Temporal and a worker in
// one process, a bot of Discord in another, against a strict stand-in for Discord.
// A task is given by command, its thread opens, a member with the approver role
// clicks, the command runs, the answer comes; then the bot is killed and another
// one, started in the middle of an outage of Discord, goes on where it stopped.
func TestDiscord(t *testing.T) {
	t.Parallel()
	fake := discordfake.New(discordfake.Options{})
	t.Cleanup(fake.Close)
	fake.AddRole(discordfake.Guild, discordfake.Role{ID: oncall, Name: "platform-oncall", Mentionable: true})
	fake.AddMember(discordfake.Guild, discordfake.Grace, oncall)
	home := t.TempDir()
	data, workspace, bin := filepath.Join(home, "data"), filepath.Join(home, "workspace"), executables(t)
	require.NoError(t, os.MkdirAll(filepath.Join(workspace, "build"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "build", "out"), []byte("made\n"), 0o644))

	runs(t, home, []string{"COUNTERSIGN_APPROVALS_APPROVERS=platform-oncall", "COUNTERSIGN_WEB_LISTEN=127.0.0.1:0"}, filepath.Join(bin, "dev"),
		"--data-dir", data, "--workspace", workspace, "--model", "offline", "--without", "bot")
	w := discordWorld{t: t, fake: fake}
	w.until("the server is up", func() bool {
		_, err := os.Stat(filepath.Join(data, "dev.json"))
		return err == nil
	})
	settings := []string{
		"COUNTERSIGN_DISCORD_TOKEN=" + fake.Token(), "COUNTERSIGN_DISCORD_API_URL=" + fake.URL(), "COUNTERSIGN_DISCORD_GATEWAY_URL=" + fake.GatewayURL(),
		"COUNTERSIGN_WEB_LISTEN=127.0.0.1:0",
	}
	bot := runs(t, home, settings, filepath.Join(bin, "bot"), "--data-dir", data)
	w.until("the commands are registered", func() bool { return len(fake.Commands("")) > 0 && fake.Gateway().Ready() })

	doctor := exec.CommandContext(t.Context(), filepath.Join(bin, "bot"), "doctor", "--json", "--data-dir", data)
	doctor.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, settings...)
	doctor.Dir = home
	found, err := doctor.Output()
	require.NoError(t, err, string(found))
	require.Contains(t, string(found), "https://discord.com/oauth2/authorize?client_id="+discordfake.AppID)
	require.NotContains(t, string(found), "failed")

	run, err := fake.Slash(discordfake.Ada, discordfake.General, "agent run", map[string]any{"task": "`rm -rf build`, then `ls`", "title": "Clean up"})
	require.NoError(t, err)
	require.Equal(t, discordfake.AnswerDeferred, run.Answer().Kind)
	w.until("the thread opens", func() bool { return len(fake.Threads(discordfake.General)) == 1 })
	thread := fake.Threads(discordfake.General)[0].ID
	card := w.message(thread, "the request", func(m discordfake.Message) bool {
		_, ok := m.Button("Approve once")
		return ok && strings.Contains(m.Content, "rm -rf build")
	})
	require.Equal(t, []string{oncall}, card.Pings)

	click, err := fake.Click(discordfake.Ada, thread, card.ID, "Approve once")
	require.NoError(t, err)
	require.NotZero(t, click.Answer().Kind)
	w.until("who lacks the role is told alone", func() bool {
		for _, m := range fake.Ephemerals(discordfake.Ada) {
			if strings.Contains(m.Content, "This needs") {
				return true
			}
		}
		return false
	})

	// The bot dies; the request outlives it.
	require.NoError(t, bot.Process.Kill())
	_ = bot.Wait() // it was killed
	w.until("the bot is gone", func() bool { return fake.Gateway().Connections() == 0 })
	// Discord is away when another one starts, which waits for it.
	fake.Outage(true)
	runs(t, home, settings, filepath.Join(bin, "bot"), "--data-dir", data)
	w.until("another bot asks more than once", func() bool { return fake.Turned() > 1 })
	fake.Outage(false)
	w.until("another bot", fake.Gateway().Ready)
	w.approves(discordfake.Grace, thread, card.ID)
	answer := w.message(thread, "the answer", func(m discordfake.Message) bool { return strings.Contains(m.Content, "`rm -rf build`: exit code 0") })
	require.Contains(t, answer.Content, "`ls`: exit code 0")
	decided := w.message(thread, "the card says who", func(m discordfake.Message) bool {
		return m.ID == card.ID && strings.Contains(m.Content, "Approved by @grace")
	})
	require.Empty(t, decided.Buttons())

	id := fake.Say(discordfake.Ada, thread, "now `echo second turn`")
	w.message(thread, "the second answer", func(m discordfake.Message) bool {
		return older(id, m.ID) && strings.Contains(m.Content, "`echo second turn`: exit code 0")
	})
	fork, err := fake.Slash(discordfake.Grace, thread, "agent fork", map[string]any{"title": "Another way"})
	require.NoError(t, err)
	require.NotZero(t, fork.Answer().Kind)
	w.until("the copy's thread opens", func() bool { return len(fake.Threads(discordfake.General)) == 2 })
	copied := fake.Threads(discordfake.General)[1]
	require.Equal(t, "Another way", copied.Name)
	w.message(thread, "the copy is told of", func(m discordfake.Message) bool {
		return strings.Contains(m.Content, "as of the end of turn 2") && strings.Contains(m.Content, copied.ID)
	})
	for _, m := range fake.Messages(thread) {
		if m.Author == discordfake.BotUser && m.ID != card.ID {
			require.Empty(t, m.Pings, m.Content)
		}
	}
	root, ok := fake.Message(discordfake.General, thread)
	require.True(t, ok)
	require.Contains(t, root.Content, "**Clean up**")
	require.Empty(t, fake.Complaints())
}

func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// executables builds dev, worker and bot, unless they are built already.
func executables(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("COUNTERSIGN_E2E_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "../dev", "../worker", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// runs starts an executable until the test ends, which shows what it printed if
// it fails.
func runs(t *testing.T, home string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.CreateTemp(home, filepath.Base(name)+"-*.log")
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_ = log.Close()
		if printed, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s printed, at the end:\n%s", filepath.Base(name), printed[max(0, len(printed)-2500):])
		}
	})
	return cmd
}

type discordWorld struct {
	t    *testing.T
	fake *discordfake.Server
}

func (w discordWorld) until(what string, ok func() bool) {
	w.t.Helper()
	require.Eventually(w.t, ok, discordWithin, 50*time.Millisecond, what)
}

// approves clicks, as a person does: again when told that a click was not confirmed.
func (w discordWorld) approves(who, thread, card string) {
	w.t.Helper()
	told := -1
	w.until("the click has counted", func() bool {
		m, _ := w.fake.Message(thread, card)
		_, waits := m.Button("Approve once")
		n := 0
		for _, m := range w.fake.Ephemerals(who) {
			if !m.Loading() {
				n++
			}
		}
		if waits && n != told {
			told = n
			if click, err := w.fake.Click(who, thread, card, "Approve once"); err == nil { // else it has gone meanwhile
				require.NotZero(w.t, click.Answer().Kind)
			}
		}
		return !waits
	})
}

// message is the newest message of the bot's in a thread that is what we look
// for, once there is one.
func (w discordWorld) message(thread, what string, is func(discordfake.Message) bool) discordfake.Message {
	w.t.Helper()
	var found discordfake.Message
	w.until(what, func() bool {
		for _, m := range w.fake.Messages(thread) {
			if m.Author == discordfake.BotUser && is(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}
