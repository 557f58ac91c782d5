package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// bundledProgram is the program's name in the directory of a bundle.
const bundledProgram = "program"

// bundle is this worker's program with all that it needs to run in a container,
// whatever the image has: where it is not linked statically, its own machine's loader
// and libraries.
type bundle struct {
	program string
	// loader and libraries are files of this machine; none where it needs none.
	loader    string
	libraries []string
	digest    string // names all of it
}

// command is how it is run from a directory.
func (b *bundle) command(dir string) []string {
	at := path.Join(dir, bundledProgram)
	if b.loader == "" {
		return []string{at}
	}
	return []string{path.Join(dir, filepath.Base(b.loader)), "--library-path", dir, at}
}

// files are all of it, by their names in the directory.
func (b *bundle) files() map[string]string {
	all := map[string]string{bundledProgram: b.program}
	for _, f := range b.libraries {
		all[filepath.Base(f)] = f
	}
	if b.loader != "" {
		all[filepath.Base(b.loader)] = b.loader
	}
	return all
}

// libraryDirs is where libraries lie on common systems, beside the loader.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib"}

// newBundle finds what a program needs. The error ends a sentence.
func newBundle(program string) (*bundle, error) {
	b := &bundle{program: program}
	var err error
	if b.loader, err = loaderOf(program); err != nil {
		return nil, errors.New("this worker's program cannot run in a container")
	}
	if b.loader != "" {
		if b.libraries, err = librariesOf(program, b.loader); err != nil {
			return nil, fmt.Errorf("this worker's program is linked against its machine's libraries, and %w; build it with CGO_ENABLED=0", err)
		}
	}
	h := sha256.New()
	all := b.files()
	for _, name := range sortedNames(all) {
		fmt.Fprintf(h, "%q\n", name)
		if err := readInto(h, all[name]); err != nil {
			return nil, fmt.Errorf("it cannot be read: %w", err)
		}
	}
	b.digest = hex.EncodeToString(h.Sum(nil))
	return b, nil
}

func sortedNames(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func readInto(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// loaderOf is the program that the kernel runs to load another; empty for one that is
// linked statically.
func loaderOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(name), "\x00"), err
		}
	}
	return "", nil
}

// librariesOf finds the libraries that a program needs, and those that these need.
func librariesOf(program, loader string) ([]string, error) {
	dirs := libraryDirs
	if real, err := filepath.EvalSymlinks(loader); err == nil {
		dirs = append([]string{filepath.Dir(real)}, dirs...)
	}
	known := map[string]bool{filepath.Base(loader): true}
	var found []string
	for todo := []string{program}; len(todo) > 0; todo = todo[1:] {
		f, err := elf.Open(todo[0])
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read", todo[0])
		}
		names, err := f.ImportedLibraries()
		class := f.Machine
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read", todo[0])
		}
		for _, name := range names {
			if known[name] {
				continue
			}
			known[name] = true
			i := slices.IndexFunc(dirs, func(dir string) bool { return isLibrary(filepath.Join(dir, name), class) })
			if i < 0 {
				return nil, fmt.Errorf("%s is not where libraries are", name)
			}
			found = append(found, filepath.Join(dirs[i], name))
			todo = append(todo, found[len(found)-1])
		}
	}
	return found, nil
}

func isLibrary(file string, machine elf.Machine) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Machine == machine
}

// bundled is the bundle of a file, which may have been replaced since.
type bundled struct {
	mu   sync.Mutex
	info os.FileInfo
	have *bundle
}

// is tells whether what is known is of this file.
func (b *bundled) is(info os.FileInfo) bool {
	return b.info != nil && os.SameFile(b.info, info) && b.info.Size() == info.Size() && b.info.ModTime().Equal(info.ModTime())
}

// helper is this worker's program as it goes into containers. It is read once: it is
// all of it. The error ends a sentence.
func (b *Backend) helper() (*bundle, error) {
	if b.cfg.Forwarder == "" {
		return nil, errors.New("this worker has no program for it")
	}
	info, err := os.Stat(b.cfg.Forwarder)
	if err != nil {
		return nil, errors.New("this worker's program is not there any more")
	}
	b.forwarder.mu.Lock()
	defer b.forwarder.mu.Unlock()
	if b.forwarder.is(info) {
		return b.forwarder.have, nil
	}
	have, err := newBundle(b.cfg.Forwarder)
	if err != nil {
		return nil, err
	}
	b.forwarder.info, b.forwarder.have = info, have
	return have, nil
}

// copyBundle makes a directory of a container with the bundle in it.
func (b *Backend) copyBundle(ctx context.Context, have *bundle, id, dir, name, doing string) error {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		all := have.files()
		for _, file := range sortedNames(all) {
			if err == nil {
				err = packFile(t, name+"/"+file, all[file])
			}
		}
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	err := b.api.CopyToContainer(ctx, id, dir, r)
	r.CloseWithError(errEngineStopped)
	return b.fail(doing, err)
}

func packFile(t *tar.Writer, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("reading the worker's program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading the worker's program: %w", err)
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
