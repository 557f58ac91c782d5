package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

const fourFiles = `*** Begin Patch
*** Update File: a.txt
@@
-one
+1
 two
*** Add File: new/b.txt
+made
*** Delete File: c.txt
*** Update File: d.sh
*** Move to: e.sh
@@
-echo d
+echo e
*** End Patch`

func patchCall(t *testing.T, text string) workflows.ToolCall {
	return toolCall(t, workflows.ToolApplyPatch, workflows.ApplyPatchArgs{Patch: text})
}

func (r *rig) seedPatch() {
	r.shell(`printf 'one\ntwo\n' > a.txt; echo c > c.txt; echo 'echo d' > d.sh; chmod 755 d.sh`)
}

const patched = "./README.md\n./a.txt\n./e.sh\n./new\n./new/b.txt\n1\ntwo\nmade\ne\n755\n"

func (r *rig) tree() string {
	return r.shell("find . -mindepth 1 | LC_ALL=C sort; cat a.txt new/b.txt; ./e.sh; stat -c %a e.sh").Output.Text
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.seedPatch()
	c := patchCall(t, fourFiles)
	j := r.judge(c)
	require.Equal(t, "write", j.Tier)
	require.Empty(t, j.Cwd)
	require.Equal(t, `apply_patch a.txt, new/b.txt, c.txt, d.sh (+3 −2)
Update a.txt
@@ -1,2 +1,2 @@
-one
+1
 two
Add new/b.txt
+made
Delete c.txt (2 bytes)
Move d.sh to e.sh
@@ -1 +1 @@
-echo d
+echo e`, j.Command.Text)
	in := r.runInput(c, j)
	res := r.run(in)
	require.Equal(t, workflows.CallCompleted, res.State, res.Error)
	require.Contains(t, res.Output.Text, "W "+r.ref.Root+"/a.txt, 6 bytes\n")
	require.Contains(t, res.Output.Text, "D "+r.ref.Root+"/c.txt\n")
	require.Contains(t, r.tree(), patched)

	// The activity is tried again, because its answer was lost.
	in.Attach = true
	require.Equal(t, workflows.CallCompleted, r.run(in).State)
	require.Contains(t, r.tree(), patched)
	// Not so a call of the same patch.
	require.Contains(t, r.judge(c).Bad, "does not fit: none of the file's lines from line 1 on (it has 2) is its first line, \"one\"")
}

