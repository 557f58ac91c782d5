// Package blob keeps what is too long for history: transcripts, outputs of
// commands, snapshots, registries. It is a thin layer over gocloud.dev/blob that
// fixes what all users need alike: atomic writes, bounded reads, errors that can
// be told apart, and content-addressed keys.
//
// Keys are slash-separated UTF-8 paths without empty, "." or ".." parts and without
// control characters; they do not end in ".tmp" or ".attrs". A write
// is seen whole or not at all. Nothing is cached and nothing is locked: two
// writers of one key leave one of the two values.
//
// The schemes linked in are file: and mem:; a program that wants another store
// imports its gocloud.dev driver.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/memblob" // the mem: scheme, for tests
	"gocloud.dev/gcerrors"
)

// MaxGet is how much [Store.Get] reads at most, in bytes: what is longer is
// read as a stream or in ranges.
const MaxGet = 64 << 20 // 64 MiB

// tempSuffix ends the names of files that fileblob is still writing. A killed
// process leaves them behind; they are no blobs. attrsSuffix is fileblob's own.
const (
	tempSuffix  = ".tmp"
	attrsSuffix = ".attrs"
)

var (
	// ErrNotFound says that there is no blob under the key.
	ErrNotFound = errors.New("blob not found")
	// ErrExists says that the key is taken; see [Store.PutNew].
	ErrExists = errors.New("blob exists")
	// ErrTooLarge says that a blob is longer than the reader allowed.
	ErrTooLarge = errors.New("blob is too large")
	// ErrBadKey says that a key is not a clean relative path.
	ErrBadKey = errors.New("bad blob key")
)

// Store is an open blob store. It is safe for concurrent use.
type Store struct {
	bucket *gcblob.Bucket
	dir    string // of a file: store; empty for others
}

// Open opens the store at a gocloud.dev URL. A file: directory is made with
// mode 0700 if it is absent, and holds nothing but the blobs.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parsing the blob store's URL: %w", err)
	}
	s := &Store{}
	if u.Scheme == fileblob.Scheme {
		s.bucket, s.dir, err = openFile(u)
	} else {
		s.bucket, err = gcblob.OpenBucket(ctx, rawURL)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the blob store %s: %w", u.Redacted(), err)
	}
	return s, nil
}

