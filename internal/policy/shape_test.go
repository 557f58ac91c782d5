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
	for _, some := range []string{"psql -c 'select 1'", "curl -s https://api.example.com/health", "helm list", "aws s3 ls", "gh pr list", "systemctl restart api", "redis-cli get x", "dig example.com", "apt-get install -y jq", "tar xf a.tar", "kubectl get pods -n payments -o wide", "kubectl logs deploy/x --since=15m -f", "docker ps -a", "docker logs --tail 50 api"} {
		require.NotEmpty(t, shape(some, env), some)
	}
	for _, none := range []string{
		"ls", "rm -rf *", "rm -rf $x", "rm -rf ~/x", "rm -rf build; ls", "rm -rf build && ls", "rm -rf build &", "! rm -rf build",
		"x=1 rm -rf build", "rm -rf build > log", "sh -c 'rm -rf build'", "bash -c 'npm test'", "sudo rm -rf build", "env rm -rf build",
		"xargs rm -rf build", "python3 -c 'x'", "python3 setup.py install", "node x.js", "./run.sh", "/bin/rm -rf build", "eval 'rm -rf build'",
		"timeout 5 rm -rf build", "find . -delete", "make deploy", "ssh host rm -rf build", "git push -f", "(rm -rf build)", "rm -rf $(echo build)",
		"java -jar a.jar", "rake deploy", "just deploy", "gradle publish", "mvn deploy", "yarn deploy", "pnpm i", "npx x", "bundle exec x", "bundle install", "pip install -r requirements.txt", "composer install",
		"ninja -f x", "cmake -P a", "bazel run //x", "dotnet run", "tox -e deploy", "ansible-playbook a.yml", "terraform plan", "pulumi preview", "cdk synth", "sam build", "helmfile apply", "fastlane x",
		"psql -f a.sql", "psql -c '\\i a.sql'", "mysql -e 'source a.sql'", "patch -p1 -i a.diff", "ldd a", "wire", "protoc a.proto", "man -P x y", "less +x", "xdg-open a", "pytest --rootdir=/x",
		"sort --compress-program=./x a", "rg --pre ./x a", "rsync -e ./x a b", "curl -K x", "go run .", "cargo install x", "./gradlew publish", "kubectl get pods --kubeconfig=k", "kubectl get -f a.yaml", "kubectl get pods -o go-template-file=a", "kubectl get pods -o=jsonpath-file=a", "kubectl exec x -- ls", "kubectl diff -f a", "docker compose ps", "docker run x", "docker -H tcp://x ps", "kubectl",
		`rm -rf \build`, "awk 'BEGIN{system(\"id\")}'", "unknowncommand x",
	} {
		require.Empty(t, shape(none, env), none)
	}
}
