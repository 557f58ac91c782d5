package snapshot_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// unpackAny makes files and directories of a tar in any order.
func unpackAny(r io.Reader, dir string) error {
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(p, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(p), 0o755); err == nil {
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(p, data, 0o644)
			}
		}
		if err != nil {
			return err
		}
	}
}
