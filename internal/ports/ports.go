// Package ports finds ports of loopback that stay free: what is started later is told
// its port's number, and what is started again finds it there.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Host is where all ports here are.
const Host = "127.0.0.1"

// ErrTaken is returned when the port that was asked for is in use.
var ErrTaken = errors.New("port is taken")

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

// Take takes n different free ports, the first of which is first unless that
// is 0. They are taken from everybody else until release is called, so that two
// servers that start at the same time do not get the same.
func Take(n, first int) (ports []int, release func(), err error) {
	var held []net.Listener
	release = func() {
		for _, l := range held {
			_ = l.Close() // it has carried nothing
		}
	}
	take := func(port int) error {
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			return err
		}
		held, ports = append(held, l), append(ports, port)
		return nil
	}
	if first != 0 {
		err := take(first)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = ErrTaken
		}
		if err != nil {
			return nil, release, fmt.Errorf("listening on %s: %w", Address(first), err)
		}
	}
	for range portTries {
		if len(ports) == n {
			return ports, release, nil
		}
		_ = take(lowestPort + rand.IntN(highestPort-lowestPort)) // then another one
	}
	release()
	return nil, release, fmt.Errorf("no %d free ports between %d and %d on %s", n, lowestPort, highestPort, Host)
}

// Free returns a port of loopback that is free and that the system does not
// give to outgoing connections, so that it is likely still free after a
// restart.
func Free() (int, error) {
	ports, release, err := Take(1, 0)
	if err != nil {
		return 0, err
	}
	release()
	return ports[0], nil
}

// Address is a port of [Host] as one listens on it.
func Address(port int) string { return net.JoinHostPort(Host, strconv.Itoa(port)) }
