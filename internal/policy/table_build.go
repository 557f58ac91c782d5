package policy

import "strings"

// goBuildFlags are the build flags that run nothing else.
const goBuildFlags = `
	-a -n -p: -race -msan -asan -cover -covermode: -coverpkg: -v -work -x -asmflags: -buildmode: -buildvcs: -compiler:
	-gccgoflags:! -gcflags: -installsuffix: -json -ldflags: -linkshared -mod: -modcacherw -modfile:! -overlay:! -pgo:
	-pkgdir:w -tags: -trimpath -toolexec:x -C:! -o:w`

// goTable holds go's subcommands.
const goTable = `
build | build single silent | v* |` + goBuildFlags + `
vet | build single gonew | v* |` + goBuildFlags + ` -vettool:x -c: -fix! -diff -atomic -bool -buildtags -copylocks
	-nilfunc -printf -shadow -structtag -unusedresult -all
test | build single gotest | v* |` + goBuildFlags + ` -args -c -exec:x -i -list: -run: -skip: -bench: -benchmem
	-benchtime: -blockprofile:w -blockprofilerate: -count: -coverprofile:w -cpu: -cpuprofile:w -failfast -fuzz:
	-fuzztime: -fuzzminimizetime: -memprofile:w -memprofilerate: -mutexprofile:w -mutexprofilefraction: -outputdir:w
	-parallel: -short -shuffle: -timeout: -trace:w -vet: -artifacts -fullpath -test.v -test.run: -update!
list | single golist nodash | v* |` + goBuildFlags + ` -f: -m -u -versions -deps -test -e -find -compiled -export
	-retracted -reuse:!
fmt | single gofmtpkgs silent | v* | -n -x -mod:
doc | single | v* | -all -c -cmd -short -src -u -C:! -http!
env | single goenv nodash | v* | -json -w! -u! -changed
version | single nodash | r* | -m -v -json
help | single | v* |
mod | gomod | v* | -v -json -m -e -x -go: -compat: -diff -reuse:! -vendor -fmt -print -C:! -module:! -require:!
	-replace:! -dropreplace:! -droprequire:! -exclude:! -o:w
work | gowork | v* | -v -e
tool | gotool single stop | v* | -n
clean | goclean single | v* | -i! -r! -n -x -cache! -testcache -modcache! -fuzzcache!
get install generate run | gorisky | v* |
`

// cargoFlags are the flags that cargo's commands share.
const cargoFlags = `
	-q,--quiet -v,--verbose -vv --color: --locked --offline --frozen -p,--package: --workspace --all --exclude: --lib
	--bins --bin: --examples --example: --tests --test: --benches --bench: --all-targets -F,--features: --all-features
	--no-default-features -r,--release --profile: --target: --message-format: -j,--jobs: --keep-going --no-run
	--no-fail-fast --doc -h,--help --ignore-rust-version --future-incompat-report --timings? --target-dir:w
	--manifest-path:r --no-deps --document-private-items --allow-dirty --allow-staged --fix --broken-code --config:!
	-Z:! --open! -C:! --list`

const cargoTable = `
build b check c test t bench doc rustdoc clippy rustc | build dashdash | v* |` + cargoFlags + `
nextest | build dashdash | v* |` + cargoFlags + ` -E: --run-ignored: --retries: --no-capture
fmt | cargofmt dashdash | v* | --all --check -q,--quiet -v,--verbose -p,--package: --manifest-path:r -- --edition:
tree metadata | | v* | -e,--edges: -i,--invert? --depth: --prefix: --no-dedupe -d,--duplicates --charset: -f,--format:
	--format-version: --filter-platform:` + cargoFlags + `
version verify-project locate-project pkgid read-manifest | | v* |` + cargoFlags + ` --message-format: --workspace
help | | v* |
`

// jsTestFlags are the flags that the test runners of JavaScript share.
const jsTestFlags = `
	--run --watch? --watchAll? --coverage? --ci --verbose --silent --bail? -b -t,--testNamePattern: --testPathPattern:
	--testPathPatterns: --runInBand,-i --maxWorkers: -w: --passWithNoTests --no-cache --no-coverage --json --reporter:k
	--reporters:k --grep: -g: --timeout: --recursive --exit --forbid-only --color --no-color --colors --config:!
	--globalSetup:! -r,--require:! --detectOpenHandles --forceExit --listTests --onlyChanged,-o --changedSince:
	--findRelatedTests --project: --headed! --workers: --retries: --spec: --shard: --environment: --dir: --list
	--typecheck --no-watch`

