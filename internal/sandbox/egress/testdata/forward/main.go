// Command forward is what stands inside a sandbox, and nothing else: tests build it
// without what a container may lack.
package main

import (
	"os"

	"github.com/countersign/countersign/internal/sandbox/egress"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

func main() {
	switch {
	case egress.Forwarding(os.Args):
		os.Exit(egress.Forward(os.Args))
	case terminal.Asked(os.Args):
		os.Exit(terminal.Run(os.Args))
	}
	os.Exit(2)
}