func openFile(u *url.URL) (*gcblob.Bucket, string, error) {
	for name := range u.Query() {
		return nil, "", fmt.Errorf("query parameter %q: a file: URL takes none", name)
	}
	dir := u.Path
	if u.Host == "." {
		dir = strings.TrimPrefix(dir, "/")
	}
	if dir == "" {
		return nil, "", errors.New("the URL names no directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	// Temporary files stand beside the final ones: the system's temporary
	// directory may be another file system, where the closing rename fails.
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{
		DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
	return b, dir, err
}

// Close releases the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Put stores data under prefix + "/" + its SHA-256 in hex and returns that key.
// Equal content has one key, and storing it again makes it new, by the store's own
// clock: it is not removed as something old.
func (s *Store) Put(ctx context.Context, prefix string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	key := path.Join(prefix, hex.EncodeToString(sum[:]))
	return key, s.Write(ctx, key, data)
}

// Write stores data under key, in place of what is there.
func (s *Store) Write(ctx context.Context, key string, data []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return translate(key, s.bucket.WriteAll(ctx, key, data, plain()))
}

// PutNew stores data under key unless the key is taken: then it returns
// [ErrExists] and leaves what is there. Of several writers one succeeds.
func (s *Store) PutNew(ctx context.Context, key string, data []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if s.dir != "" {
		return s.putNewFile(key, data)
	}
	opts := plain()
	opts.IfNotExist = true
	return translate(key, s.bucket.WriteAll(ctx, key, data, opts))
}

// putNewFile does what fileblob does not: it looks and then renames, so that two
// writers may both succeed. A hard link is made by one only.
func (s *Store) putNewFile(key string, data []byte) error {
	final := filepath.Join(s.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return translate(key, err)
	}
	f, err := os.CreateTemp(filepath.Dir(final), filepath.Base(final)+".*"+tempSuffix)
	if err != nil {
		return translate(key, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Link(f.Name(), final)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %q", ErrExists, key)
	}
	return translate(key, err)
}

// PutStream stores all of r under key. Nothing is stored when r fails or ctx
// ends before its end.
func (s *Store) PutStream(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(ctx, key, plain())
	if err != nil {
		return 0, translate(key, err)
	}
	n, err := io.Copy(w, r)
	if err != nil {
		cancel() // a writer whose context has ended discards what it has
		_ = w.Close()
		return n, translate(key, err)
	}
	return n, translate(key, w.Close())
}

// PutFile stores the content of a file under key, in place of what is there. The
// file is the store's from then on: it may be moved into place.
func (s *Store) PutFile(ctx context.Context, key, file string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if s.dir != "" {
		if ok, err := s.move(key, file); ok || err != nil {
			return translate(key, err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return translate(key, err)
	}
	defer f.Close()
	_, err = s.PutStream(ctx, key, f)
	return err
}

// move renames a file to where the blob is kept. It tells whether it could: it
// cannot between file systems.
func (s *Store) move(key, file string) (bool, error) {
	final := filepath.Join(s.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return false, err
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return false, err
	}
	// Its age is counted from now on, not from when it was begun.
	now := time.Now()
	if err := os.Chtimes(file, now, now); err != nil {
		return false, err
	}
	err := os.Rename(file, final)
	if errors.Is(err, syscall.EXDEV) {
		return false, nil
	}
	return err == nil, err
}

// Get returns the whole blob; one over [MaxGet] is [ErrTooLarge].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.GetMax(ctx, key, MaxGet)
}

// GetMax returns the whole blob; one over limit bytes is [ErrTooLarge].
func (s *Store) GetMax(ctx context.Context, key string, limit int64) ([]byte, error) {
	r, err := s.NewReader(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, translate(key, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %q is over %d bytes", ErrTooLarge, key, limit)
	}
	return data, nil
}

// GetRange returns up to length bytes from offset on; fewer at the end, none
// behind it.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	size, err := s.Size(ctx, key)
	if err != nil {
		return nil, err
	}
	length = min(length, size-offset, MaxGet)
	if length <= 0 {
		return nil, nil
	}
	r, err := s.bucket.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		return nil, translate(key, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return data, translate(key, err)
}

// NewReader streams a blob of any length. The caller closes it.
func (s *Store) NewReader(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, translate(key, err)
	}
	return r, nil
}

// Object is one blob in a list.
type Object struct {
	Key  string
	Size int64 // bytes
	// ModTime is when it was written last.
	ModTime time.Time
}

// List yields the blobs whose key begins with prefix, in the order of keys. It
// ends after the first error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	if s.dir != "" {
		return s.listDir(ctx, prefix)
	}
	return func(yield func(Object, error) bool) {
		it := s.bucket.List(&gcblob.ListOptions{Prefix: prefix})
		for {
			o, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Object{}, fmt.Errorf("listing blobs under %q: %w", prefix, err))
				return
			}
			if !yield(Object{Key: o.Key, Size: o.Size, ModTime: o.ModTime}, nil) {
				return
			}
		}
	}
}

// listDir lists a directory. fileblob's own list fails when a file vanishes
// meanwhile, as a temporary one does at the end of every write.
func (s *Store) listDir(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		w := walk{ctx: ctx, dir: s.dir, prefix: prefix, yield: yield}
		if err := w.directory(path.Dir(prefix + "x")); err != nil && !errors.Is(err, errEnough) {
			yield(Object{}, fmt.Errorf("listing blobs under %q: %w", prefix, err))
		}
	}
}

// errEnough ends a list that nobody reads on.
var errEnough = errors.New("enough")

// walk is a list under way; what it holds in memory is one directory a level.
type walk struct {
	ctx         context.Context
	dir, prefix string
	yield       func(Object, error) bool
}

