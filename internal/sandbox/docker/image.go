package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/countersign/countersign/internal/sandbox"
)

// imageVersion changes with what prepare adds to an image.
const imageVersion = "1"

// imageName is what a sandbox is made from.
func (b *Backend) imageName(spec sandbox.Spec) string {
	if spec.Image != "" {
		return spec.Image
	}
	return b.cfg.Image
}

// image returns the ID of the image that a sandbox is made from: the configured
// one with the command's user and the places of the volumes in it.
func (b *Backend) image(ctx context.Context, spec sandbox.Spec) (string, error) {
	name := b.imageName(spec)
	if name == "" {
		return "", sandbox.Refuse("No Docker image is configured for sandboxes.")
	}
	base, err := b.api.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		if err = b.pull(ctx, name, spec.Progress); err != nil {
			return "", err
		}
		base, err = b.api.ImageInspect(ctx, name)
	}
	switch {
	case errdefs.IsInvalidArgument(err):
		return "", sandbox.Refuse(fmt.Sprintf("%q is no name of a Docker image.", name))
	case err != nil:
		return "", b.fail("looking for the image "+name, err)
	case base.Os != "linux":
		return "", sandbox.Refuse(fmt.Sprintf("The image %s is for %s; sandboxes need Linux.", name, base.Os))
	}
	kind := imageVersion + " " + base.ID
	var helper *bundle
	if len(spec.Network) > 0 {
		if helper, err = b.helper(); err != nil {
			return "", sandbox.Refuse("The sandbox's network cannot be connected: " + err.Error() + ".")
		}
		kind += " " + helper.digest
	}
	sum := sha256.Sum256([]byte(kind))
	ref := "countersign-sandbox:" + hex.EncodeToString(sum[:8])
	have, err := b.api.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return have.ID, nil
	case !errdefs.IsNotFound(err):
		return "", b.fail("looking for the sandbox image", err)
	}
	return b.prepare(ctx, name, base.ID, ref, helper)
}

// prepare adds to an image what a sandbox needs, and returns the new image's ID.
func (b *Backend) prepare(ctx context.Context, name, base, ref string, helper *bundle) (string, error) {
	labels := map[string]string{labelOwner: b.cfg.Owner, labelImage: base}
	c, err := b.api.ContainerCreate(ctx, &container.Config{
		Image: base, Labels: labels, Entrypoint: []string{"sleep"}, Cmd: []string{"2147483647"},
	}, &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, "countersign-image-"+random())
	if err != nil {
		return "", b.fail("preparing the sandbox image", err)
	}
	defer func() {
		if err := b.removeContainer(context.WithoutCancel(ctx), c.ID); err != nil {
			b.cfg.Log.WarnContext(ctx, "A container stays in the Docker engine until orphans are reaped", "error", err)
		}
	}()
	added, err := b.additions(ctx, name, c.ID)
	if err != nil {
		return "", err
	}
	if err := b.api.CopyToContainer(ctx, c.ID, "/", added); err != nil {
		return "", b.fail("preparing the sandbox image", err)
	}
	if helper != nil {
		if err := b.copyBundle(ctx, helper, c.ID, "/", path.Base(insideForwarder), "preparing the sandbox image"); err != nil {
			return "", err
		}
	}
	made, err := b.api.ContainerCommit(ctx, c.ID, container.CommitOptions{Reference: ref})
	if err != nil {
		return "", b.fail("preparing the sandbox image", err)
	}
	return made.ID, nil
}

