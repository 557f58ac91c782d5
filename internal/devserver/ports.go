package devserver

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

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

// freePorts returns n different ports, the first of which is first unless that
// is 0. The server takes numbers, not listeners, so another process can take
// one in between; all are held until the last is found, which makes it rare.
func freePorts(n, first int) ([]int, error) {
	var ports []int
	if first != 0 {
		ports = append(ports, first)
	}
	for len(ports) < n {
		l, err := net.Listen("tcp", address(0))
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