// toolTable holds build and test tools that are programs of their own.
const toolTable = `
pytest py.test python-m-pytest | build pytest | v* | -q,--quiet -v,--verbose -x,--exitfirst -k: -m: -s -l,--showlocals
	-r: -n,--numprocesses: --maxfail: --tb: --lf,--last-failed --ff,--failed-first --nf,--new-first --sw,--stepwise
	--co,--collect-only --durations: --durations-min: --cov? --cov-report: --cov-branch --no-cov --cov-fail-under:
	--cov-append --no-header --no-summary --color: --capture: --strict-markers --strict-config --disable-warnings
	--disable-pytest-warnings -W,--pythonwarnings: --import-mode: --ignore: --ignore-glob: --deselect: --timeout:
	--asyncio-mode: --markers --fixtures --setup-show --setup-plan -h,--help -V,--version --full-trace --show-capture:
	--code-highlight: --dist: --reruns: --randomly-seed: --junitxml,--junit-xml:w --cache-clear --runxfail
	--doctest-modules --benchmark-only --benchmark-disable --snapshot-update! -p: -c:! -o,--override-ini:! --rootdir:!
	--confcutdir:! --basetemp:! --pdb! --pyargs! --log-file:w --log-cli-level: --log-level: --verbosity: --no-showlocals
python-m-unittest | build | v* | -v,--verbose -q,--quiet -f,--failfast -b,--buffer -k: -s,--start-directory:
	-p,--pattern: -t,--top-level-directory: --locals --durations:
python-m-doctest python-m-compileall python-m-py_compile | build | v* | -v -q -f -j:
python-m-build | risky-run | v* |
coverage python-m-coverage | coverage | v* | -m -a,--append --branch --source: --omit: --include: -i -q,--quiet
	--fail-under: --skip-covered --show-missing -d:w -o:w --format: --precision: --sort:
tox nox python-m-tox python-m-nox | build envlist dashdash | v* | -e: -q -v -r -p: --parallel: -l -a -s: --session: -k:
	-t: --recreate --notest --skip-missing-interpreters -x! -c:! --list -R --sessions: --reuse-existing-virtualenvs
ruff python-m-ruff | build | v* | --fix --no-fix --diff --check -q,--quiet -v,--verbose -n,--no-cache --select:
	--ignore: --extend-select: --extend-ignore: --exclude: --output-format: --line-length: --target-version:
	--show-fixes --statistics --preview --isolated --force-exclude --config:! --stdin-filename: --watch! --unsafe-fixes
	-e,--exit-zero --exit-non-zero-on-fix --show-files --show-settings
black isort yapf autopep8 autoflake pyupgrade docformatter python-m-black python-m-isort | build | v* | --check --diff
	-q,--quiet -v,--verbose -l,--line-length: --target-version: -t: --profile: --color --fast --safe --preview
	-c,--check-only -S,--skip-string-normalization --exclude: --include: --atomic -i,--in-place -r,--recursive -a
	--aggressive --remove-all-unused-imports --sl --py311-plus --py310-plus --py39-plus --settings-path:! --config:!
flake8 mypy pylint pyright pyflakes pycodestyle bandit vulture radon pydocstyle ty python-m-flake8 python-m-mypy
	python-m-pylint python-m-pyflakes python-m-pycodestyle | build | v* | --strict --ignore-missing-imports
	--show-error-codes --pretty --no-error-summary -q,--quiet -v,--verbose --max-line-length: --max-complexity:
	--select: --ignore: --extend-ignore: --exclude: --count --statistics --show-source --disable: --enable:
	--output-format: -f: -j,--jobs: --python-version: --follow-imports: --no-incremental --namespace-packages
	--explicit-package-bases -p,--package: -m,--module: --errors-only -E --rcfile:! --config-file:! --plugins:!
	--load-plugins:! --install-types! -r: -ll -x: -a -s --outputjson --warnings --level: --min-confidence: --cache-dir:w
	--html-report:w --disallow-untyped-defs
eslint tslint stylelint prettierd biome oxlint standard xo | build | v* | --fix --fix-dry-run --quiet --max-warnings:
	--ext: --cache --no-cache -f,--format:k --ignore-path: --ignore-pattern: --no-ignore --no-error-on-unmatched-pattern
	--color --no-color -c,--config:! --rulesdir:! --plugin:! --parser:! --resolve-plugins-relative-to:! --write --apply
	--rule: --report-unused-disable-directives --debug -o,--output-file:w --no-eslintrc --env: --global: --check
tsc vue-tsc | build | v* | -p,--project:r -b,--build --noEmit --watch! -w! --pretty? --strict --skipLibCheck --outDir:w
	--declaration --emitDeclarationOnly --incremental --showConfig --listFiles --target: --module: --esModuleInterop
	--jsx: -v,--version --traceResolution --diagnostics --extendedDiagnostics
jest vitest | build | v* | -u,--updateSnapshot,--update` + jsTestFlags + `
mocha ava tap karma playwright cypress | build | v* | -u!` + jsTestFlags + `
vite next nuxt astro docusaurus vue-cli-service ng parcel | build jsbuild | v* | --mode: --configuration: --prod
	--production --minify? --no-lint --silent --debug --dist-dir:w --outDir:w
webpack rollup tsup esbuild swc | build jsbuild | v* | --mode: -c? -o,--file,--outfile,--out-file,--output-path:w
	-d,--dir,--outdir,--out-dir:w -f,--format: -i,--input:r --bundle --minify? --sourcemap? --platform: --target:
	--external: --splitting --dts --silent
turbo nx lerna | build jstasks | v* | --filter: -F: --scope: -p,--project,--projects: --parallel? --concurrency: --continue
	--force --no-cache --skip-nx-cache --nx-bail --output-logs: --output-style: --base: --head: --since: -t,--target,--targets:
	--all -v,--verbose
tflint cfn-lint knip madge depcheck svelte-check commitlint | build | v* | -f,--format: --recursive --no-color
	-t,--template: -r,--regions: -i,--ignore-checks: --minimum-failure-severity: --circular --extensions: --production
	--strict --reporter: --from: --to: -V,--verbose -q,--quiet
gotestsum | build gotestsum | v* | -f,--format: --junitfile:w --jsonfile:w --no-color --rerun-fails? --packages:
	--hide-summary: --format-hide-empty-pkg --watch! --post-run-command:x --raw-command!
sphinx-build | build sphinx | v v | -b,--builder:k -M: -q -Q -v -a -E -n -W -N -T -j: --keep-going --nitpicky --color
	--no-color -t: -D! -A! -c! -C! -d:w -w:w
golangci-lint | build golangci | v* | --fix --fast --timeout: -E,--enable: -D,--disable: --enable-all --disable-all
	--new --new-from-rev: --out-format: --max-issues-per-linter: --max-same-issues: -v,--verbose --color: --tests?
	--skip-dirs: --exclude: --build-tags: --concurrency,-j: --allow-parallel-runners --issues-exit-code:
	--modules-download-mode: -c,--config:! --print-issued-lines --sort-results --show-stats --default: --enable-only:
	--no-config
staticcheck errcheck revive gosec ineffassign deadcode unused govulncheck nilaway gocyclo gocognit misspell unconvert |
	build single | v* | -checks: -tests -f: -go: -explain: -fail: -tags: -v -json -test -mode: -show: -ignore: -exclude:
	-severity: -quiet -fmt: -formatter: -config:! -set_exit_status -over: -avg -top: -locale: -error -w! -C:!
wire stringer mockgen protoc-gen-go swag sqlc buf protoc templ easyjson ent | risky-run | v* |
ctest | build | v* | --test-dir: -j,--parallel: -V,--verbose -VV --output-on-failure -R,--tests-regex:
	-E,--exclude-regex: -L,--label-regex: -LE: -N,--show-only? -C,--build-config: --rerun-failed --timeout:
	--stop-on-failure -Q,--quiet --progress --repeat: --no-tests: --schedule-random -O:w -S:! -D:! --build-and-test!
ninja samu | ninja | v* | -C: -j: -k: -l: -n -v,--verbose -d: -t: --quiet -w: -f:!
cmake | cmake | v* | -S: -B:w -G: -D: -U: -A: -T: -W: -N --build: --target,-t: -j,--parallel? --config: --clean-first
	-v,--verbose --preset: --list-presets? --fresh --log-level: -Wdev -Wno-dev --version --install:! -P:! -E! -C:!
	--open:! --workflow! --trace
meson | meson | v* | -C: -j: -v --verbose --suite: --no-rebuild --list -t: --print-errorlogs --buildtype: -D: --prefix:
	--wipe! --reconfigure --quiet --num-processes: --repeat: --timeout-multiplier: --maxfail: --wrap:! --gdb!
bazel bazelisk buck buck2 pants please | bazel | v* | -c: --config: -k --keep_going --test_output: --test_filter:
	--jobs: --verbose_failures --nocache_test_results --runs_per_test: --test_arg: --cache_test_results:
	--test_tag_filters: --build_tag_filters: --show_progress_rate_limit: --noshow_progress --ui_event_filters:
	--test_summary: --curses: --color: --platforms: --output: --sandbox_debug --remote_cache:! --run_under:!
	--script_path:! --workspace_status_command:! --package_path:! --override_repository:! --spawn_strategy:!
mvn mvnd mvnw | mvn | v* | -q,--quiet -B,--batch-mode -o,--offline -e,--errors -X,--debug -U,--update-snapshots
	-pl,--projects: -am,--also-make -amd -T,--threads: -D: -P: -f,--file:r -fae -ff -fn -N,--non-recursive
	-ntp,--no-transfer-progress -rf,--resume-from: -V,--show-version -v,--version -s:! -gs:! -l:w
gradle gradlew | gradle | v* | -q,--quiet -i,--info -d,--debug -s,--stacktrace -S --no-daemon --daemon --parallel
	--no-parallel --offline --continue --rerun-tasks --build-cache --no-build-cache --configuration-cache --dry-run,-m
	-x,--exclude-task: --tests: -P: --console: --warning-mode: --max-workers: --scan! -p,--project-dir: -v,--version
	--configuration: --dependency: --all --group: --refresh-dependencies! -D:! -I,--init-script:! -b,--build-file:! -c!
	-g:! --include-build:!
sbt lein mill ant | targets | v* | -q -batch -no-colors -Dsbt.log.noformat=true -v
dotnet | dotnet exact | v* | -c,--configuration: -f,--framework: -r,--runtime: -v,--verbosity: --no-build --no-restore
	--nologo -nologo --filter: -l,--logger:k -m? -maxcpucount? -clp: --collect: --settings:r -o,--output:w
	--self-contained -p:! --property:! -t:! -target:! --blame --list-tests --verify-no-changes --no-dependencies
	--version --info -h,--help --list-sdks --list-runtimes --diag:w --results-directory:w
swift | swift | v* | -c,--configuration: --filter: --skip: --parallel -v,--verbose -q,--quiet --build-tests --target:
	--product: --show-bin-path --enable-code-coverage -j,--jobs: --package-path:! -Xswiftc:! -Xcc:! -Xlinker:!
zig | zig | v* | -O: -target: --summary: -D: -femit-bin: --test-filter: -fno-emit-bin
rspec rubocop standardrb minitest m reek brakeman sorbet srb | build | v* | -f,--format:k -e,--example: -t,--tag:
	-c,--color,--colour --no-color --fail-fast? -b,--backtrace --order: --seed: -p,--profile? -w -a,--autocorrect
	-A,--autocorrect-all --only: --except: --lint --parallel --no-parallel -D,--display-cop-names -P -o,--out:w
	-r,--require:! -I:! -O,--options:! --config:! -c:!
rake thor just task mage invoke inv doit earthly taskfile go-task | targets | v* | -q,--quiet -v,--verbose -n,--dry-run
	-s,--silent -j: --parallel -T,--tasks -l,--list,--list-all -a --summary --trace -P -D -e! -f:! -d:! --justfile:!
	--taskfile:! --set:! --shell:! --rakefile:! --yes
mix | mix | v* | --only: --exclude: --include: --trace --cover --failed --stale --seed: --max-failures:
	--check-formatted --warnings-as-errors --force --all-warnings --slowest: --strict --color --no-color --no-start!
	--no-compile --formatter: -r:!
rebar3 stack cabal dub nimble shards crystal-build dune opam | targets | v* | -v -q --fast --pedantic --test-arguments:
	-j: --enable-tests --watch! --force -f --profile:
phpunit pest phpstan psalm phpcs php-cs-fixer infection codecept behat | build | v* | --filter: --testsuite: --group:
	--exclude-group: --coverage-text --no-coverage --colors? --testdox --stop-on-failure --stop-on-error
	--stop-on-defect --display-warnings -v --verbose -q --level: -l: --memory-limit: --no-progress --error-format:
	--standard: --dry-run --diff --using-cache: --no-cache --configuration:! -c:! --bootstrap:! --extensions:!
composer | targets | v* | -v -q -n,--no-interaction --ansi --no-ansi --strict --no-check-lock --no-check-publish
	--no-check-all --no-dev -D,--direct -t,--tree --locked -f,--format:
gcc g++ cc c++ clang clang++ gfortran ldc2 tcc cpp | raw cc | v* |
rustc javac kotlinc scalac ghc ocamlfind ocamlopt nim-c valac fpc gnatmake | raw compiler | v* |
clang-format | gofmt | R* | -i --style: -n,--dry-run --Werror,-Werror -style: --fallback-style: --lines: --verbose
	--assume-filename:
clang-tidy cppcheck include-what-you-use | build | v* | -p: --checks: -checks: --enable: --std: --language: -I:
	-q,--quiet --error-exitcode: --inline-suppr --suppress: -j: --force --platform: -fix! --fix! --config:! --load:!
	--addon:! --plugin:!
rustfmt stylua ormolu fourmolu ktlint swiftformat swiftlint google-java-format scalafmt elm-format nixfmt alejandra
	terraform-fmt taplo dprint mdformat | build | v* | --check -i,--in-place --edition: -q,--quiet -v,--verbose --fix
	-F,--format --emit: -l --config:! --config-path:! --color: --mode: --write --test --lint --strict --diff --dry-run
	--autocorrect
make gmake bmake | raw make | v* |
npm pnpm yarn | raw npm | v* |
npx pnpx bunx | raw npx | v* |
go | raw go | v* |
cargo | raw cargo | v* |
`

