package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	digest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Export writes a snapshot as an OCI image layout into dir, which is made if it
// is absent: what tools for container images read and copy.
func (s *Store) Export(ctx context.Context, ref, dir string) error {
	m, data, err := s.manifest(ctx, ref)
	if err != nil {
		return err
	}
	blobs := filepath.Join(dir, ocispec.ImageBlobsDir, "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return fmt.Errorf("making the image's directory: %w", err)
	}
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if err := s.exportBlob(ctx, d, filepath.Join(blobs, d.Digest.Encoded())); err != nil {
			return err
		}
	}
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{MediaType: m.MediaType, Digest: digest.Digest(ref), Size: int64(len(data))}},
	}
	files := []struct {
		name string
		v    any
	}{
		{filepath.Join(ocispec.ImageBlobsDir, "sha256", digest.Digest(ref).Encoded()), json.RawMessage(data)},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
		{ocispec.ImageIndexFile, index},
	}
	for _, f := range files {
		text, ok := f.v.(json.RawMessage)
		if !ok {
			if text, err = json.Marshal(f.v); err != nil {
				return fmt.Errorf("writing the image: %w", err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), text, 0o644); err != nil {
			return fmt.Errorf("writing the image: %w", err)
		}
	}
	return nil
}

func (s *Store) exportBlob(ctx context.Context, d ocispec.Descriptor, file string) error {
	if err := s.verify(ctx, d); err != nil {
		return err
	}
	r, err := s.Blobs.NewReader(ctx, key(d.Digest))
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	defer r.Close()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}
