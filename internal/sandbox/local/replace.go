package local

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A file is written beside its place and then renamed. Of one that is under way the
// sandbox's directory holds a note, which names the file beside and is locked by
// whoever writes: so that a worker which was killed leaves nothing in the workspace
// for ever.
const (
	notesDir   = "writing"
	besideMark = ".countersign-" // before a random word
)

// replace puts content in place of a file of the workspace, or nothing at all.
func (s *session) replace(rel string, data []byte, mode fs.FileMode) error {
	beside := path.Join(path.Dir(rel), besideMark+random())
	note, err := s.note(beside)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(os.Remove(note.Name()), note.Close()) }()
	err = s.root.WriteFile(beside, data, 0o600)
	if err == nil {
		err = s.root.Chmod(beside, mode)
	}
	if err == nil {
		err = s.root.Rename(beside, rel)
	}
	if err != nil {
		_ = s.root.Remove(beside)
	}
	return err
}

// note writes a note and locks it.
func (s *session) note(beside string) (*os.File, error) {
	dir := filepath.Join(s.dir, notesDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, s.storeError("writing a file", err)
	}
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return nil, s.storeError("writing a file", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		_, err = f.WriteString(beside)
	}
	if err != nil {
		return nil, errors.Join(s.storeError("writing a file", err), os.Remove(f.Name()), f.Close())
	}
	return f, nil
}

// sweepWrites removes what killed workers have left beside the files that they wrote.
func (s *session) sweepWrites() {
	dir := filepath.Join(s.dir, notesDir)
	entries, _ := os.ReadDir(dir) // mostly there is none
	for _, e := range entries {
		s.sweepWrite(filepath.Join(dir, e.Name()))
	}
}

func (s *session) sweepWrite(name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // somebody is writing
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return
	}
	beside := string(data)
	if strings.HasPrefix(path.Base(beside), besideMark) {
		if err := s.root.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	_ = os.Remove(name)
}
