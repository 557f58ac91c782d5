package policy

// writeTable holds programs that change files; where they do decides the tier.
const writeTable = `
tee | full tee globsafe | w* | -a,--append -i,--ignore-interrupts -p --output-error? --help --version
touch | full silent globsafe | w* | -a -c,--no-create -d,--date: -f -h,--no-dereference -m -r,--reference:r -t: --time:
	--help --version
mkdir | full silent globsafe | w* | -m,--mode: -p,--parents -v,--verbose -Z --context? --help --version
mkfifo | full silent | w* | -m,--mode: -Z --help --version
truncate | full silent globsafe | w* | -c,--no-create -o,--io-blocks -r,--reference:r -s,--size: --help --version
cp | full cp globsafe silent | v* | -a,--archive --attributes-only --backup? -b --copy-contents -d -f,--force
	-i,--interactive -H -l,--link -L,--dereference -n,--no-clobber -P,--no-dereference -p --preserve? --no-preserve:
	--parents -R,-r,--recursive --reflink? --remove-destination --sparse: --strip-trailing-slashes -s,--symbolic-link
	-S,--suffix: -t,--target-directory: -T,--no-target-directory -u,--update? -v,--verbose -x,--one-file-system -Z
	--context? --debug --help --version
mv | full mv globsafe silent | v* | --backup? -b -f,--force -i,--interactive -n,--no-clobber --strip-trailing-slashes
	-S,--suffix: -t,--target-directory: -T,--no-target-directory -u,--update? -v,--verbose -Z,--context --no-copy
	--exchange --debug --help --version
install | full install globsafe silent | v* | --backup? -b -c -C,--compare -d,--directory -D -g,--group: -m,--mode:
	-o,--owner: -p,--preserve-timestamps -s,--strip --strip-program:x -S,--suffix: -t,--target-directory:
	-T,--no-target-directory -v,--verbose --preserve-context -Z --context? --help --version
ln link | full ln silent | v* | --backup? -b -d,-F,--directory -f,--force -i,--interactive -L,--logical
	-n,--no-dereference -P,--physical -r,--relative -s,--symbolic -S,--suffix: -t,--target-directory:
	-T,--no-target-directory -v,--verbose --help --version
rm | full rm silent | v* | -f,--force -i -I --interactive? --one-file-system --no-preserve-root --preserve-root?
	-r,-R,--recursive -d,--dir -v,--verbose --help --version
rmdir unlink shred srm trash trash-put gio | delete silent | v* | -p,--parents -v,--verbose --ignore-fail-on-non-empty
	-u -z -n: -f,--force -s: -x --help
chmod | raw chmod silent | v* |
chown chgrp chattr setfacl chcon | owner silent | v* | -c,--changes -f,--silent,--quiet -v,--verbose --dereference
	-h,--no-dereference --from: --no-preserve-root --preserve-root --reference:r -R,--recursive -H -L -P -m: -x: -b -k
split | full split | r v | -a,--suffix-length: --additional-suffix: -b,--bytes: -C,--line-bytes: -d --numeric-suffixes?
	-x --hex-suffixes? -e,--elide-empty-files --filter:x -l,--lines: -n,--number: -t,--separator: -u,--unbuffered
	--verbose --help --version
csplit | full csplit | r v* | -b,--suffix-format: -f,--prefix:w -k,--keep-files --suppress-matched -n,--digits:
	-s,--quiet,--silent -z,--elide-empty-files --help --version
patch | patch | r r | -p,--strip: -i,--input:r -R,--reverse -N,--forward -s,--silent,--quiet --dry-run
	-E,--remove-empty-files -u,--unified -c,--context -n,--normal --verbose -t,--batch -f,--force -l,--ignore-whitespace
	-F,--fuzz: -b,--backup -z,--suffix: -V: -d,--directory! -o,--output:w -r,--reject-file:w -e! --ed! -B! -Y!
dd | raw dd | v* |
gzip gunzip pigz unpigz bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 compress uncompress brotli | pack globsafe |
	r* | -c,--stdout,--to-stdout -d,--decompress,--uncompress -f,--force -k,--keep -l,--list -n,--no-name -N,--name
	-q,--quiet -r,--recursive! --rsyncable -S,--suffix: -t,--test -v,--verbose -V,--version -1,--fast -2 -3 -4 -5 -6 -7
	-8 -9,--best -0 -e,--extreme -T,--threads: -z,--compress -h,--help -o:w --rm! -19 --ultra --long?
tar bsdtar gtar | raw tar | v* |
zip | zip | v* | -r,--recurse-paths -q,--quiet -v,--verbose -j,--junk-paths -9 -0 -1 -6 -u,--update -x,--exclude: -i:
	-y,--symlinks -D -X -d! -m! -T! -TT! --unzip-command:x -O:w --out:w -b! -@! -e! -P! -l -s! -f
unzip | unzip | v v* | -l -t -v -Z -p -c -q -qq -n -o -j -d: -x: -a -C -L -X! -K! -:!
7z 7za 7zr | raw sevenzip | v* |
ar | raw ar | v* |
cpio | raw cpio | v* |
pax | risky-run | v* |
objcopy strip ranlib | objwrite | v* | -s,--strip-all -g,--strip-debug -o:w -x -S -d --strip-unneeded -O: -j: -I: -B:
sed gsed | raw sed | v* |
awk gawk mawk nawk original-awk | raw awk | v* |
find gfind | raw find | v* |
prettier | build | v* | -w,--write -c,--check -l,--list-different --loglevel: --log-level: --no-config --parser:
	--ignore-path: --cache -u,--ignore-unknown --tab-width: --single-quote --no-semi
`
