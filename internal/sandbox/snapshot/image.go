package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	digest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/countersign/countersign/internal/blob"
)

// Prefix is where everything lies in the blob store: an OCI image layout without
// the parts that name images, which [Store.Export] adds.
const Prefix = "snapshots/"

const blobPrefix = Prefix + ocispec.ImageBlobsDir + "/sha256/"

// maxDocument bounds a manifest and a config, in bytes; those of the longest
// chain are below 16 KiB.
const maxDocument = 1 << 20 // 1 MiB

// Annotations of a manifest.
const (
	annotationFiles = "countersign.files"
	annotationBytes = "countersign.bytes"
)

var (
	// ErrDamaged says that what is stored is not what was.
	ErrDamaged = errors.New("the snapshot is damaged")
	// ErrNotKept says that a snapshot, or a part of it, is not in the store.
	ErrNotKept = errors.New("the snapshot is not kept any more")
	// ErrBadReference says that a text names no snapshot.
	ErrBadReference = errors.New("no snapshot's reference")
)

// Content counts what a snapshot holds.
type Content struct {
	Files int   // and links, symbolic ones too
	Bytes int64 // of regular files, not compressed
}

func contentOf(entries []Entry) (c Content) {
	for i := range entries {
		if entries[i].Kind != Dir {
			c.Files++
			c.Bytes += entries[i].Size
		}
	}
	return c
}

func key(d digest.Digest) string { return blobPrefix + d.Encoded() }

// putImage stores config and manifest of layers that are stored, the manifest
// last, and returns its digest: the snapshot's reference.
func (s *Store) putImage(ctx context.Context, layers []layer, c Content) (string, error) {
	config := ocispec.Image{
		Platform: ocispec.Platform{Architecture: "unknown", OS: "linux"},
		RootFS:   ocispec.RootFS{Type: "layers"},
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Annotations: map[string]string{annotationFiles: strconv.Itoa(c.Files), annotationBytes: strconv.FormatInt(c.Bytes, 10)},
	}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.diff)
		manifest.Layers = append(manifest.Layers, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerZstd, Digest: l.digest, Size: l.size,
		})
	}
	var err error
	if manifest.Config, err = s.putJSON(ctx, ocispec.MediaTypeImageConfig, config); err != nil {
		return "", err
	}
	d, err := s.putJSON(ctx, ocispec.MediaTypeImageManifest, manifest)
	return string(d.Digest), err
}

func (s *Store) putJSON(ctx context.Context, mediaType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("writing a snapshot: %w", err)
	}
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Blobs.Write(ctx, key(d.Digest), data); err != nil {
		return d, fmt.Errorf("writing a snapshot: %w", err)
	}
	return d, nil
}

// getJSON reads and verifies a document.
func (s *Store) getJSON(ctx context.Context, d digest.Digest, v any) ([]byte, error) {
	data, err := s.Blobs.GetMax(ctx, key(d), maxDocument)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, fmt.Errorf("%w: %s", ErrNotKept, d)
	case errors.Is(err, blob.ErrTooLarge):
		return nil, fmt.Errorf("%w: %s is too long", ErrDamaged, d)
	case err != nil:
		return nil, fmt.Errorf("reading a snapshot: %w", err)
	case digest.FromBytes(data) != d:
		return nil, fmt.Errorf("%w: %s", ErrDamaged, d)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, d, err)
	}
	return data, nil
}

// manifest reads a snapshot's manifest.
func (s *Store) manifest(ctx context.Context, ref string) (ocispec.Manifest, []byte, error) {
	var m ocispec.Manifest
	d, err := parseRef(ref)
	if err != nil {
		return m, nil, err
	}
	data, err := s.getJSON(ctx, d, &m)
	if err != nil {
		return m, nil, err
	}
	for _, l := range m.Layers {
		if _, err := parseRef(string(l.Digest)); err != nil || l.MediaType != ocispec.MediaTypeImageLayerZstd {
			return m, nil, fmt.Errorf("%w: it has a layer of type %q", ErrDamaged, l.MediaType)
		}
	}
	if _, err := parseRef(string(m.Config.Digest)); err != nil {
		return m, nil, fmt.Errorf("%w: it has no config", ErrDamaged)
	}
	return m, data, nil
}

// parseRef accepts a SHA-256 digest as OCI writes it.
func parseRef(ref string) (digest.Digest, error) {
	d := digest.Digest(ref)
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return "", fmt.Errorf("%w: %q", ErrBadReference, ref)
	}
	return d, nil
}