// A worker that dies between two files leaves the rest to the retry.
func TestPatchGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]string{
		"first":            `printf '1\ntwo\n' > a.txt`,
		"the others":       `mkdir new; echo made > new/b.txt; rm c.txt; echo 'echo e' > e.sh; chmod 755 e.sh; rm d.sh`,
		"a move half made": `echo 'echo e' > e.sh; chmod 755 e.sh`,
		"all of it":        `printf '1\ntwo\n' > a.txt; mkdir new; echo made > new/b.txt; rm c.txt; echo 'echo e' > e.sh; chmod 755 e.sh; rm d.sh`,
		"nothing":          `true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.seedPatch()
			c := patchCall(t, fourFiles)
			in := r.runInput(c, r.judge(c))
			r.shell(half)
			r.restart()
			in.Attach = true
			res := r.run(in)
			require.Equal(t, workflows.CallCompleted, res.State, res.Error)
			require.Contains(t, r.tree(), patched)
		})
	}
}

// What a patch changes is what was shown, or it changes nothing.
func TestPatchBinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ meanwhile, what string }{
		"changed elsewhere": {"echo three >> a.txt", "/a.txt has changed since it was judged."},
		"changed there":     {"echo other > a.txt", "it does not fit"},
		"deleted one":       {"rm c.txt", "c.txt does not exist."},
		"other to delete":   {"echo precious > c.txt", "/c.txt has changed since it was judged."},
		"made meanwhile":    {"mkdir new; echo mine > new/b.txt", "new/b.txt is there already"},
		"leads elsewhere":   {"mkdir .git; ln -s .git new", "leads to another place"},
		"leads out":         {"ln -s /tmp new", "is outside the workspace"},
		"half by somebody":  {"rm c.txt; echo three >> a.txt", "has changed since it was judged."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.seedPatch()
			call := patchCall(t, fourFiles)
			in := r.runInput(call, r.judge(call))
			r.shell(c.meanwhile)
			before := r.shell("find . -type f -exec cat {} +").Output.Text
			for _, in.Attach = range []bool{false, true} {
				if in.Attach && name == "deleted one" {
					continue // that is half of what was judged
				}
				res := r.run(in)
				require.Equal(t, workflows.ResultChanged, res.State)
				if name != "half by somebody" {
					require.Contains(t, res.Error, c.what)
				}
				require.Equal(t, before, r.shell("find . -type f -exec cat {} +").Output.Text)
			}
		})
	}
}

func TestBadPatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.seedPatch()
	r.shell("ln -s /etc out; mkdir dir; ln -s a.txt link; head -c 9000000 /dev/zero > big")
	for body, want := range map[string]string{
		"*** Update File: ../x\n-a":                                 "outside the workspace",
		"*** Update File: out/passwd\n-a":                           "outside the workspace",
		"*** Add File: out/x\n+a":                                   "outside the workspace",
		"*** Add File: /etc/x\n+a":                                  "outside the workspace",
		"*** Update File: a.txt\n*** Move to: ../x\n-one":           "outside the workspace",
		"*** Delete File: none":                                     "none does not exist",
		"*** Delete File: dir":                                      "no regular file",
		"*** Add File: a.txt\n+a":                                   "is there already",
		"*** Update File: a.txt\n*** Move to: c.txt\n-one":          "cannot be moved to c.txt",
		"*** Update File: a.txt\n-one\n*** Delete File: ./a.txt":    "named twice",
		"*** Update File: a.txt\n-one\n*** Update File: link\n-two": "named twice",
		"*** Update File: big\n-one":                                "at most 8388608 bytes",
		"*** Update File: a.txt\n-one\n*** Update File: c.txt\n-x":  `c.txt, hunk 1 of 1 (line 5 of the patch): it does not fit`,
	} {
		j := r.judge(patchCall(t, "*** Begin Patch\n"+body+"\n*** End Patch"))
		require.Equal(t, "forbidden", j.Tier, body)
		require.Contains(t, j.Bad, want, body)
		require.Regexp(t, `^The patch was not applied, no file was changed\. .*`, j.Bad)
	}
	require.Equal(t, "risky", r.judge(patchCall(t, "*** Begin Patch\n*** Add File: .git/hooks/x\n+a\n*** End Patch")).Tier)
	require.Contains(t, r.shell("cat a.txt c.txt").Output.Text, "one\ntwo\nc\n")
}

func TestListFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell(`mkdir -p d/e/f; echo x > d/e/x; ln -s /etc/passwd d/out; touch "$(printf 'a\nb')"`)
	list := func(args workflows.ListFilesArgs) workflows.ToolResult {
		c := toolCall(t, workflows.ToolListFiles, args)
		j := r.judge(c)
		require.Equal(t, "safe", j.Tier, j.Bad)
		return r.run(r.runInput(c, j))
	}
	require.Equal(t, "|false||README.md  7\na␊b  0\nd/\n|", list(workflows.ListFilesArgs{}).Output.Text)
	require.Equal(t, "|false||e/\ne/f/\ne/x  2\nout  link\n|", list(workflows.ListFilesArgs{Path: "d", Depth: 5}).Output.Text)
	require.Contains(t, list(workflows.ListFilesArgs{Path: "none"}).Error, "does not exist")
	require.Contains(t, list(workflows.ListFilesArgs{Path: "README.md"}).Error, "no directory")
	require.Contains(t, r.judge(toolCall(t, workflows.ToolListFiles, workflows.ListFilesArgs{Path: ".."})).Bad, "outside the workspace")

	r.shell("mkdir many; cd many; seq 1200 | xargs touch")
	require.Contains(t, list(workflows.ListFilesArgs{Path: "many"}).Output.Text, "more than these 1000 entries")
}
