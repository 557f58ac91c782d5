package sandbox_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// An image of the workspace is kept for the model by reference: what comes back,
// and so history, is short whatever its size. What is no image is said to be none.
func TestViewImage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	noise := image.NewNRGBA(image.Rect(0, 0, 900, 700))
	for i := range noise.Pix {
		noise.Pix[i] = byte(i * i * 2654435761 >> 11)
	}
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, noise))
	require.Greater(t, data.Len(), 1<<20)
	animated := gif.GIF{Delay: []int{1, 1}}
	for range 2 {
		animated.Image = append(animated.Image, image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black}))
	}
	var moving bytes.Buffer
	require.NoError(t, gif.EncodeAll(&moving, &animated))
	for name, content := range map[string][]byte{
		"shot.txt": data.Bytes(), "cut.png": data.Bytes()[:1<<19], "moving.gif": moving.Bytes(), "text.png": []byte("hello"), "empty.png": nil,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(r.ref.WorkspacePath, name), content, 0o644))
	}
	view := func(path string) workflows.ToolResult {
		t.Helper()
		c := toolCall(t, workflows.ToolViewImage, workflows.ReadFileArgs{Path: path})
		j := r.judge(c)
		require.Equal(t, "safe", j.Tier)
		require.Equal(t, "view_image "+r.ref.Root+"/"+path, j.Command.Text)
		return r.run(r.runInput(c, j))
	}
	res := view("shot.txt")
	require.Equal(t, workflows.CallCompleted, res.State)
	require.Equal(t, "image/png", res.Image.Type)
	require.Equal(t, []int{900, 700, data.Len()}, []int{res.Image.Width, res.Image.Height, int(res.Image.Bytes)})
	require.Contains(t, res.Output.Text, "shot.txt: PNG image, 900 × 700 pixels, ")
	kept, err := r.blobs.Get(t.Context(), res.Image.Ref)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data.Bytes(), kept))
	inHistory, err := json.Marshal(res)
	require.NoError(t, err)
	require.Less(t, len(inHistory), 1000)

	r.shell("mkdir d; truncate -s 1T huge.png; mkfifo pipe")
	for path, want := range map[string]string{
		"cut.png": "ends too early", "moving.gif": "animated GIF", "text.png": "is no PNG, JPEG, GIF or WebP image.", "empty.png": "is no PNG",
		"none.png": "does not exist", "d": "is no regular file", "pipe": "is no regular file",
		"huge.png": "images of at most 20.0 MB can be viewed",
	} {
		res := view(path)
		require.Equal(t, workflows.CallFailed, res.State, path)
		require.Contains(t, res.Error, want, path)
		require.Nil(t, res.Image, path)
	}
	r.shell("ln -s /etc/passwd out.png")
	for _, path := range []string{"/etc/passwd", "../x.png", "out.png"} {
		j := r.judge(toolCall(t, workflows.ToolViewImage, workflows.ReadFileArgs{Path: path}))
		require.Equal(t, "forbidden", j.Tier, path)
		require.Contains(t, j.Bad, "outside the workspace", path)
	}
}