// risky-run programs run code or write where the policy does not follow.
func runRiskyRun(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s runs code or writes where the policy does not follow", c.by())
	c.suspicious(append(lits(c.name), c.args...))
}

// safeTarget reports whether a target of a task runner, by its name, builds or
// tests: one of the policy's names, or a namespaced form such as test:unit.
func (p *Policy) safeTarget(t string) bool {
	parts := strings.FieldsFunc(t, func(r rune) bool { return r == ':' || r == '/' || r == '-' || r == '_' || r == '.' })
	if len(parts) == 0 || strings.HasPrefix(t, "-") || strings.Contains(t, "..") {
		return false
	}
	for _, part := range parts {
		if in(p.targetStops, strings.ToLower(part)) {
			return false
		}
	}
	head := strings.ToLower(parts[0])
	if in(p.targets, head) {
		return true
	}
	// ci:test, backend:build
	return strings.ContainsAny(t, ":/") && in(p.targets, strings.ToLower(parts[len(parts)-1]))
}

// targetList judges the targets of a task runner.
func (c *call) targetList(ops []word, what string) {
	if len(ops) == 0 {
		c.raise(Risky, "%s runs whatever its first target is", c.by())
		return
	}
	for _, w := range ops {
		if !w.lit || w.glob {
			c.raise(Risky, "%s runs the %s `%s`, which is only known when it runs", c.by(), what, w.show())
			continue
		}
		if c.s.j.p.safeTarget(w.text) {
			c.build()
			continue
		}
		c.raise(Risky, "%s runs the %s `%s` of the workspace, whatever it does", c.by(), what, clip(w.text, 60))
	}
}
