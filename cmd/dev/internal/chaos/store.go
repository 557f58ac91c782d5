package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// awaySuffix is what the blob store's directories are called meanwhile.
const awaySuffix = ".away"

// storeAway lets the blob store take nothing and give nothing for d, or until ctx
// ends: a file stands where each of its directories was.
func (s *site) storeAway(ctx context.Context, d time.Duration) error {
	u, err := url.Parse(s.blobs)
	if err != nil {
		return fmt.Errorf("finding the blob store: %w", err)
	}
	dirs, err := os.ReadDir(u.Path)
	if err != nil {
		return fmt.Errorf("looking at the blob store: %w", err)
	}
	var away []string
	for _, dir := range dirs {
		if at := filepath.Join(u.Path, dir.Name()); dir.IsDir() && err == nil {
			if err = hide(at); err == nil {
				away = append(away, at)
			}
		}
	}
	if err == nil {
		_ = pause(ctx, d) // what is away comes back, whatever else ends
	}
	for _, at := range away {
		err = errors.Join(err, os.Remove(at), os.Rename(at+awaySuffix, at))
	}
	return err
}

// hide puts a file in a directory's place. Somebody may make the directory anew
// between the two.
func hide(at string) error {
	if err := os.Rename(at, at+awaySuffix); err != nil {
		return fmt.Errorf("taking a directory away: %w", err)
	}
	for {
		f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, os.ErrExist) {
			return errors.Join(fmt.Errorf("putting a file in a directory's place: %w", err), os.Rename(at+awaySuffix, at))
		}
		// What was written in between is lost to nobody: it goes where it belongs.
		if err := merge(at, at+awaySuffix); err != nil {
			return err
		}
	}
}

// merge moves what a directory holds into another, and removes it.
func merge(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("moving what was written meanwhile: %w", err)
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		err := os.Rename(source, target)
		if err != nil && e.IsDir() {
			err = merge(source, target)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("moving what was written meanwhile: %w", err)
		}
	}
	if err := os.Remove(from); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("moving what was written meanwhile: %w", err)
	}
	return nil
}
