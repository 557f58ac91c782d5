package docker

import (
	"context"
)

// terminalFD is where the directory with the program that gives a command a terminal
// is open when the command begins: it lies among the records, where no command comes.
// The harness opens it there.
const terminalFD = "/proc/self/fd/5"

// terminalHelper makes sure that the bundle is in the container, and returns its name
// among the records.
func (s *session) terminalHelper(ctx context.Context, have *bundle) (string, error) {
	const doing = "bringing a terminal into the sandbox"
	name := "terminal-" + have.digest[:16]
	out, err := s.ask(ctx, doing, "helper", name)
	if err != nil || string(out) == "there\n" {
		return name, err
	}
	aside := name + newMark + random()
	if err := s.b.copyBundle(ctx, have, s.id, insideRoot, aside, doing); err != nil {
		return "", err
	}
	_, err = s.ask(ctx, doing, "helper", name, aside)
	return name, err
}
