// Command forward is a forwarder and nothing else: tests build it without what a
// container may lack.
package main

import (
	"os"

	"github.com/countersign/countersign/internal/sandbox/egress"
)

func main() {
	if !egress.Forwarding(os.Args) {
		os.Exit(2)
	}
	os.Exit(egress.Forward(os.Args))
}
