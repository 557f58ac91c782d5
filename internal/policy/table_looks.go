package policy

// lookTable holds the forms in which programs that otherwise change, start or connect
// to something only look, or only check the workspace's own files. The attributes are
// what makes a form: a first word, two first words as "check/rules", a first word
// alone as "list/", an option that is given, or "-" for no operand at all. Only what
// a line lists may be given; anything else is judged as the program always is.
// In capitals: ANY for every form of the options listed, SHOW for showing properties
// that are named, BUILD for what renders or tests the workspace's files, of which it
// names a DIR or a CHART, and HELD for looks that ask all the same.
//
// Not here, though people check with them: nginx -t, apachectl configtest, haproxy -c
// and sshd -t, whose configuration loads modules or scripts, and which open logs and
// run directories to write; terraform plan, which runs providers and locks the state;
// named-checkzone, which asks name servers; ldd, which may run the program that it is
// given; systemctl show of everything and show-environment, which print environments.
const lookTable = `
systemctl | SHOW status is-active is-failed is-enabled is-system-running list-units list-unit-files list-timers list-sockets
	list-paths list-automounts list-jobs list-dependencies cat get-default - | n* | -a,--all -l,--full -q,--quiet
	-t,--type: --state: -p,--property: --value --failed --no-legend --legend: --plain --no-pager -n,--lines: -o,--output: --user --system
	-r,--recursive --reverse --after --before --with-dependencies --timestamp: -H,--host:! -M,--machine:! --root:!
	--image:!
loginctl | list-sessions list-users list-seats session-status user-status seat-status - | n* | -a,--all -l,--full
	--no-legend --no-pager -n,--lines: -o,--output: -H,--host:! -M,--machine:!
localectl | status/ list-locales list-keymaps - | n* | --no-pager
resolvectl | status/ statistics/ - | v* | --no-pager -4 -6 --legend:
networkctl | list status - | n* | -a,--all -l,--full --no-pager --no-legend -n,--lines: -s,--stats
systemd-analyze | time blame critical-chain calendar timestamp timespan security - | n* | --no-pager --user --system
	--iterations: --base-time: --fuzz: -q,--quiet -H,--host:! -M,--machine:! --root:! --image:!
systemd-cgls | - | - | -a,--all -l,--full -k --no-pager
systemd-cgtop | - | - | -b,--batch -n,--iterations: -d,--delay: -p -t -c -m -i -1 -r,--raw --depth:
systemd-detect-virt | - | - | -q,--quiet -v,--vm -c,--container
coredumpctl | list - | n* | -r,--reverse --no-pager --no-legend -1 -S,--since: -U,--until: -q,--quiet
fuser | ANY | n* | -v,--verbose -a,--all -m,--mount -M,--ismountpoint -u,--user -n,--namespace: -s,--silent -4,--ipv4
	-6,--ipv6 -I,--inode
tcpdump | -r -D | n* | -r:r -D,--list-interfaces -n -v -A -X -x -e -q -t -c: -s: -S -l -N -O -#,--number --count -H -f
conntrack | -L -S -C | n* | -L,--dump -S,--stats -C,--count -p,--proto: -s,--src: -d,--dst: -f,--family: -o,--output:
	--sport: --dport: --orig-src: --orig-dst: --state:
bridge | link/ link/show link/list fdb/ fdb/show fdb/list vlan/ vlan/show vlan/list mdb/ mdb/show mdb/list | n* | -s -d -j
	-c -p
nstat | -s | n* | -s -a -z -j -p
slabtop | -o | - | -o,--once -s,--sort:
numactl | -H -s | - | -H,--hardware -s,--show
swapon | -s --show | - | -s,--summary --show? --noheadings --bytes --raw
prlimit | stop -p | - | -p,--pid: --noheadings --raw
taskset chrt | stop -p | n | -p,--pid -c,--cpu-list -a,--all-tasks
ionice | stop -p | n* | -p,--pid:
nginx | -v -V -h | - | -v -V -h -?
promtool | check/rules check/config check/web-config test/rules --version | v v r* | --lint: --lint-fatal --syntax-only --agent
	--ignore-unknown-fields --run: --diff --debug --version
amtool | check-config --version | v r* | --version
pg_restore | -l | r | -l,--list -F,--format:
pg_lsclusters | - | - | -h,--no-header -s,--start-conf -j,--json
pg_config | ANY | - | --bindir --docdir --includedir --pkgincludedir --includedir-server --libdir --pkglibdir --sharedir
	--sysconfdir --pgxs --configure --cc --cflags --ldflags --libs --version
pg_controldata | ANY | R | -D,--pgdata:R
ssh-keygen | -l | - | -l -f:r -v -E:
git-apply | --stat --numstat --summary --check | r* | --stat --numstat --summary --check -v,--verbose -p: --directory:
	-z -R,--reverse -C: --include: --exclude: --recount --unidiff-zero --ignore-whitespace --ignore-space-change
git-bundle | verify list-heads | v r | -q,--quiet
helm | BUILD CHART template | v v* | -f,--values:r --set: --set-string: --set-json: --set-literal: -s,--show-only:
	-n,--namespace: --kube-version: -a,--api-versions: --include-crds --skip-crds --skip-tests --no-hooks
	--release-name --debug -g,--generate-name --is-upgrade --skip-schema-validation
kustomize | BUILD DIR build | v v | -o,--output:w --as-current-user
kubectl | BUILD DIR kustomize | v v | -o,--output:w --as-current-user
kubeconform | BUILD single ANY | r* | -strict -summary -output: -ignore-missing-schemas -kubernetes-version: -skip: -reject:
	-n: -verbose -exit-on-error -debug -ignore-filename-pattern: -schema-location:! -cache:!
opa | BUILD test check fmt | v R* | -v,--verbose -S,--strict --v0-compatible --v1-compatible --coverage -c --threshold:
	-r,--run: -f,--format: -l,--list -d,--diff --fail --ignore: -b,--bundle -t,--timeout: -m,--max-errors:
conftest | BUILD test verify | v R* | -p,--policy:R -o,--output: --all-namespaces -n,--namespace: --no-color --fail-on-warn
	--parser: -d,--data:R --combine --trace --quiet --no-fail --ignore: --rego-version: --strict
buf | BUILD DIR lint format | v v | --path: --exclude-path: --error-format: -d,--diff --exit-code
	--config:! -w! -o:! --timeout:
kube-linter | BUILD lint | v R* | --format: --verbose
spectral redocly | BUILD lint | v R* | -f,--format: -q,--quiet -v,--verbose -F,--fail-severity: --max-problems:
sqlfluff | BUILD lint parse format fix | v R* | --dialect: -f,--format: -q -v -n --rules:
mkdocs | BUILD build | v | -s,--strict -q,--quiet -v,--verbose -c,--clean -d,--site-dir:w
mdbook | BUILD build test | v v | -d,--dest-dir:w
hugo | BUILD - build | v | -D,--buildDrafts --minify --quiet -d,--destination:w -v
vault | version/ -version | v | -version
docker | compose/version | v v | --short
git-lfs | version | v |
direnv | status/ | v |
pyenv rbenv goenv nodenv | versions version | v | --bare
rustup | toolchain/list target/list component/list | v v | -v,--verbose --installed --toolchain:
redis-server postgres mysqld envoy prometheus alertmanager etcd ld kotlin | --version | - | --version
httpd apachectl haproxy | -v -V | - | -v -V
xsv | headers count stats frequency select search slice table sort flatten | v r* | -d: -n -s: -l: -i: -o:w --output:w -j:
fdisk | HELD -l -x | n* | -l,--list -x,--list-details -o,--output: --bytes -u,--units?
sfdisk | HELD -l -d -J -F | n* | -l,--list -d,--dump -J,--json -F,--list-free -o,--output: --bytes
sgdisk gdisk | HELD -p -i -l | n | -p,--print -i,--info: -l
parted | HELD -l | - | -l,--list -m,--machine -s,--script
zpool | HELD list status history get iostat | v n* | -v -x -P -T: -H -p -o: -L -g -i -l
zfs | HELD list get holds | v n* | -r -H -p -o: -s: -S: -t: -d: -F
btrfs | HELD filesystem/show filesystem/df filesystem/usage filesystem/du subvolume/list subvolume/show device/stats
	device/usage scrub/status balance/status qgroup/show fi/show fi/df fi/usage | v v n* | -h -H -b -k -m -g -t -T -p -a
mdadm | HELD -D -E -Q | n* | -D,--detail -E,--examine -Q,--query -s,--scan -v,--verbose -b,--brief
tune2fs | HELD -l | n | -l
dmsetup | HELD ls info status deps | v n* | --tree -c -C,--columns -o,--options:
losetup | HELD - -a -l | - | -a,--all -l,--list -O,--output: -J,--json -n,--noheadings --raw
cryptsetup | HELD status | v n |
nvme | HELD list smart-log id-ctrl id-ns list-subsys error-log fw-log | v n* | -o,--output-format: -H,--human-readable -v
hdparm | HELD -I -i -g | n* | -I -i -g
smartctl | HELD -a -x -i -H -A --scan | n* | -a,--all -x,--xall -i,--info -H,--health -A,--attributes -c
	-d: -j,--json? -n: -q: --scan --scan-open
efibootmgr | HELD - | - | -v,--verbose
e2fsck fsck.ext4 | HELD -n | n* | -n -v
fsck | HELD -N | n* | -N -V
at | HELD -l | - | -l -q:
visudo | HELD -c | - | -c,--check -q,--quiet -s,--strict -f,--file:r
`