// additions is a tar of what prepare adds.
func (b *Backend) additions(ctx context.Context, name, id string) (io.Reader, error) {
	for _, at := range []string{insideWorkspace, insideRoot} {
		empty, err := b.emptyDir(ctx, id, at)
		if err != nil {
			return nil, err
		}
		if !empty {
			return nil, unusable(name, fmt.Sprintf("it has files in %s, where sandboxes keep theirs", at))
		}
	}
	passwd, err := b.readFile(ctx, id, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	if err != nil {
		return nil, err
	}
	group, err := b.readFile(ctx, id, "/etc/group", "root:x:0:\n")
	if err != nil {
		return nil, err
	}
	// First in the file: images that have a user of the same number name it later.
	passwd = fmt.Sprintf("agent:x:%d:%d:agent:%s:/bin/sh\n", insideUser, insideUser, insideHome) + passwd
	group = fmt.Sprintf("agent:x:%d:\n", insideUser) + group
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range []struct {
		name, text string
		mode       int64
		user       int
	}{
		{"etc/passwd", passwd, 0o644, 0}, {"etc/group", group, 0o644, 0},
		{"countersign/", "", 0o700, 0}, {"workspace/", "", 0o755, insideUser},
		{"home/", "", 0o755, 0}, {"home/agent/", "", 0o755, insideUser},
		{"tmp/", "", 0o1777, 0}, {"var/tmp/", "", 0o1777, 0}, // what is mounted there takes its mode from here
	} {
		h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: e.mode, Uid: e.user, Gid: e.user, Size: int64(len(e.text))}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}

// emptyDir tells whether a container has nothing below a directory.
func (b *Backend) emptyDir(ctx context.Context, id, at string) (bool, error) {
	empty := false
	err := b.api.CopyFromContainer(ctx, id, at, func(r io.Reader) error {
		t := tar.NewReader(r)
		if _, err := t.Next(); err != nil {
			return err
		}
		_, err := t.Next()
		empty = errors.Is(err, io.EOF)
		return nil
	})
	if errdefs.IsNotFound(err) {
		return true, nil
	}
	return empty, b.fail("looking into the image", err)
}

// maxEtcFile bounds what is read of an image's file, in bytes.
const maxEtcFile = 1 << 20 // 1 MiB

// readFile returns a file of a container, or otherwise where there is none.
func (b *Backend) readFile(ctx context.Context, id, at, otherwise string) (string, error) {
	regular := false
	var data []byte
	err := b.api.CopyFromContainer(ctx, id, at, func(r io.Reader) (err error) {
		t := tar.NewReader(r)
		h, err := t.Next()
		if regular = err == nil && h.Typeflag == tar.TypeReg; regular {
			data, err = io.ReadAll(io.LimitReader(t, maxEtcFile))
		}
		return err
	})
	switch {
	case errdefs.IsNotFound(err):
		return otherwise, nil
	case err != nil:
		return "", b.fail("looking into the image", err)
	case !regular:
		return otherwise, nil
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return string(data), nil
}

// pull fetches an image. Where the engine answers and its registry does not give
// the image, people must do something.
func (b *Backend) pull(ctx context.Context, name string, progress func(string)) error {
	doing := "pulling the image " + name
	begun := false
	err := b.api.ImagePull(ctx, name, func(r io.Reader) error {
		begun = true
		return followPull(name, r, progress)
	})
	var told errPull
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, client.IsErrConnectionFailed(err), errors.Is(err, errSilent),
		begun && !errors.As(err, &told): // the engine's own connection broke off
		return b.fail(doing, err)
	}
	return sandbox.Refuse(fmt.Sprintf(
		"The image %s is not in the Docker engine and cannot be pulled: %s. Load or build it there, or configure another one.", name, engineText(err)))
}

// pullLine is what the engine says while it pulls.
type pullLine struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error string `json:"error"`
}

// errPull is what the engine says of a pull that fails.
type errPull struct{ text string }

func (e errPull) Error() string { return e.text }

func followPull(name string, r io.Reader, progress func(string)) error {
	dec := json.NewDecoder(r)
	layers := map[string]pullLine{}
	for {
		var line pullLine
		if err := dec.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if line.Error != "" {
			return errPull{line.Error}
		}
		if noteLayer(layers, line) && progress != nil {
			progress(pullText(name, layers))
		}
	}
}

// noteLayer takes in a line about a layer and tells whether it was one.
func noteLayer(layers map[string]pullLine, line pullLine) bool {
	switch line.Status {
	case "Pulling fs layer", "Waiting", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
		// What it says of progress is not of the download.
		line.Progress = layers[line.ID].Progress
		if line.Status != "Pulling fs layer" && line.Status != "Waiting" {
			line.Progress.Current = line.Progress.Total
		}
	case "Downloading":
	default:
		return false
	}
	layers[line.ID] = line
	return true
}

// pullText says how a pull stands; sizes are of what the registry sends.
func pullText(name string, layers map[string]pullLine) string {
	done := 0
	var bytes, total int64
	for _, l := range layers {
		if l.Status == "Pull complete" || l.Status == "Already exists" {
			done++
		}
		bytes += l.Progress.Current
		total += l.Progress.Total
	}
	text := fmt.Sprintf("Pulling the image %s: %d of %d layers", name, done, len(layers))
	if total > 0 {
		text += fmt.Sprintf(", %.1f of %.1f MB", float64(bytes)/1e6, float64(total)/1e6)
	}
	return text
}
