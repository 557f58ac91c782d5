package keeper

import "os"

// pipes are the keeper's ends, and what bubblewrap gets from 0 on.
type pipes struct {
	out, err, status, begins, letGo *os.File
	given                           []*os.File
}

func open() (p pipes, err error) {
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	file := func(path string, flag int) (f *os.File) {
		if err == nil {
			f, err = os.OpenFile(path, flag, 0o600)
		}
		return f
	}
	var out, problem, status, begins, wait *os.File
	p.out, out = pipe()
	p.err, problem = pipe()
	p.status, status = pipe()
	p.begins, begins = pipe()
	wait, p.letGo = pipe()
	null := file(os.DevNull, os.O_RDONLY)
	script := file("run/script", os.O_RDONLY)
	begun := file("run/begun", os.O_WRONLY|os.O_CREATE)
	// As the order that the shell in the namespace reads has them.
	p.given = []*os.File{null, out, problem, wait, begins, nil, script, nil, begun, status}
	return p, err
}

// own are the keeper's ends.
func (p pipes) own() []*os.File { return []*os.File{p.out, p.err, p.status, p.begins, p.letGo} }

// shut closes files, of which some may be none, and some closed.
func shut(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
