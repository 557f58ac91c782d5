package patch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/patch"
)

func parse(t *testing.T, text string) []patch.File {
	t.Helper()
	files, err := patch.Parse(text)
	require.NoError(t, err)
	return files
}

func update(body string) string {
	return "*** Begin Patch\n*** Update File: f\n" + body + "*** End Patch"
}

func TestParse(t *testing.T) {
	t.Parallel()
	files := parse(t, "\n*** Begin Patch\r\n*** Add File: a b/c\n+one\n+\n*** Delete File: gone\n*** Update File: x\n*** Move to: y\n*** Update File: z\n-a\n+b\n@@\n c\n+d\n*** End Patch\n")
	require.Len(t, files, 4)
	require.Equal(t, "a b/c", files[0].Path)
	require.Equal(t, "one\n\n", string(files[0].Content()))
	require.Equal(t, patch.Delete, files[1].Op)
	require.Equal(t, "y", files[2].MoveTo)
	now, diff, err := files[2].Apply([]byte("same"))
	require.NoError(t, err)
	require.Equal(t, "same", string(now))
	require.Empty(t, diff)
	now, _, err = files[3].Apply([]byte("a\nc\n"))
	require.NoError(t, err)
	require.Equal(t, "b\nc\nd\n", string(now))
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   `must begin with the line "*** Begin Patch"`,
		"*** Begin Patch":                    `must end with the line "*** End Patch"`,
		"*** Begin Patch\n*** End Patch":     "changes nothing",
		"*** Begin Patch\nhm\n*** End Patch": `Line 2 of the patch, "hm", begins no section`,
		"*** Begin Patch\n*** Add File: \n*** End Patch":             "names no file",
		"*** Begin Patch\n*** Add File: a\nhm\n*** End Patch":        `Line 3 of the patch, "hm", is no line of the new file a`,
		"*** Begin Patch\n*** Delete File: a\n-hm\n*** End Patch":    "begins no section",
		"*** Begin Patch\n*** Update File: a\n*** End Patch":         "it has no hunk",
		"*** Begin Patch\n*** Update File: a\n@@\n*** End Patch":     "changes nothing in a",
		"*** Begin Patch\n*** Update File: a\n@@\n x\n*** End Patch": "changes nothing in a",
		"*** Begin Patch\n*** Update File: a\n-x\nhm\n*** End Patch": `Line 4 of the patch, "hm", is no line of a hunk of a`,
	} {
		_, err := patch.Parse(text)
		var e *patch.Error
		require.ErrorAs(t, err, &e, text)
		require.Contains(t, e.Text, want, text)
	}
}

const source = "package x\n\nfunc a() {\n\tone()\n\ttwo()\n}\n\nfunc b() {\n\tone()\n\ttwo()\n}\n"

