package sandbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/workflows"
)

func TestSafeName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"report.pdf": "report.pdf", "../../etc/passwd": "passwd", `C:\a\b.txt`: "b.txt", "a\x00b\nc": "a_b_c", "": "file", "..": "file", ".env": "env",
		"-rf": "rf", "`id`": "_id_", "$(id)": "_(id)", "日本 語.txt": "日本 語.txt", "a\u202etxt.exe": "a_txt.exe", "\xff.txt": "_.txt", "///": "file",
		strings.Repeat("x", 300) + ".tar.gz": strings.Repeat("x", 117) + ".gz",
	} {
		require.Equal(t, want, sandbox.SafeName(name), "%q", name)
		require.Equal(t, want, sandbox.SafeName(want), "%q", want)
	}
	require.LessOrEqual(t, len(sandbox.SafeName(strings.Repeat("日", 300))), 120)
}

// Attached files get free names; doing it again, as after a crash, adds nothing.
func TestImportFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := func(name, content string) workflows.FileRef {
		key, err := r.blobs.Put(t.Context(), "attached", []byte(content))
		require.NoError(t, err)
		return workflows.FileRef{Name: name, Ref: key, Bytes: int64(len(content))}
	}
	r.shell("mkdir attachments; echo mine > attachments/a.txt")
	in := workflows.ImportFilesInput{Sandbox: r.ref, Message: "1", Files: []workflows.FileRef{
		put("a.txt", "one"), put("x/a.txt", "two"), put("b", "three"), {Name: "lost", Ref: "attached/" + strings.Repeat("0", 64)},
	}}
	for range 2 {
		res, err := call[workflows.ImportFilesResult](r, r.acts.ImportFiles, in)
		require.NoError(t, err)
		require.Equal(t, []workflows.PlacedFile{
			{Name: "a.txt", Path: "attachments/a-2.txt", Bytes: 3}, {Name: "x/a.txt", Path: "attachments/a-3.txt", Bytes: 3},
			{Name: "b", Path: "attachments/b", Bytes: 5}, {Name: "lost", Problem: "it is no longer kept"},
		}, res.Files)
		require.Contains(t, r.shell("cat attachments/*").Output.Text, "onetwomine\nthree")
	}
	r.shell("rm -r attachments; ln -s /tmp attachments")
	res, err := call[workflows.ImportFilesResult](r, r.acts.ImportFiles, in)
	require.NoError(t, err)
	require.Equal(t, "attachments leads out of the workspace", res.Files[0].Problem)
}
