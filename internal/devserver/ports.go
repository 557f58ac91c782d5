package devserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports are chosen at random between these: below what Linux (32768), macOS and
// Windows (49152) give to outgoing connections. The server takes numbers, not
// listeners, and ends the process when one is taken; a port that the system
// calls free may carry an outgoing connection a moment later, which happened
// within an hour of testing.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// portTries bounds the search for a free port.
const portTries = 200

// checkPort says whether port can be listened on now.
func checkPort(port int) error {
	l, err := net.Listen("tcp", address(port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w", address(port), ErrPortTaken)
	case err != nil:
		return fmt.Errorf("listening on %s: %w", address(port), err)
	}
	return l.Close()
}

// freePorts returns n different free ports, the first of which is first unless
// that is 0.
func freePorts(n, first int) ([]int, error) {
	var ports []int
	if first != 0 {
		ports = append(ports, first)
	}
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // Held until all are found: no port twice.
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d on %s", n, lowestPort, highestPort, host)
}

// FreePort returns a port of loopback that is free and that the system does not
// give to outgoing connections, so that it is likely still free after a
// restart.
func FreePort() (int, error) {
	ports, err := freePorts(1, 0)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
