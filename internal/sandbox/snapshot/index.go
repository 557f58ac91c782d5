package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	digest "github.com/opencontainers/go-digest"
)

// indexMagic begins an index file and changes with its format.
const indexMagic = "countersign-index-1\n"

var errBadIndex = errors.New("bad index")

// index is what a sandbox's tree was like when its newest snapshot was taken.
type index struct {
	// ref is that snapshot, layers what it consists of.
	ref    string
	layers []layer
	// rules are the workspace's own ignore rules.
	rules   string
	entries []Entry // by name
}

// layer is one stored layer.
type layer struct {
	digest digest.Digest // of the blob
	diff   digest.Digest // of the tar inside
	size   int64         // of the blob
	bytes  int64         // of the tar inside
}

// live is how many bytes the tree would take as tar, about.
func (x *index) live() (n int64) {
	for i := range x.entries {
		n += 2 << 10 // headers, and padding
		if x.entries[i].Kind == File {
			n += x.entries[i].Size
		}
	}
	return n
}

// encode writes the index and, last, its SHA-256.
func (x *index) encode() []byte {
	e := encoder{buf: make([]byte, 0, 64+len(x.entries)*48)}
	e.buf = append(e.buf, indexMagic...)
	e.text(x.ref)
	e.text(x.rules)
	e.number(uint64(len(x.layers)))
	for _, l := range x.layers {
		e.text(string(l.digest))
		e.text(string(l.diff))
		e.number(uint64(l.size))
		e.number(uint64(l.bytes))
	}
	e.number(uint64(len(x.entries)))
	last := ""
	for i := range x.entries {
		n := &x.entries[i]
		shared := common(last, n.Name)
		e.number(uint64(shared))
		e.text(n.Name[shared:])
		last = n.Name
		e.buf = append(e.buf, byte(n.Kind))
		for _, v := range []uint64{uint64(n.Mode), uint64(n.Size), uint64(n.ModTime), uint64(n.ChangeTime), n.Inode, uint64(n.Links)} {
			e.number(v)
		}
		e.text(n.Target)
	}
	sum := sha256.Sum256(e.buf)
	return append(e.buf, sum[:]...)
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

type encoder struct{ buf []byte }

func (e *encoder) number(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func decodeIndex(data []byte) (*index, error) {
	body, sum, ok := cutSum(data)
	if !ok || sha256.Sum256(body) != [sha256.Size]byte(sum) || !bytes.HasPrefix(body, []byte(indexMagic)) {
		return nil, errBadIndex
	}
	d := decoder{data: body[len(indexMagic):]}
	x := &index{ref: d.text(), rules: d.text()}
	for range d.count() {
		x.layers = append(x.layers, layer{
			digest: digest.Digest(d.text()), diff: digest.Digest(d.text()), size: int64(d.number()), bytes: int64(d.number()),
		})
	}
	n := d.count()
	x.entries = make([]Entry, 0, n)
	last := ""
	for range n {
		shared := d.number()
		if shared > uint64(len(last)) {
			return nil, errBadIndex
		}
		last = last[:shared] + d.text()
		x.entries = append(x.entries, Entry{
			Name: last, Kind: Kind(d.octet()), Mode: uint32(d.number()), Size: int64(d.number()), ModTime: int64(d.number()),
			ChangeTime: int64(d.number()), Inode: d.number(), Links: uint32(d.number()), Target: d.text(),
		})
	}
	if d.bad || len(d.data) > 0 {
		return nil, errBadIndex
	}
	return x, nil
}

func cutSum(data []byte) (body, sum []byte, ok bool) {
	n := len(data) - sha256.Size
	if n < 0 {
		return nil, nil, false
	}
	return data[:n], data[n:], true
}

type decoder struct {
	data []byte
	bad  bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.bad, d.data = true, nil
		return 0
	}
	d.data = d.data[n:]
	return v
}

// count is a number of things that still follow, each of at least one byte.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.data)) {
		d.bad, d.data = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) take(n int) []byte {
	if n > len(d.data) {
		d.bad, d.data = true, nil
		return nil
	}
	out := d.data[:n]
	d.data = d.data[n:]
	return out
}

func (d *decoder) text() string { return string(d.take(d.count())) }

func (d *decoder) octet() byte {
	if b := d.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// readIndex returns nil where there is no index that can be used.
func readIndex(file string) *index {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(bufio.NewReader(f))
	if err != nil {
		return nil
	}
	x, err := decodeIndex(data)
	if err != nil {
		return nil
	}
	return x
}

// writeIndex puts an index in place whole.
func writeIndex(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("keeping an index: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return fmt.Errorf("keeping an index: %w", err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keeping an index: %w", err)
	}
	return nil
}