// directory lists what is below a key, in the order of keys.
func (w *walk) directory(key string) error {
	at := filepath.Join(w.dir, filepath.FromSlash(key))
	entries, err := os.ReadDir(at)
	if errors.Is(err, syscall.ENOTDIR) {
		// A blob stands there; where one above it does, it is no store that can be read.
		_, err = os.Lstat(at)
		if err == nil && key != "." {
			return nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(err, w.ctx.Err()); err != nil {
		return err
	}
	name := func(d fs.DirEntry) string {
		if d.IsDir() {
			return d.Name() + "/"
		}
		return d.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(name(a), name(b)) })
	for _, d := range entries {
		at := path.Join(key, d.Name())
		switch {
		case !d.IsDir():
			err = w.file(at, d)
		case strings.HasPrefix(at+"/", w.prefix), strings.HasPrefix(w.prefix, at+"/"):
			err = w.directory(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) file(key string, d fs.DirEntry) error {
	if checkKey(key) != nil || !strings.HasPrefix(key, w.prefix) {
		return nil
	}
	info, err := d.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !w.yield(Object{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil):
		return errEnough
	}
	return nil
}

// Prune removes the directories of a file: store that stand at or below a key and
// hold nothing. Nobody may be writing below it.
func (s *Store) Prune(key string) error {
	if s.dir == "" {
		return nil
	}
	if err := checkKey(key); err != nil {
		return err
	}
	var dirs []string
	err := filepath.WalkDir(filepath.Join(s.dir, filepath.FromSlash(key)), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, p := range slices.Backward(dirs) {
		if rerr := os.Remove(p); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) && !errors.Is(rerr, syscall.ENOTEMPTY) {
			err = errors.Join(err, rerr)
		}
	}
	return translate(key, err)
}

// Exists tells whether there is a blob under key.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	ok, err := s.bucket.Exists(ctx, key)
	return ok, translate(key, err)
}

// Size returns a blob's length in bytes.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	a, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return 0, translate(key, err)
	}
	return a.Size, nil
}

// ModTime returns when a blob was written last.
func (s *Store) ModTime(ctx context.Context, key string) (time.Time, error) {
	if err := checkKey(key); err != nil {
		return time.Time{}, err
	}
	a, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return time.Time{}, translate(key, err)
	}
	return a.ModTime, nil
}

// clockKey is a blob that is written for being told when.
const clockKey = "clock"

// Now is the time by the clock that blobs' ages are counted by, which is not this
// machine's where others keep the store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.Write(ctx, clockKey, nil); err != nil {
		return time.Time{}, fmt.Errorf("asking the blob store for its time: %w", err)
	}
	return s.ModTime(ctx, clockKey)
}

// Delete removes a blob; one that is absent is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := s.bucket.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return translate(key, err)
}

// plain keeps gocloud from sniffing a content type, which buffers the start, and
// keeps a file: store's files to their owner.
func plain() *gcblob.WriterOptions {
	return &gcblob.WriterOptions{
		ContentType:                 "application/octet-stream",
		DisableContentTypeDetection: true,
		BeforeWrite: func(as func(any) bool) error {
			var f *os.File
			if as(&f) {
				return f.Chmod(0o600)
			}
			return nil
		},
	}
}

func checkKey(key string) error {
	control := strings.IndexFunc(key, unicode.IsControl) >= 0 || strings.ContainsRune(key, '\\')
	if !filepath.IsLocal(key) || key != path.Clean(key) || key == "." || control || !utf8.ValidString(key) ||
		strings.HasSuffix(key, tempSuffix) || strings.HasSuffix(key, attrsSuffix) {
		return fmt.Errorf("%w: %q", ErrBadKey, key)
	}
	return nil
}

func translate(key string, err error) error {
	if err == nil {
		return nil
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %q", ErrNotFound, key)
	case gcerrors.FailedPrecondition:
		return fmt.Errorf("%w: %q", ErrExists, key)
	}
	return fmt.Errorf("blob %q: %w", key, err)
}
