// Package keeper keeps the records of execs whose namespaces were made ahead: what
// package harness's script does with a dozen processes is one here. It is this
// program itself, started under another name; see [Command].
//
// A keeper serves one namespace at a time, made by an [Order]. When that one's exec has
// ended and its record is whole it takes the next order, for as long as it is wanted:
// beginning costs more processor time than a whole command does. After anything that
// was not as it should be it ends instead, and so it does with the pipe of its orders.
//
// It becomes a keeper while its packages are initialised, which is why this one
// imports next to nothing: such packages come first, and what the rest of the
// program needs to begin takes several times as long.
//
// The record is package harness's, and the script's verb "signal" reaches what a
// keeper has started. Where the script is as quick, which is at a time-out and at
// the limit of the output, it does the keeper's work, too.
package keeper

import (
	"os"
	"os/signal"
	"syscall"
)

// name is what a process is called that is a keeper.
const name = "countersign-keeper"

func init() {
	if len(os.Args) == 2 && os.Args[0] == name {
		code := make(chan int)
		// This goroutine has the main thread for itself, and each turn of it would cost
		// a change of threads.
		go func() { code <- serve() }()
		os.Exit(<-code)
	}
}

// The open files that a keeper is given.
const (
	// fdOrders ends with whoever gives the orders.
	fdOrders = 3
	// fdTold is where a keeper tells how far it has come.
	fdTold = 4
)

// What a keeper tells, a byte each. When it has ended nothing more comes of the order
// that it had.
const (
	// Begun: the command begins.
	Begun = 'b'
	// Done: the record is whole, and the keeper waits for an order.
	Done = 'd'
)

// Environ is what a keeper needs beside a path to programs. It mostly waits, and more
// threads would only wake each other.
func Environ() []string { return []string{"GOMAXPROCS=1"} }

// Command returns path and arguments of a keeper. It does nothing with the directory,
// which shows those who list processes what it works for.
//
// From 3 on, its open files are where it reads what it is to do, [Order.Encode] and
// [Claim], and where it tells how that goes.
func Command(dir string) (path string, args []string) {
	return "/proc/self/exe", []string{name, dir}
}

// keep is a keeper's work.
type keep struct {
	told   *os.File
	rounds chan *round
	// buffers are the two streams' of a command.
	buffers [2][]byte
}

func serve() int {
	k := &keep{told: os.NewFile(fdTold, "told"), rounds: make(chan *round, 1)}
	for i := range k.buffers {
		k.buffers[i] = make([]byte, 64<<10)
	}
	syscall.CloseOnExec(fdOrders)
	syscall.CloseOnExec(fdTold)
	if err := syscall.SetNonblock(fdOrders, true); err != nil {
		return 2
	}
	// A caught signal is reset in children, an ignored one would stay ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	syscall.Umask(0o022) // the commands'; every file here has its mode named
	go k.hear(os.NewFile(fdOrders, "orders"))
	for r := range k.rounds {
		if !r.run() {
			return 1
		}
		k.tell(Done)
		_ = os.Chdir("/") // of a record that is removed nothing is to stay
	}
	return 0
}

// tell tells whoever gives the orders, if anybody still listens.
func (k *keep) tell(what byte) { _, _ = k.told.Write([]byte{what}) }