func TestApply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, body, want string }{
		"first of two places":   {source, "@@\n \tone()\n-\ttwo()\n+\tthree()\n", "package x\n\nfunc a() {\n\tone()\n\tthree()\n}\n\nfunc b() {\n\tone()\n\ttwo()\n}\n"},
		"by header":             {source, "@@ func b() {\n \tone()\n-\ttwo()\n", "package x\n\nfunc a() {\n\tone()\n\ttwo()\n}\n\nfunc b() {\n\tone()\n}\n"},
		"headers of headers":    {"A\n f\n x\nB\n f\n x\n", "@@ B\n@@  f\n- x\n+ y\n", "A\n f\n x\nB\n f\n y\n"},
		"two hunks":             {source, "@@\n-package x\n+package y\n@@ func b() {\n+\tzero()\n \tone()\n", "package y\n\nfunc a() {\n\tone()\n\ttwo()\n}\n\nfunc b() {\n\tzero()\n\tone()\n\ttwo()\n}\n"},
		"header passed already": {source, "@@\n func b() {\n-\tone()\n@@ func b() {\n-\ttwo()\n+\t2\n", "package x\n\nfunc a() {\n\tone()\n\ttwo()\n}\n\nfunc b() {\n\t2\n}\n"},
		"numbers in the header": {source, "@@ -1,2 +1,2 @@\n-package x\n+package y\n", "package y" + source[len("package x"):]},
		"lost blanks":           {"a  \n\tb\nc\n", "@@\n a\n-b\n+B\n", "a  \nB\nc\n"},
		"lost empty context":    {"a\n\nb\n", "@@\n a\n\n-b\n+c\n", "a\n\nc\n"},
		"windows line ends":     {"a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"},
		"no end of line":        {"a\nb", "@@\n a\n-b\n+c\n", "a\nc"},
		"at the end":            {"a\nb\na\nb\n", "@@\n a\n-b\n+c\n*** End of File\n", "a\nb\na\nc\n"},
		"added at the end":      {"a\n", "@@\n+b\n*** End of File\n", "a\nb\n"},
		"added after a header":  {"a\nb\n", "@@ a\n+x\n", "a\nx\nb\n"},
		"into an empty file":    {"", "@@\n+a\n", "a\n"},
		"all of it":             {"a\n", "@@\n-a\n", ""},
		"several in one hunk":   {"a\nb\nc\nd\n", "@@\n-a\n+A\n b\n+B\n c\n-d\n", "A\nb\nB\nc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, _, err := parse(t, update(c.body))[0].Apply([]byte(c.old))
			require.NoError(t, err)
			require.Equal(t, c.want, string(now))
		})
	}
}

// What does not fit is said so that a model can mend it: file, hunk, line,
// expected, found.
func TestMisfits(t *testing.T) {
	t.Parallel()
	for want, body := range map[string]string{
		`f, hunk 1 of 1 (line 3 of the patch): it does not fit: at line 5 of the file it expects "\tthree()", but found "\ttwo()"`:                          "@@\n func a() {\n \tone()\n-\tthree()\n",
		`f, hunk 1 of 1 (line 3 of the patch): it does not fit: none of the file's lines from line 1 on (it has 11) is its first line, "nowhere"`:           "@@\n-nowhere\n",
		`f, hunk 1 of 1 (line 3 of the patch): it does not fit: its first 2 lines stand at line 10, then it expects "more", but the file ends`:              "@@ func b() {\n \ttwo()\n }\n-more\n",
		`f, hunk 2 of 2 (line 5 of the patch): it stands at line 1, before the hunk or header that comes first in the patch; hunks follow the file's order`: "@@ func b() {\n-\tone()\n@@\n-package x\n",
		`f, hunk 1 of 1 (line 3 of the patch): no line of the file is "func c() {", which its "@@" header names`:                                            "@@ func c() {\n-\tone()\n",
		`f, hunk 1 of 1 (line 3 of the patch): it stands at line 1, not at the end of the file as "*** End of File" says`:                                   "@@\n-package x\n*** End of File\n",
		`f, hunk 1 of 1 (line 3 of the patch): it only adds lines and does not say where; give the lines around them, or "*** End of File"`:                 "@@\n+x\n",
	} {
		_, _, err := parse(t, update(body))[0].Apply([]byte(source))
		require.EqualError(t, err, want)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	_, diff, err := parse(t, update("@@\n-package x\n+package y\n+// more\n@@ func b() {\n \tone()\n-\ttwo()\n"))[0].Apply([]byte(source))
	require.NoError(t, err)
	require.Equal(t, `@@ -1,4 +1,5 @@
-package x
+package y
+// more
 
 func a() {
 	one()
@@ -7,5 +8,4 @@
 
 func b() {
 	one()
-	two()
 }
`, diff)
}

// No patch of hostile text panics or runs away.
func FuzzApply(f *testing.F) {
	f.Add(update("@@ a\n-b\n+c\n*** End of File\n"), "a\nb\n")
	f.Add("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch", "")
	f.Fuzz(func(t *testing.T, text, old string) {
		files, err := patch.Parse(text)
		if err != nil {
			return
		}
		for _, file := range files {
			_, _, _ = file.Apply([]byte(old))
		}
	})
}
