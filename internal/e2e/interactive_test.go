package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replied: the turn's answer is there, whatever runs on.
func replied(turn int) func(thread) bool {
	return func(th thread) bool { return th.answer(turn).Text != "" }
}

// rests: the turn is over, and its first command is not.
func rests(turn int) func(thread) bool {
	return func(th thread) bool {
		return strings.HasPrefix(th.turn(turn).Text, "Done") && th.call(turn, 0).State == "running" && th.turn(turn).has("stop")
	}
}

const echoing = `while read -r line; do echo "got $line" | tee -a log; done; echo end`

// A command goes to the background, is sent what people allow, and ends on its
// turn's card, after the turn.
func TestTalkToARunningCommand(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "talk\n```interactive yield=500\n"+echoing+"\n> a b\n```")
	m := ada.sees(t, id, "the text asks", waiting).pending()[0]
	require.Equal(t, "a b\n", m.Approval.Command)
	require.Contains(t, m.Text, "as text to the running command "+echoing+" (1.1)")
	require.Empty(t, ada.thread(t, id).inWorkspace(t, "log"), "nothing was sent")
	ada.approve(t, m)
	th := ada.sees(t, id, "the answer", replied(1))
	require.Contains(t, th.answer(1).Text, "goes on in the background as session 1.1")
	th = ada.sees(t, id, "the turn is over, the command is not", rests(1))
	require.Contains(t, th.turn(1).Text, "in the background, session 1.1")

	ada.says(t, id, "```interactive session=1.1\n<\n^D\n```")
	th = ada.sees(t, id, "the second answer", answered(2))
	require.Contains(t, th.answer(2).Text, "end\n")
	require.Equal(t, 1, strings.Count(th.answer(1).Text+th.answer(2).Text, "got a b\n"), "the model reads all, once")
	th = ada.sees(t, id, "the first card shows the end", func(th thread) bool { return th.call(1, 0).State == "completed" })
	require.Equal(t, 0, *th.calls(1)[0].ExitCode)
	require.False(t, th.turn(1).has("stop"))
	require.Equal(t, "got a b\n", th.inWorkspace(t, "log"))
	require.Equal(t, "got a b\nend\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))
}

// A program that asks only on a terminal has one, and is answered by what people
// allow: the model and the card see its question and the echo, without escapes, and
// what is downloaded is what came.
func TestAnswerOnATerminal(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	const asking = `test -t 0 || exit 9; printf '\033[1mYour name:\033[0m '; read -r name; echo "hello $name, $(stty size)" | tee greeting; read -r rest; exit 4`
	id := ada.opens(t, "```interactive yield=500\n"+asking+"\n```")
	th := ada.sees(t, id, "without a terminal it refuses", func(th thread) bool { return answered(1)(th) && th.call(1, 0).State == "completed" })
	require.Equal(t, 9, *th.calls(1)[0].ExitCode)

	ada.says(t, id, "talk\n```interactive tty yield=500\n"+asking+"\n> ada\n```")
	m := ada.sees(t, id, "the text asks", waiting).pending()[0]
	require.Equal(t, "ada\n", m.Approval.Command)
	require.Contains(t, m.Text, "as keys to the terminal of the running command test -t 0")
	ada.sees(t, id, "the card shows the question", func(th thread) bool { return strings.Contains(th.call(2, 0).Tail, "Your name:") })
	ada.approve(t, m)
	th = ada.sees(t, id, "the card shows the answer", func(th thread) bool {
		return rests(2)(th) && strings.Contains(th.call(2, 0).Tail, "Your name: ada\nhello ada, 40 120")
	})
	require.Equal(t, "hello ada, 40 120\n", th.inWorkspace(t, "greeting"))
	require.NotContains(t, th.answer(2).Text, "\x1b")
	require.Contains(t, ada.output(t, th.calls(2)[0].ID, "stdout", 0), "\x1b[1mYour name:\x1b[0m ada\r\nhello ada, 40 120\r\n")

	ada.says(t, id, "```interactive session=2.1\n^D\n```")
	th = ada.sees(t, id, "it has ended", func(th thread) bool { return answered(3)(th) && th.call(2, 0).State == "completed" })
	require.Equal(t, 4, *th.calls(2)[0].ExitCode)
	for _, part := range []string{"Your name: ", "ada\n", "hello ada, 40 120\n"} {
		require.Contains(t, th.answer(2).Text+th.answer(3).Text, part, "the model reads it, clean")
	}
}

// What runs in the background is ended by its card's button, by `stop` in a turn
// and by a pause, with all that it started.
func TestBackgroundIsEnded(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	one, two, three := nap(5000), nap(5000), nap(5000)
	id := ada.opens(t, "```interactive yield=300\n"+one+" & "+two+"\n```")
	th := ada.sees(t, id, "the turn is over", func(th thread) bool { return rests(1)(th) && asleep(t, one, two) })
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	gone(t, one, two)
	th = ada.sees(t, id, "it is stopped", func(th thread) bool { return th.call(1, 0).State == "cancelled" })
	require.Contains(t, th.turn(1).Text, "stopped by @ada")

	ada.says(t, id, "```interactive yield=300\n"+three+"\n```")
	ada.sees(t, id, "the second turn is over", rests(2))
	ada.says(t, id, "/agent pause")
	gone(t, three)
	ada.sees(t, id, "a sentence", func(th thread) bool {
		return th.said("Paused by @ada. The next message resumes it. Ended in the background: `" + three + "`.")
	})
}

// A worker that is killed when the text is with the command, and before anybody
// knows that, does not send it twice. The command goes on meanwhile.
func TestWorkerKilledAfterAWrite(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	ada := d.as("ada")
	w := d.worker(t)
	id := ada.opens(t, "talk\n```interactive yield=4000\n"+echoing+"\n> once\n^D\n```")
	ada.approve(t, ada.sees(t, id, "the text asks", waiting).pending()[0])
	await(t, within, "the text has arrived", func() (string, bool) {
		s := ada.thread(t, id).inWorkspace(t, "log")
		return s, strings.Contains(s, "got once")
	})
	w.kill()
	require.Empty(t, ada.thread(t, id).answer(1).Text)
	d.worker(t)
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "got once\n", th.inWorkspace(t, "log"))
	require.Equal(t, 1, strings.Count(th.answer(1).Text, "got once"))
	th = ada.sees(t, id, "the command has ended", func(th thread) bool { return th.call(1, 0).State == "completed" })
	require.Equal(t, "got once\nend\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))
}
