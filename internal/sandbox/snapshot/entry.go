// Package snapshot keeps what a workspace held at one moment: a chain of
// zstd-compressed tar layers with deletions recorded, laid out as an OCI image,
// each blob under its SHA-256.
//
// Taking one costs what changed since the last: an index remembers the size,
// inode and times of what that held. Layers are stored first, the manifest last,
// and the index after it, so that a crash leaves the snapshot before. Reading one
// gives a plain tar of everything, newest layers first, verified on the way.
//
// Kept are regular files, directories (empty ones too), symbolic and hard links,
// with permission bits, modification times to the nanosecond and names of any
// bytes. Sockets, pipes, devices and set-uid bits are left out.
package snapshot

import (
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"
)

// Kind is what an entry is.
type Kind byte

// The kinds of entries that are kept.
const (
	File Kind = 'f'
	Dir  Kind = 'd'
	Link Kind = 'l' // symbolic
)

// Entry is one thing below a workspace's root.
type Entry struct {
	// Name is its path below the root, slash-separated and clean; any bytes.
	Name string
	Kind Kind
	// Mode has the permission bits.
	Mode uint32
	// Size is a regular file's, in bytes.
	Size int64
	// ModTime and ChangeTime are in nanoseconds since 1970.
	ModTime, ChangeTime int64
	Inode               uint64
	// Links counts the names of a regular file.
	Links uint32
	// Target is where a symbolic link leads.
	Target string
}

// Tree is a workspace, as its backend shows it. Nothing changes it meanwhile but
// what the backend cannot stop.
type Tree interface {
	// List calls each for every file, directory and symbolic link below the root,
	// in any order.
	List(ctx context.Context, each func(Entry) error) error
	// Read calls each with the content of regular files, in any order. What is
	// not there any more or is no regular file is left out. r holds size bytes and
	// is read to its end or not at all.
	Read(ctx context.Context, names []string, each func(name string, size int64, r io.Reader) error) error
}

// same tells whether an entry is as it was. What a directory holds is compared
// entry by entry. The change time of a file that its owner cannot read is not
// looked at: reading it takes a change of its mode, which shows there.
func (e *Entry) same(was *Entry) bool {
	if e.Kind != was.Kind || e.Mode != was.Mode || e.ModTime != was.ModTime {
		return false
	}
	switch e.Kind {
	case Link:
		return e.Target == was.Target
	case File:
		return e.Size == was.Size && e.Inode == was.Inode && (e.ChangeTime == was.ChangeTime || e.Mode&0o400 == 0)
	}
	return true
}

func sortEntries(list []Entry) {
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}

// clean tells whether a name stays below the root, written in one way only.
func clean(name string) bool {
	return name != "." && name != "" && name == path.Clean(name) && !path.IsAbs(name) &&
		name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsRune(name, 0)
}
