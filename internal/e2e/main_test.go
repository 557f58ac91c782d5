package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/countersign/countersign/internal/agent/agenttest/mcptest"
)

// bin is the directory of the executables under test.
var bin string

func TestMain(m *testing.M) {
	mcptest.Main()
	flag.Parse()
	// The tests wait for processes most of the time: more of them run at once
	// than there are processors, unless the caller has chosen.
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "6") // a number, so it is taken
	}
	os.Exit(run(m))
}

func isSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(m *testing.M) int {
	temp, err := os.MkdirTemp("", "countersign-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a directory:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if bin = os.Getenv("COUNTERSIGN_E2E_BIN"); bin == "" {
		bin = filepath.Join(temp, "bin")
		if err := build(bin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	defer stopShared()
	return m.Run()
}

// build makes the executables of the module that this package is in.
func build(into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return fmt.Errorf("making a directory for the executables: %w", err)
	}
	cmd := exec.Command("go", "build", "-o", into+string(filepath.Separator), "./cmd/dev", "./cmd/worker", "./cmd/bot")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the executables: %w\n%s", err, out)
	}
	return nil
}
