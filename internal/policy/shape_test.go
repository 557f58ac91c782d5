package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShape(t *testing.T) {
	t.Parallel()
	p := Default()
	env := Env{Isolated: true, Shell: ShellBash, Cwd: "/workspace", Home: "/home/agent", Workspace: "/workspace"}
	shape := func(command string, env Env) string {
		return p.Shape(command, env, p.Judge(command, env, Facts{}))
	}
	one := shape("rm -rf build", env)
	require.NotEmpty(t, one)
	for _, same := range []string{"rm  -rf   build", "rm -rf 'build'", `rm "-rf" bu'il'd`} {
		require.Equal(t, one, shape(same, env), same)
	}
	elsewhere := env
	elsewhere.Cwd = "/workspace/sub"
	require.NotEqual(t, one, shape("rm -rf build", elsewhere))
	require.NotEqual(t, one, shape("rm -rf build2", env))
	for _, none := range []string{
		"ls", "rm -rf *", "rm -rf $x", "rm -rf ~/x", "rm -rf build; ls", "rm -rf build && ls", "rm -rf build &", "! rm -rf build",
		"x=1 rm -rf build", "rm -rf build > log", "sh -c 'rm -rf build'", "bash -c 'npm test'", "sudo rm -rf build", "env rm -rf build",
		"xargs rm -rf build", "python3 -c 'x'", "python3 setup.py install", "node x.js", "./run.sh", "/bin/rm -rf build", "eval 'rm -rf build'",
		"timeout 5 rm -rf build", "find . -delete", "make deploy", "ssh host rm -rf build", "git push -f", "(rm -rf build)", "rm -rf $(echo build)",
		`rm -rf \build`, "awk 'BEGIN{system(\"id\")}'", "unknowncommand x",
	} {
		require.Empty(t, shape(none, env), none)
	}
}
