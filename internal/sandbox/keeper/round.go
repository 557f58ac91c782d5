package keeper

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// round is the work for one order. All that it begins has come to its end with it, or
// to nothing: what is late must not meet the next one's record.
type round struct {
	Order
	k       *keep
	claimed chan struct{} // closed, by the reader of the orders, when the record has its name
	over    chan struct{} // closed when the namespace has ended

	mu       sync.Mutex
	timer    *time.Timer
	ended    bool // it is too late for the timer
	finished bool // this process has ended the command
	let      bool // the command was let begin, when so many processes were killed
	killed   string
	init     string // the identity of the namespace's init; empty until it is known
	code     int    // as bubblewrap reports it; -1 until it does
}

func newRound(k *keep, o Order) *round {
	return &round{Order: o, k: k, claimed: make(chan struct{}), over: make(chan struct{}), code: -1}
}

// claim may be called again, not by two at once.
func (r *round) claim() {
	select {
	case <-r.claimed:
	default:
		close(r.claimed)
	}
}

// run serves the order. It is false where anything of it was not as it should be, and
// this process may not take another.
func (r *round) run() bool {
	if !r.take() {
		return false
	}
	o := r.enclose()
	if !named() {
		return false
	}
	return record(o) && o.whole && o.begun && !r.finished
}

// outcome is how the namespace's program ended.
type outcome struct {
	code  int
	begun bool
	whole bool // all about it was written down
}

// enclose runs the program between its pipes, and its namespace ends with it.
func (r *round) enclose() outcome {
	p, err := open()
	if err != nil {
		return outcome{code: 126}
	}
	bwrap, err := r.begin(p.given)
	shut(p.given)
	if err != nil {
		return outcome{code: 126}
	}
	defer shut(p.own())
	var others sync.WaitGroup // none outlives the namespace's processes, which have the other ends
	others.Go(func() { r.copy(p.out, "stdout", r.k.buffers[0]) })
	others.Go(func() { r.copy(p.err, "stderr", r.k.buffers[1]) })
	others.Go(func() { r.letBegin(p.letGo) })
	others.Go(func() { r.tellBegun(p.begins) })
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		r.status(p.status)
	}()
	state, err := bwrap.Wait()
	<-reported // what bubblewrap's namespace runs has no hold of it
	done := r.end()
	others.Wait()
	if r.let {
		r.sayShort(r.killed)
	}
	o := r.outcome(state, err)
	o.whole = done == nil && err == nil
	return o
}

// outcome is how the program ended, by what it has reported or else by its own state.
func (r *round) outcome(state *os.ProcessState, err error) outcome {
	o := outcome{code: 126, begun: size("run/begun") > 0}
	if r.code >= 0 {
		o.code = r.code
	}
	if err != nil {
		return o
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		o.code = 128 + int(ws.Signal())
	} else if ok && ws.ExitStatus() >= 128 {
		o.code = ws.ExitStatus()
	}
	return o
}

// end ends what is left in the namespace, and what waits for it, and writes down that
// the command has ended.
func (r *round) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endInit()
	err := put("run/done", "")
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
	close(r.over)
	return err
}

// letBegin lets the command begin once there is one, and ends it when its time is
// over.
func (r *round) letBegin(letGo *os.File) {
	defer letGo.Close()
	select {
	case <-r.claimed:
	case <-r.over:
		return
	}
	if _, ok := where(); !ok {
		return
	}
	data, err := os.ReadFile("run/timeout")
	seconds, perr := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	if err != nil || perr != nil {
		return // the shell in the namespace ends
	}
	r.mu.Lock()
	r.let, r.killed = true, r.Order.killed()
	if !r.ended {
		r.timer = time.AfterFunc(time.Duration(seconds*float64(time.Second)), r.timeOut)
	}
	r.mu.Unlock()
	_, _ = letGo.Write([]byte("\n"))
}

// tellBegun tells that the command begins, when the shell in the namespace says so. It
// has a pipe of its own for that, as whoever gets hold of it could say more.
func (r *round) tellBegun(begins *os.File) {
	if n, _ := begins.Read(make([]byte, 1)); n > 0 {
		r.k.tell(Begun)
	}
}

// copy copies a stream to its file, up to the limit. The command never holds the
// file itself: it could truncate it. The rest is read, too: without a reader the
// command would end by itself, before it is known why.
func (r *round) copy(from *os.File, to string, buf []byte) {
	lost := ""
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		lost = "output_lost"
		r.finish(lost, "KILL")
	}
	defer f.Close()
	for left := r.Limit; ; {
		n, err := from.Read(buf)
		if n > 0 && lost == "" {
			take := min(int64(n), left)
			left -= take
			if _, werr := f.Write(buf[:take]); werr != nil {
				lost = "output_lost"
			} else if take < int64(n) {
				lost = "output_limit"
			}
			if lost != "" {
				r.finish(lost, "KILL")
			}
		}
		if err != nil {
			return
		}
	}
}

// status reads what bubblewrap reports: the init of its namespace, then the
// command's exit code.
func (r *round) status(from *os.File) {
	var text string
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		text += string(buf[:n])
		if pid, ok := number(text, `"child-pid": `); ok && r.init == "" {
			init := identity(strconv.Itoa(pid))
			r.mu.Lock()
			r.init = init
			r.mu.Unlock()
			_ = put("run/init", init)
		}
		if err != nil {
			break
		}
	}
	if code, ok := number(text, `"exit-code": `); ok {
		r.code = code
	}
}

// number finds the number behind a key, when all of it is there.
func number(text, key string) (int, bool) {
	_, rest, ok := strings.Cut(text, key)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || end <= 0 {
		return 0, false
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}

// timeOut ends the command because its time is over, unless it has just ended.
func (r *round) timeOut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.finishLocked("timed_out", "stop")
	}
}

// finish ends the command for a reason, of which the first one stays.
func (r *round) finish(reason, sig string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finishLocked(reason, sig)
}

func (r *round) finishLocked(reason, sig string) {
	r.finished = true
	if at, _ := where(); at == "" {
		r.endInit() // the script finds nothing where the record is gone
		return
	}
	f, err := os.OpenFile("run/reason", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, _ = f.WriteString(reason + "\n")
		_ = f.Close()
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", r.Script, "signal", ".", sig}, &os.ProcAttr{Env: os.Environ()})
	if err == nil {
		go func() { _, _ = p.Wait() }()
	}
}

// endInit ends the namespace: its init stays for what the command left in the
// background, or where the program was killed that watches it. Whoever calls it holds
// mu.
func (r *round) endInit() {
	pid, _, _ := strings.Cut(r.init, " ")
	n, err := strconv.Atoi(pid)
	if err == nil && n > 1 && started(r.init) == started(identity(pid)) {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}
