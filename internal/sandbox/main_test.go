package sandbox_test

import (
	"os"
	"testing"

	"github.com/countersign/countersign/internal/sandbox/terminal"
)

// TestMain lets the test binary stand inside a sandbox, as a worker's program does.
func TestMain(m *testing.M) {
	if terminal.Asked(os.Args) {
		os.Exit(terminal.Run(os.Args))
	}
	os.Exit(m.Run())
}
