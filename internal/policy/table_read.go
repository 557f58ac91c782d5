package policy

// Each line is "names | attributes | operands | options"; one that begins with a tab
// goes on with the line before. Operands are roles: r
// a path read, R read with all below, w written, d deleted, v or n a word that
// does nothing, h a host; "*" repeats. Options are "-o,--output:w": the names,
// ":" or "?" when a value follows or may, then the value's role; a trailing "!"
// means known and not allowed without asking. The attribute "full" says that
// all long options of the program are listed, so that abbreviations can be told
// apart; "lines" that the output is lines of what is read; "names", "num" and
// "silent" what the output is otherwise.

// readTable holds programs that only read, and options that may do more.
const readTable = `
ls dir vdir | full names | R* | -a,--all -A,--almost-all --author -b,--escape --block-size: -B,--ignore-backups -c -C
	--color? -d,--directory -D,--dired -f -F,--classify? --file-type --format: --full-time -g --group-directories-first
	-G,--no-group -h,--human-readable --si -H,--dereference-command-line --dereference-command-line-symlink-to-dir
	--hide: --hyperlink? --indicator-style: -i,--inode -I,--ignore: -k,--kibibytes -l -L,--dereference -m
	-n,--numeric-uid-gid -N,--literal -o -p -q,--hide-control-chars --show-control-chars -Q,--quote-name
	--quoting-style: -r,--reverse -R,--recursive -s,--size -S --sort: --time: --time-style: -t -T,--tabsize: -u -U -v
	-w,--width: -x -X -Z,--context --zero -1 --help --version
exa eza lsd | mild names | R* | -a,--all -l,--long -1,--oneline -T,--tree -L,--level: -R,--recurse -d,--list-dirs
	-s,--sort: -r,--reverse -h,--header -F,--classify --git -D,--only-dirs --icons --color: -I,--ignore-glob:
cat | full cat lines | r* | -A,--show-all -b,--number-nonblank -e -E,--show-ends -n,--number -s,--squeeze-blank -t
	-T,--show-tabs -u -v,--show-nonprinting --help --version
tac | full lines | r* | -b,--before -r,--regex -s,--separator: --help --version
nl | full | r* | -b,--body-numbering: -d,--section-delimiter: -f,--footer-numbering: -h,--header-numbering:
	-i,--line-increment: -l,--join-blank-lines: -n,--number-format: -p,--no-renumber -s,--number-separator:
	-v,--starting-line-number: -w,--number-width: --help --version
head | full lines numbers | r* | -c,--bytes: -n,--lines: -q,--quiet,--silent -v,--verbose -z,--zero-terminated --help
	--version
tail | full lines numbers plus | r* | -c,--bytes: -f,--follow? -F -n,--lines: --max-unchanged-stats: --pid:
	-q,--quiet,--silent --retry -s,--sleep-interval: -v,--verbose -z,--zero-terminated --help --version
wc | full num | r* | -c,--bytes -m,--chars -l,--lines --files0-from:f -L,--max-line-length -w,--words --total: --help
	--version
sort | full lines | r* | -b,--ignore-leading-blanks -d,--dictionary-order -f,--ignore-case -g,--general-numeric-sort
	-i,--ignore-nonprinting -M,--month-sort -h,--human-numeric-sort -n,--numeric-sort -R,--random-sort --random-source:r
	-r,--reverse --sort: -V,--version-sort --batch-size: -c,--check? -C --compress-program:x --debug --files0-from:f
	-k,--key: -m,--merge -o,--output:w -s,--stable -S,--buffer-size: -t,--field-separator: -T,--temporary-directory:w
	--parallel: -u,--unique -z,--zero-terminated --help --version
uniq | full lines numbers | r w | -c,--count -d,--repeated -D --all-repeated? -f,--skip-fields: --group?
	-i,--ignore-case -s,--skip-chars: -u,--unique -z,--zero-terminated -w,--check-chars: --help --version
cut | full | r* | -b,--bytes: -c,--characters: -d,--delimiter: -f,--fields: -n --complement -s,--only-delimited
	--output-delimiter: -z,--zero-terminated --help --version
paste | full | r* | -d,--delimiters: -s,--serial -z,--zero-terminated --help --version
join | full | r r | -a: -e: -i,--ignore-case -j: -o: -t: -v: -1: -2: --check-order --nocheck-order --header
	-z,--zero-terminated --help --version
comm | full | r r | -1 -2 -3 --check-order --nocheck-order --output-delimiter: --total -z,--zero-terminated --help
	--version
tr | full tr | v v | -c,-C,--complement -d,--delete -s,--squeeze-repeats -t,--truncate-set1 --help --version
expand unexpand | full numbers | r* | -i,--initial -t,--tabs: -a,--all --first-only --help --version
fold | full numbers | r* | -b,--bytes -s,--spaces -w,--width: --help --version
fmt | full numbers | r* | -c,--crown-margin -p,--prefix: -s,--split-only -t,--tagged-paragraph -u,--uniform-spacing
	-w,--width: -g,--goal: --help --version
pr | mild numbers plus | r* | --columns: -a,--across -c,--show-control-chars -d,--double-space -D,--date-format:
	-e,--expand-tabs? -F,-f,--form-feed -h,--header: -i,--output-tabs? -J,--join-lines -l,--length: -m,--merge
	-n,--number-lines? -N,--first-line-number: -o,--indent: -r,--no-file-warnings -s,--separator? -S,--sep-string?
	-t,--omit-header -T,--omit-pagination -v,--show-nonprinting -w,--width: -W,--page-width:
od | full | r* | -A,--address-radix: --endian: -j,--skip-bytes: -N,--read-bytes: -S,--strings? -t,--format:
	-v,--output-duplicates -w,--width? --traditional --help --version -a -b -c -d -f -i -l -o -s -x
base64 base32 basenc | full decode | r* | -d,-D,--decode -i,--ignore-garbage -w,--wrap: --base64 --base64url --base32
	--base32hex --base16 --base2msbf --base2lsbf --z85 --help --version
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum b3sum | full nodash | r* | -a,--algorithm:
	-b,--binary -c,--check --debug -l,--length: -r -s,--sysv --tag --untagged -t,--text -z,--zero --ignore-missing
	--quiet --status --strict -w,--warn --help --version
shasum | mild nodash | r* | -a,--algorithm: -b,--binary -c,--check -t,--text -q,--quiet -s,--status -w,--warn
md5 | mild nodash | r* | -q -r -s:
stat | full names | r* | -L,--dereference -f,--file-system --cached: -c,--format: --printf: -t,--terse --help --version
du | full names numbers | R* | -0,--null -a,--all --apparent-size -B,--block-size: -b,--bytes -c,--total
	-D,--dereference-args -d,--max-depth: --files0-from:r -H -h,--human-readable --inodes -k -L,--dereference
	-l,--count-links -m -P,--no-dereference -S,--separate-dirs --si -s,--summarize -t,--threshold: --time? --time-style:
	-X,--exclude-from:r --exclude: -x,--one-file-system --help --version
df | full names | r* | -a,--all -B,--block-size: -h,--human-readable -H,--si -i,--inodes -k -l,--local --no-sync
	--output? -P,--portability --sync --total -t,--type: -T,--print-type -x,--exclude-type: -v --help --version
id | full names nodash | n* | -a -Z,--context -g,--group -G,--groups -n,--name -r,--real -u,--user -z,--zero --help
	--version
groups users | mild names nodash | n* | --help --version
who w | mild names | n* | -a,--all -b,--boot -d,--dead -H,--heading --ips -l,--login --lookup -m -p,--process -q,--count
	-r,--runlevel -s,--short -t,--time -T,-w,--mesg -u,--users -h,--no-header -f,--from -o,--old-style
nproc | full names num | - | --all --ignore: --help --version
whoami logname tty arch uptime sync | mild names nodash | - | -s,--silent,--quiet --all --ignore: -p,--pretty --since
	--help --version
uname | full names nodash | - | -a,--all -s,--kernel-name -n,--nodename -r,--kernel-release -v,--kernel-version
	-m,--machine -p,--processor -i,--hardware-platform -o,--operating-system --help --version
hostname | mild names nodash | - | -a,--alias -A,--all-fqdns -d,--domain -f,--fqdn,--long -i,--ip-address
	-I,--all-ip-addresses -s,--short -y,--yp,--nis
date | full date names nodash plus | v | -d,--date: --debug -f,--file:r -I,--iso-8601? --resolution -R,--rfc-email
	--rfc-3339: -r,--reference:r -s,--set! -u,--utc,--universal --help --version
cal ncal | mild names | v* | -1 -3 -A: -B: -y -j -m: -h
seq | names num | v* | -f,--format: -s,--separator: -w,--equal-width --help --version
sleep | mild silent | v* |
factor | mild names | v* | -h,--exponents
tsort | mild | r* |
basename | full names | v* | -a,--multiple -s,--suffix: -z,--zero --help --version
dirname | full names | v* | -z,--zero --help --version
realpath | full names nodash | r* | -e,--canonicalize-existing -m,--canonicalize-missing -L,--logical -P,--physical
	-q,--quiet --relative-to: --relative-base: -s,--strip,--no-symlinks -z,--zero --help --version
readlink | full names | r* | -f,--canonicalize -e,--canonicalize-existing -m,--canonicalize-missing -n,--no-newline
	-q,--quiet -s,--silent -v,--verbose -z,--zero --help --version
pathchk | mild names | v* | -p -P --portability
expr | mild names | v* |
numfmt | full names | v* | --debug -d,--delimiter: --field: --format: --from: --from-unit: --grouping --header?
	--invalid: --padding: --round: --suffix: --to: --to-unit: -z,--zero-terminated --help --version
shuf | full lines | r | -e,--echo -i,--input-range: -n,--head-count: -o,--output:w --random-source:r -r,--repeat
	-z,--zero-terminated --help --version
dircolors | mild names shows | r | -b,--sh,--bourne-shell -c,--csh,--c-shell -p,--print-database --print-ls-colors
yes | mild names | v* | --help --version
grep egrep fgrep | full grep lines numbers | v* | -E,--extended-regexp -F,--fixed-strings -G,--basic-regexp
	-P,--perl-regexp -e,--regexp:n -f,--file:r -i,-y,--ignore-case --no-ignore-case -w,--word-regexp -x,--line-regexp
	-z,--null-data -s,--no-messages -v,--invert-match -V,--version --help -m,--max-count: -b,--byte-offset
	-n,--line-number --line-buffered -H,--with-filename -h,--no-filename --label: -o,--only-matching -q,--quiet,--silent
	--binary-files: -a,--text -I -d,--directories: -D,--devices: -r,--recursive -R,--dereference-recursive --include:
	--exclude: --exclude-from:r --exclude-dir: -L,--files-without-match -l,--files-with-matches -c,--count
	-T,--initial-tab -Z,--null -B,--before-context: -A,--after-context: -C,--context: --group-separator:
	--no-group-separator --color? --colour? -U,--binary -u
rg | grep lines | v* | -A,--after-context: -a,--text -B,--before-context: -b,--byte-offset --binary -s,--case-sensitive
	--color: --colors: --column -C,--context: --context-separator: --no-context-separator -c,--count --count-matches
	--crlf --debug --dfa-size-limit: -E,--encoding: --engine: --field-context-separator: --field-match-separator:
	-f,--file:r --files -l,--files-with-matches --files-without-match -F,--fixed-strings -L,--follow -g,--glob:
	--glob-case-insensitive --heading --no-heading -h,--help -.,--hidden --hostname-bin:x --hyperlink-format: --iglob:
	-i,--ignore-case --ignore-file:r --ignore-file-case-insensitive --include-zero -v,--invert-match --json
	-n,--line-number -N,--no-line-number -x,--line-regexp --line-buffered -M,--max-columns: --max-columns-preview
	-m,--max-count: -d,--max-depth: --max-filesize: --mmap -U,--multiline --multiline-dotall --no-config --no-ignore
	--no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent
	--no-ignore-vcs --no-messages --no-mmap --no-unicode --no-require-git -0,--null --null-data --one-file-system
	-o,--only-matching --passthru --path-separator: -P,--pcre2 --pre:x --pre-glob: -p,--pretty -q,--quiet
	--regex-size-limit: -e,--regexp:n -r,--replace: -z,--search-zip! -S,--smart-case --sort: --sortr: --stats
	--stop-on-nonmatch --trim -t,--type: --type-add: --type-clear: --type-list -T,--type-not: -u,--unrestricted
	-V,--version --vimgrep -H,--with-filename -I,--no-filename -w,--word-regexp --no-hidden -j,--threads:
ag ack | grep lines numbers | v* | -i,--ignore-case -l,--files-with-matches -L,--files-without-matches -n,--numbers
	-v,--invert-match -w,--word-regexp -A,--after: -B,--before: -C,--context: -c,--count -o,--only-matching -Q,--literal
	-s,--case-sensitive -S,--smart-case --go --py --python --js --ruby --rust --cc --nocolor --color --nogroup --group
	--hidden -g: -G: --ignore:
fd fdfind | fd names | v R* | -H,--hidden -I,--no-ignore -u,--unrestricted -s,--case-sensitive -i,--ignore-case
	-g,--glob -F,--fixed-strings -a,--absolute-path -l,--list-details -L,--follow -p,--full-path -d,--max-depth:
	--min-depth: --exact-depth: -E,--exclude: -t,--type: -e,--extension: -S,--size: --changed-within: --changed-before:
	-0,--print0 -c,--color: -j,--threads: -1 --max-results: -q,--quiet -x,--exec! -X,--exec-batch! -C,--base-directory:
	--strip-cwd-prefix
diff | full | R R | --normal -q,--brief -s,--report-identical-files -c -C,--context: -u -U,--unified? -e,--ed -n,--rcs
	-y,--side-by-side -W,--width: --left-column --suppress-common-lines -p,--show-c-function -F,--show-function-line:
	-L,--label: -t,--expand-tabs -T,--initial-tab --tabsize: --suppress-blank-empty -l,--paginate! -r,--recursive
	--no-dereference -N,--new-file --unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case
	-x,--exclude: -X,--exclude-from:r -S,--starting-file: --from-file:r --to-file:r -i,--ignore-case
	-E,--ignore-tab-expansion -Z,--ignore-trailing-space -b,--ignore-space-change -w,--ignore-all-space
	-B,--ignore-blank-lines -I,--ignore-matching-lines: -a,--text --strip-trailing-cr -D,--ifdef: --line-format:
	--old-line-format: --new-line-format: --unchanged-line-format: --old-group-format: --new-group-format:
	--unchanged-group-format: --changed-group-format: -d,--minimal --horizon-lines: --speed-large-files --color?
	--palette: --help -v,--version
cmp | full | r r v v | -b,--print-bytes -i,--ignore-initial: -l,--verbose -n,--bytes: -s,--quiet,--silent --help
	-v,--version
diff3 | full | r r r | -A,--show-all -e,--ed -E,--show-overlap -3,--easy-only -x,--overlap-only -X -i -m,--merge
	-a,--text --strip-trailing-cr -T,--initial-tab --diff-program:x -L,--label: --help -v,--version
sdiff | full | r r | -o,--output:w -i,--ignore-case -E,--ignore-tab-expansion -Z,--ignore-trailing-space
	-b,--ignore-space-change -W,--ignore-all-space -B,--ignore-blank-lines -I,--ignore-matching-lines:
	--strip-trailing-cr -a,--text -w,--width: -l,--left-column -s,--suppress-common-lines -t,--expand-tabs --tabsize:
	-d,--minimal -H,--speed-large-files --diff-program:x --help -v,--version
colordiff | mild | R R | -u -y -r -N -w -b -q
file | full names globsafe | r* | --help -v,--version -m,--magic-file:r -z,--uncompress! -Z,--uncompress-noreport!
	-b,--brief -c,--checking-printout -e,--exclude: --exclude-quiet: -f,--files-from:r -F,--separator: -i,--mime --apple
	--extension --mime-type --mime-encoding -k,--keep-going -l,--list -L,--dereference -h,--no-dereference
	-n,--no-buffer -N,--no-pad -0,--print0 -p,--preserve-date! -P,--parameter: -r,--raw -s,--special-files
	-S,--no-sandbox! -C,--compile! -d,--debug
hexdump hd | mild | r* | -b,--one-byte-octal -c,--one-byte-char -C,--canonical -d,--two-bytes-decimal
	-o,--two-bytes-octal -x,--two-bytes-hex -L,--color? -e,--format: -f,--format-file:r -n,--length: -s,--skip:
	-v,--no-squeezing -h,--help -V,--version
xxd | hex | r w | -a -b -C -c: -E -e -g: -h -i -l: -n: -o: -p -ps -r -d -s: -u -v -plain
strings | mild | r* | -a,--all -d,--data -f,--print-file-name -n,--bytes: -t,--radix: -w -o -T,--target: -e,--encoding:
	-U,--unicode: -s,--output-separator: -h,--help -v,--version
column | full | r* | -t,--table -n,--table-name: -O,--table-order: -N,--table-columns: -l,--table-columns-limit:
	-E,--table-noextreme: -d,--table-noheadings -e,--table-header-repeat -H,--table-hide: -R,--table-right:
	-T,--table-truncate: -W,--table-wrap: -L,--keep-empty-lines -J,--json -r,--tree: -i,--tree-id: -p,--tree-parent:
	-c,--output-width: -o,--output-separator: -s,--separator: -x,--fillrows -h,--help -V,--version
rev | rev | r* | -0 --help --version
free | mild names | - | -b,--bytes --kilo --mega --giga --tera --peta -k,--kibi -m,--mebi -g,--gibi --tebi --pebi
	-h,--human --si -l,--lohi -t,--total -v,--committed -s,--seconds: -c,--count: -w,--wide --help -V,--version
ps | mild names ps nodashdash | v* | -a -A -e -f -F -l -j -N -d -u: -U: -p: -t: -C: -g: -G: -o: -O: -w -x -L -T -H -y -M
	--sort: --no-headers --headers --forest --pid: --ppid: --user: --format: --cols: --width:
pgrep pidof | mild names num | n* | -d,--delimiter: -l,--list-name -a,--list-full -v,--inverse -w,--lightweight
	-c,--count -f,--full -g,--pgroup: -G,--group: -i,--ignore-case -n,--newest -o,--oldest -P,--parent: -s,--session:
	-t,--terminal: -u,--euid: -U,--uid: -x,--exact -h,--help -V,--version -q
pstree | mild names | n* | -a -c -h -l -n -p -s -u -A -U
top htop | mild batch names | - | -b -n: -d: -p: -u: -o: -c -H -i -w: -1
pidstat | mild names | v* | -p: -r -u -d -w -t -h -H -l -s -R -v -C: -G: -T: -I
sar | mild names | v* | -A -b -B -d -F -h -H -p -q -r -R -S -t -u -v -w -W -y -z -n: -P: -I: -f:r -s: -e: -i: -j: -m:
vmstat iostat mpstat | mild names | v* | -a -d -s -S: -w -x -k -m -h -z -y -t -N -P: -c -n -u -A -I: --human --pretty
	--dec:
lsof | mild names exact | n* | -n -P -i? -nP -Pn -p: -u: -c: -t -a -l -b -w -U -d: -s? -sTCP? -sUDP? -iTCP -iUDP -F? -R
	-h -v
journalctl | full | n* | --no-pager -n,--lines? -r,--reverse -u,--unit: --user-unit: -p,--priority: -S,--since:
	-U,--until: -g,--grep: -k,--dmesg -b,--boot? -o,--output: -x,--catalog -q,--quiet --utc -a,--all -e,--pager-end
	-t,--identifier: --system --user --no-hostname --list-boots --disk-usage -N,--fields -F,--field: -f,--follow
	--no-full --no-tail -h,--help --version --vacuum-size:! --vacuum-time:! --vacuum-files:! --rotate! --flush! --sync!
	--relinquish-var! --smart-relinquish-var! --setup-keys! --update-catalog! --file:! -D,--directory:! --root:!
	--image:! -M,--machine:! --cursor-file:!
csvcut csvgrep csvlook csvstat csvsort csvjoin csvstack csvclean csvformat csvjson | mild | r* | -n,--names
	-c,--columns: -C,--not-columns: -d,--delimiter: -t,--tabs -q,--quotechar: -e,--encoding: -H,--no-header-row
	-S,--skipinitialspace -l,--linenumbers -m,--match: -r,--regex: -i,--invert-match -I,--no-inference --max-rows:
	--max-columns: --max-column-width: -f,--file:r --json --csv --count --unique --nulls --min --max --sum --mean
	--median --stdev --freq --outer --left --right -T,--out-tabs -D,--out-delimiter: -v,--verbose -h,--help --version
lscpu lsblk lsmem lspci lsusb lsmod lsns lsipc lslogins lsattr findmnt | mild names | n* | -a,--all -b,--bytes -J,--json
	-e,--extended? -p,--parse? -f -o,--output: -l,--list -n,--noheadings -t -d -x,--hex -v -i -P -u: -c: -h --help
	-V,--version -k -m -s -R
dmesg | mild names | - | -T,--ctime -t,--notime -k,--kernel -u,--userspace -l,--level: -f,--facility: -x,--decode
	-r,--raw -L,--color? -P,--nopager -e,--reltime -d,--show-delta -w,--follow -W,--follow-new --since: --until:
	--time-format: -J,--json -S,--syslog -s,--buffer-size: -h,--help -V,--version
printenv | raw printenv | v* |
getconf | mild names nodash | n* | -a -v:
getent | mild names | n* | -s,--service: -i,--no-idn
locale | mild names | n* | -a,--all-locales -m,--charmaps -c,--category-name -k,--keyword-name -v,--verbose
which whereis | mild names nodash | n* | -a,--all -b -m -s -i,--read-alias --skip-alias --skip-dot --skip-tilde
	--show-dot --show-tilde --tty-only
tree | names | R* | -a -d -l -f -x -L: -R -P: -I: --matchcase --prune --noreport --charset: --filelimit: -q -N -Q -p -u
	-g -s -h --si --du -D -F --timefmt: --inodes --device -v -t -c -U -r --dirsfirst --filesfirst --sort: -i -A -S -n -C
	-X -J -H: -T: --nolinks --gitignore --gitfile:r --infofile:r --info --fromfile --metafirst -o:w --help --version -E
	--ignore-case --hintro: --houtro:
redis-check-rdb | mild | r |
redis-check-aof | | r | --fix! --truncate-to-timestamp:!
zdiff zcmp | mild | r r | -u -q -b -w -i -y -s
dust duf | mild names | R* | -d: -n: -r -s -x -b -c -a,--all
pmap | mild names | n* | -x,--extended -X -d,--device -q,--quiet -p,--show-path -A,--range:
pwdx | mild names | n* |
dmidecode | mild names | - | -t,--type: -s,--string: -q,--quiet
zcat gzcat bzcat xzcat lzcat zstdcat lz4cat | mild lines | r* | -f,--force -q,--quiet -v,--verbose -l,--list -t,--test
zipinfo | mild names | n* | -1 -2 -s -m -l -v -h -t -T -z -M
zgrep zegrep zfgrep bzgrep xzgrep | mild grep lines | v* | -i -n -v -c -l -L -h -H -o -w -x -E -F -e:n -A: -B: -C: -m:
	-q -s
cksfv crc32 | mild nodash | r* | -q
nm | full | r* | -a,--debug-syms -A,-o,--print-file-name -B -C,--demangle? --no-demangle -D,--dynamic -e -f,--format:
	-g,--extern-only -j,--just-symbols -l,--line-numbers -n,--numeric-sort -p,--no-sort -P,--portability
	-r,--reverse-sort --plugin:! -S,--print-size -s,--print-armap --quiet --size-sort --special-syms --synthetic
	-t,--radix: --target: -u,--undefined-only -U,--defined-only -W,--no-weak -h,--help -V,--version
objdump | mild | r* | -a,--archive-headers -f,--file-headers -p,--private-headers -h,--headers -x,--all-headers
	-d,--disassemble -D,--disassemble-all -S,--source -s,--full-contents -t,--syms -T,--dynamic-syms -r,--reloc
	-R,--dynamic-reloc -C,--demangle? -l,--line-numbers -w,--wide -j,--section: -M,--disassembler-options:
	--no-show-raw-insn -m: -b:
readelf | mild | r* | -a,--all -h,--file-header -l,--program-headers,--segments -S,--section-headers,--sections -g -t
	-e,--headers -s,--syms,--symbols --dyn-syms -n,--notes -r,--relocs -u -d,--dynamic -V,--version-info -A -c -D -x:
	-p: -W,--wide -C,--demangle? -w?
size | mild | r* | -A -B -o -d -x -t --format: --radix:
jq gojq jaq | jq globsafe tame | v R* | -n,--null-input -R,--raw-input -s,--slurp -c,--compact-output -r,--raw-output
	--raw-output0 -j,--join-output -a,--ascii-output -S,--sort-keys -C,--color-output -M,--monochrome-output --tab
	--indent: --unbuffered --stream --stream-errors --seq -e,--exit-status -h,--help -V,--version --arg:2v --argjson:2v
	--slurpfile:2r --rawfile:2r --args --jsonargs -f,--from-file!
yq | yq | v R* | -P,--prettyPrint -r,--unwrapScalar -o,--output-format: -p,--input-format: -j,--tojson -n,--null-input
	-N,--no-doc -c -y -i,--inplace -s! -e,--exit-status -C,--colors -M,--no-colors -I,--indent: --arg:
xmllint | xmllint | r* | --format --noout --xpath: --nonet --version --html --huge --recover --encode: --c14n --pretty:
	-o,--output:w --schema:r --dtdvalid:r --relaxng:r
tidy | | r* | -q -e -xml -i -m! -utf8
less more most zless zmore | pager | r* | -a -A -c -e -E -f -F -g -G -i -I -J -m -M -n -N -q -Q -r -R -s -S -u -U -w -W -X -x: -z:
	-p: -h: -j: -b: -P: --no-init --quit-if-one-screen --RAW-CONTROL-CHARS -K! -o:w -O:w -k! -t! -T!
bat batcat | | r* | -p,--plain -n,--number -l,--language: -r,--line-range: --style: --color: --theme: --paging:
	-A,--show-all --wrap: --decorations: -P --tabs: -H,--highlight-line: --list-languages --list-themes
man info | manual | r* | -k -f -w
tldr cheat | net | n* |
cloc scc tokei loc | mild names | R* | --exclude-dir: --include-lang: --exclude-lang: --by-file --quiet -q --json --csv
	--not-match-d: -s,--sort: -e,--exclude: -t,--type: -i: -f,--format: --no-cocomo -w
gofmt | gofmt globsafe | R* | -d -e -l -s -r: -w -cpuprofile:w
goimports gofumpt gci | gofmt globsafe | R* | -d -e -l -w -local: -v -extra -s -lang: -modpath: -format-only -srcdir:
shellcheck | full names shows | r* | -a,--check-sourced -C,--color? -i,--include: -e,--exclude: --extended-analysis:
	-f,--format: --list-optional --norc --rcfile:r -o,--enable: -P,--source-path: -s,--shell: -S,--severity:
	-V,--version -W,--wiki-link-count: -x,--external-sources --help
shfmt | gofmt | R* | -l,--list -d,--diff -w,--write -s,--simplify -i,--indent: -ln,--language-dialect: -ci,--case-indent
	-bn,--binary-next-line -sr,--space-redirects -kp,--keep-padding -fn,--func-next-line -mn,--minify -f,--find
	-p,--posix -ln=bash
hadolint yamllint actionlint markdownlint jsonlint codespell typos | names shows | R* | -c,--config:! -f,--format: -d:
	-s,--strict --no-color -q,--quiet --failure-threshold: --ignore: --skip: -L: --list-files --ignore-words-list: -w!
	--write! --fix! -i!
ping ping6 traceroute tracepath mtr nslookup dig host drill whois | net | h* | -c: -n -4 -6 -t: -p: -w: -W: -q -i: -s:
	-x: -f! -k! -y! -r -m: -T -I:
ss netstat | mild names | v* | -t -u -l -n -p -a -r -s -4 -6 -e -o -i -x -w -m -h -A: --tcp --udp --listening --numeric
	--all
ip | ip | v* | -4 -6 -br -brief -o -j -s -c -d -details -json -oneline
ifconfig arp route | ipread | - | -a -n
last lastb | mild names numbers | n* | -n: -a -d -F -i -w -x -R -s: -p: -t:
lastlog | mild names | - | -u: -t: -b:
getfacl | mild names | R* | -a -c -e -E -s -R -L -P -t -p -n -d
blkid | mild names | r* | -o: -s: -p -i
ethtool | mild names | n | -i -S -k -g -c -a -T -m
crontab | crontab | r | -l -e! -r! -u: -i!
apropos whatis | mild names | n* | -a -e -r
lsb_release | mild names nodash | - | -a -d -i -r -c -s --all --short
openssl | raw openssl | v* |
ldd | risky-run | r* | -v -u -d -r
dpkg-query | names | n* | -l,--list -L,--listfiles -s,--status -S,--search -W,--show -f,--showformat:
rpm | rpm | n* | -q,--query -a,--all -i,--info -l,--list -f,--file --qf: --queryformat: -V -c -d -R --requires
	--provides -p
apk | pkgq | v* |
iconv | | r* | -f,--from-code: -t,--to-code: -c -l,--list -o,--output:w -s
dos2unix unix2dos | inplace | w* | -k -q -n! -i -f
uuidgen | mild names nodash | - | -r,--random -t,--time -n,--namespace: -N,--name: -m,--md5 -s,--sha1
lsattr | mild names | r* | -R -a -d -v -p
true false : | mild silent | v* |
mktemp | full mktemp names nodash | v | -d,--directory -u,--dry-run -q,--quiet --suffix: -p,--tmpdir? -t --help
	--version
tput | mild names | n* | -T: -S -x
clear reset | silent | - |
stty | names | n* | -a --all -g --save
ts pv | mild lines | r* | -s -i -r -q -m -l -p -t -e -b -n -L: -N: -W
`
