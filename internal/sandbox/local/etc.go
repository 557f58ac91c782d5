package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// etcDir holds a sandbox's /etc: what programs need of the system's, without
// accounts and keys. Small files are copied, for each mount costs every command
// a fifth of a millisecond; directories are mounted on empty ones.
const etcDir = "etc"

// etcOwn are files that are the sandbox's own.
var etcOwn = [...]struct{ name, text string }{
	{"passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:" + insideHome + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
	{"hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
	{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
}

// etcCopied are files of the system, as they are when the sandbox is made.
var etcCopied = [...]string{
	"ld.so.cache", "ld.so.conf", "localtime", "mime.types", "protocols", "services", "ssl/openssl.cnf", "ssl/cert.pem", "magic",
}

// etcMounted are directories of the system. Debian keeps a JDK's configuration
// outside its own directory, which links to it.
var etcMounted = [...]string{
	"ld.so.conf.d", "alternatives", "ssl/certs", "ca-certificates", "pki/ca-trust", "pki/tls/certs", "fonts", "terminfo",
	"crypto-policies", "java-*-openjdk",
}

// writeEtc makes a sandbox's /etc from the system's.
func writeEtc(dir, system string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, f := range etcOwn {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	for _, name := range etcCopied {
		data, err := os.ReadFile(filepath.Join(system, name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err == nil {
			err = writeBelow(dir, name, data)
		}
		if err != nil {
			return err
		}
	}
	for _, pattern := range etcMounted {
		found, err := filepath.Glob(filepath.Join(system, pattern))
		if err != nil {
			return err
		}
		for _, d := range found {
			below, err := filepath.Rel(system, d)
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, below), 0o755)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func writeBelow(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// etcDirs returns the system's directories that are mounted into the /etc of the
// sandbox in dir: those for which it has a place.
func etcDirs(dir string) []string {
	var dirs []string
	for _, pattern := range etcMounted {
		found, _ := filepath.Glob(filepath.Join(dir, etcDir, pattern))
		for _, d := range found {
			if below, err := filepath.Rel(filepath.Join(dir, etcDir), d); err == nil {
				dirs = append(dirs, filepath.Join("/etc", below))
			}
		}
	}
	return dirs
}
