package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
)

func TestImageRefused(t *testing.T) {
	t.Parallel()
	needImage(t, imageBash)
	// An image with files where a sandbox has its workspace, and one without a shell.
	api := newClient(t, engine.host)
	c, err := api.ContainerCreate(t.Context(), &container.Config{Image: imageBash}, nil, nil, nil, "")
	require.NoError(t, err)
	defer api.ContainerRemove(context.WithoutCancel(t.Context()), c.ID, container.RemoveOptions{})
	full := "countersign-test-full:" + newID()
	require.NoError(t, api.CopyToContainer(t.Context(), c.ID, "/", tarOf(t, "workspace/", "workspace/x"), container.CopyToContainerOptions{}))
	_, err = api.ContainerCommit(t.Context(), c.ID, container.CommitOptions{Reference: full})
	require.NoError(t, err)
	defer api.ImageRemove(context.WithoutCancel(t.Context()), full, image.RemoveOptions{})
	bare := "countersign-test-bare:" + newID()
	r, err := api.ImageImport(t.Context(), image.ImportSource{Source: tarOf(t, "x"), SourceName: "-"}, bare, image.ImportOptions{})
	require.NoError(t, err)
	r.Close()
	defer api.ImageRemove(context.WithoutCancel(t.Context()), bare, image.RemoveOptions{Force: true, PruneChildren: true})

	var looped bytes.Buffer
	w := tar.NewWriter(&looped)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/sleep", Typeflag: tar.TypeSymlink, Linkname: "sleep", Mode: 0o777}))
	require.NoError(t, w.Close())
	broken := "countersign-test-broken:" + newID()
	r, err = api.ImageImport(t.Context(), image.ImportSource{Source: &looped, SourceName: "-"}, broken, image.ImportOptions{})
	require.NoError(t, err)
	r.Close()
	defer api.ImageRemove(context.WithoutCancel(t.Context()), broken, image.RemoveOptions{Force: true, PruneChildren: true})

	mute := imageOf(t, "countersign-test-mute:"+newID(), "sleep")

	for ref, want := range map[string]string{
		mute:                           "it has no sh",
		"":                             "No Docker image is configured",
		"No Name":                      "is no name of a Docker image",
		"countersign-test-missing:1":   "is not in the Docker engine and cannot be pulled",
		"localhost:9/countersign/no:1": "Load or build it there, or configure another one.",
		full:                           "it has files in /workspace",
		bare:                           "it has no sleep",
		broken:                         "cannot be used: it", // it has no sh either, and who looks first finds that
	} {
		r := newRig(t, func(c *docker.Config) { c.Image = ref })
		_, err := r.Open(t.Context(), sandbox.Spec{ID: "x"})
		var refused *sandbox.RefusedError
		require.ErrorAs(t, err, &refused, ref)
		require.ErrorContains(t, err, want, ref)
		require.Empty(t, r.volumes(t), ref)
	}
	_, err = newRig(t, func(c *docker.Config) { c.Runtime = "nonesuch" }).Open(t.Context(), sandbox.Spec{ID: "x"})
	require.ErrorContains(t, err, `no container runtime called "nonesuch"`)
}

// imageOf makes an image of a few programs.
func imageOf(t *testing.T, ref string, programs ...string) string {
	t.Helper()
	var buf bytes.Buffer
	p := rootPacker{tar: tar.NewWriter(&buf), have: map[string]bool{}}
	for _, name := range programs {
		p.program(name)
	}
	require.NoError(t, p.err)
	require.NoError(t, p.tar.Close())
	api := newClient(t, engine.host)
	r, err := api.ImageImport(t.Context(), image.ImportSource{Source: &buf, SourceName: "-"}, ref, image.ImportOptions{})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	r.Close()
	t.Cleanup(func() {
		_, _ = api.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true, PruneChildren: true})
	})
	return ref
}

// pullLines is what an engine says while it pulls an image of two layers.
const pullLines = `{"status":"Pulling from library/image","id":"1"}
{"status":"Pulling fs layer","progressDetail":{},"id":"aaa"}
{"status":"Already exists","progressDetail":{},"id":"bbb"}
{"status":"Downloading","progressDetail":{"current":10000000,"total":100000000},"id":"aaa"}
{"status":"Downloading","progressDetail":{"current":60000000,"total":100000000},"id":"aaa"}
{"status":"Download complete","progressDetail":{},"id":"aaa"}
{"status":"Extracting","progressDetail":{"current":1,"total":7},"id":"aaa"}
{"status":"Pull complete","progressDetail":{},"id":"aaa"}
{"status":"Digest: sha256:00"}
`

// There is no registry to pull from: this engine only says that it pulls.
func TestPull(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			lines := pullLines
			if strings.HasSuffix(r.URL.Query().Get("fromImage"), "broken") {
				lines += `{"errorDetail":{"message":"no space"},"error":"write /x: no space left on device"}`
			}
			fmt.Fprint(w, lines)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/volumes"):
			fmt.Fprint(w, `{}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such thing"}`)
		}
	}))
	defer engine.Close()
	open := func(ref string, progress func(string)) error {
		b, err := docker.New(docker.Config{Host: "tcp://" + engine.Listener.Addr().String(), Image: ref})
		require.NoError(t, err)
		defer b.Close()
		_, err = b.Open(t.Context(), sandbox.Spec{ID: "session", Progress: progress})
		return err
	}
	var seen []string
	err := open("image:1", func(line string) { seen = append(seen, strings.TrimPrefix(line, "Pulling the image image:1: ")) })
	require.Error(t, err)
	require.Equal(t, []string{"0 of 1 layers", "1 of 2 layers", "1 of 2 layers, 10.0 of 100.0 MB", "1 of 2 layers, 60.0 of 100.0 MB",
		"1 of 2 layers, 100.0 of 100.0 MB", "1 of 2 layers, 100.0 of 100.0 MB", "2 of 2 layers, 100.0 of 100.0 MB"}, seen)
	var refused *sandbox.RefusedError
	err = open("broken:1", func(string) {})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "write /x: no space left on device")
}
