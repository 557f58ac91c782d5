package e2e_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The model is shown an image of the workspace: people see the call, nobody is
// asked, and the file is to be had by `files`.
func TestViewImage(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`true`")
	th := ada.sees(t, id, "the answer", answered(1))
	var shot bytes.Buffer
	require.NoError(t, png.Encode(&shot, image.NewGray(image.Rect(0, 0, 321, 123))))
	require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), "shot.png"), shot.Bytes(), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), "notes.png"), []byte("no image"), 0o644))

	ada.says(t, id, "`view_image shot.png` and `view_image notes.png` and `view_image /etc/hostname`")
	th = ada.sees(t, id, "the second answer", answered(2))
	calls := th.calls(2)
	require.Len(t, calls, 3)
	require.Equal(t, []string{"completed", "failed", "failed"}, []string{calls[0].State, calls[1].State, calls[2].State})
	require.Equal(t, "view_image", calls[0].Tool)
	require.True(t, strings.HasSuffix(calls[0].Command, "shot.png"), calls[0].Command)
	require.Empty(t, th.all("approval"))
	require.Contains(t, th.answer(2).Text, "The model was shown a PNG image of 321 × 123 pixels")
	require.Contains(t, th.answer(2).Text, "is no PNG, JPEG, GIF or WebP image")
	require.Contains(t, th.answer(2).Text, "outside the workspace")

	ada.says(t, id, "/agent files shot.png")
	var m message
	ada.sees(t, id, "the file", func(th thread) bool {
		for _, n := range th.all("notice") {
			if strings.HasPrefix(n.Key, "files-") {
				m = n
			}
		}
		return m.ID != ""
	})
	status, data, err := ada.request(http.MethodGet, "/messages/"+m.ID+"/file", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, shot.Bytes(), data)

	ada.says(t, id, "`echo on`")
	th = ada.sees(t, id, "the third answer", answered(3))
	require.Equal(t, "completed", th.calls(3)[0].State)
	once(t, th)
}
