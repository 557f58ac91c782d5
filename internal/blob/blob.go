// Package blob keeps what is too long for history: transcripts, outputs of
// commands, snapshots, registries. It is a thin layer over gocloud.dev/blob that
// fixes what all users need alike: atomic writes, bounded reads, errors that can
// be told apart, and content-addressed keys.
//
// Keys are slash-separated UTF-8 paths without empty, "." or ".." parts. A write
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
	"iter"
	"net/url"
	"os"
	"path"
	"strings"

	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/memblob" // the mem: scheme, for tests
	"gocloud.dev/gcerrors"
)

// MaxGet is how much [Store.Get] reads at most, in bytes: what is longer is
// read as a stream or in ranges.
const MaxGet = 64 << 20 // 64 MiB

// tempPrefix begins the names of files that fileblob is still writing. A killed
// process leaves them behind; they are no blobs.
const tempPrefix = "fileblob"

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
}

// Open opens the store at a gocloud.dev URL. A file: directory is made with
// mode 0700 if it is absent, and holds nothing but the blobs.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parsing the blob store's URL: %w", err)
	}
	var b *gcblob.Bucket
	if u.Scheme == fileblob.Scheme {
		b, err = openFile(u)
	} else {
		b, err = gcblob.OpenBucket(ctx, rawURL)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the blob store %s: %w", u.Redacted(), err)
	}
	return &Store{bucket: b}, nil
}

func openFile(u *url.URL) (*gcblob.Bucket, error) {
	for name := range u.Query() {
		return nil, fmt.Errorf("query parameter %q: a file: URL takes none", name)
	}
	dir := u.Path
	if u.Host == "." {
		dir = strings.TrimPrefix(dir, "/")
	}
	if dir == "" {
		return nil, errors.New("the URL names no directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Temporary files stand beside the final ones: the system's temporary
	// directory may be another file system, where the closing rename fails.
	return fileblob.OpenBucket(dir, &fileblob.Options{
		DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
}

// Close releases the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Put stores data under prefix + "/" + its SHA-256 in hex and returns that key.
// Equal content has one key, and storing it again is a no-op.
func (s *Store) Put(ctx context.Context, prefix string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	key := path.Join(prefix, hex.EncodeToString(sum[:]))
	if ok, err := s.Exists(ctx, key); err != nil || ok {
		return key, err
	}
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
// [ErrExists] and leaves what is there. In a file: store two writers at the very
// same moment may both succeed; one of the values stays.
func (s *Store) PutNew(ctx context.Context, key string, data []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	opts := plain()
	opts.IfNotExist = true
	return translate(key, s.bucket.WriteAll(ctx, key, data, opts))
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
}

// List yields the blobs whose key begins with prefix, in the order of keys. It
// ends after the first error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
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
			if strings.HasPrefix(path.Base(o.Key), tempPrefix) {
				continue
			}
			if !yield(Object{Key: o.Key, Size: o.Size}, nil) {
				return
			}
		}
	}
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
	if key == "" || key != path.Clean(key) || strings.HasPrefix(key, "/") || key == ".." || key == "." ||
		strings.HasPrefix(key, "../") || strings.HasPrefix(path.Base(key), tempPrefix) {
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
