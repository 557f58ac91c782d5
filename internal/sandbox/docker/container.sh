# What the harness is in a container. This stands before the common script's
# verbs: members and deliver replace its own, the rest serves docker's Go side.
#
# The harness is root without any capability but to change its user and to
# signal; commands and everything that touches their files run as user $user.
# Root cannot be signalled, traced or written to by them, and their records lie
# in a directory that only root enters. An exec is
#
#   docker-init -s             adopts whatever loses its parent
#   `- sh harness run          pumps, clock, record
#      `- sh harness command   root still: watches memory and disk
#         `- the command       user $user; cannot leave the tree above it

root=/countersign
execs=$root/execs
user=1000
TZ=UTC0
export TZ

# Exit codes of requests, as agent.go reads them.
conflict=40 nodir=41 noexec=42 denied=43

# drop runs a program as the command's user.
drop() {
	case $tool in
	setpriv) setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@" ;;
	su-exec | gosu) "$tool" "$user:$user" "$@" ;;
	su) su -s /bin/sh agent -c 'exec "$@"' sh "$@" ;;
	*) return 126 ;;
	esac
}

# findtool finds what drop can use in this image.
findtool() {
	for tool in setpriv su-exec gosu su; do
		[ "$(drop id -u 2>/dev/null)" = "$user" ] && return
	done
	tool=none
}

# parent prints the parent of process $1.
parent() {
	while read -r key value; do
		[ "$key" = PPid: ] && echo "$value" && return
	done 2>/dev/null <"/proc/$1/status"
}

# seeds prints the processes at or below which all of the command is: the one
# that adopts its orphans or, where the harness was killed, what the container's
# init has adopted. Neither file tools nor other execs are ever below that.
seeds() {
	if self=$(alive "$run/self"); then
		parent "$self"
		return
	fi
	theirs=$(grep -l "^Uid:	$user	" /proc/[0-9]*/status 2>/dev/null)
	table | while read -r pid up; do
		[ "$up" = 1 ] && case $theirs in *"/proc/$pid/status"*) echo "$pid" ;; esac
	done
}

# members prints the command's processes that live: those of its user. Who they
# are is asked after the tree was drawn, or the drawing's own would be among them.
members() {
	top=$(seeds)
	[ -n "$top" ] || return 0
	all=$(tree $top)
	theirs=$(grep -l "^Uid:	$user	" /proc/[0-9]*/status 2>/dev/null)
	dead=$(grep -l '^State:	[ZX]' /proc/[0-9]*/status 2>/dev/null)
	for pid in $all; do
		case $dead in *"/proc/$pid/status"*) continue ;; esac
		case $theirs in *"/proc/$pid/status"*) echo "$pid" ;; esac
	done
}

# deliver sends signal $1 to every process of the command.
deliver() {
	for pid in $(members); do
		kill -s "$1" "$pid" 2>/dev/null
	done
}

# mkfifo makes pipes that the command may open anew by /dev/stdout and the like.
# Their directory is closed to it.
mkfifo() {
	command mkfifo "$@" && chmod 622 "$run/o" "$run/e" && chmod 644 "$run/in"
}

# ooms prints how many processes the kernel ended for want of memory.
ooms() {
	cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null |
		while read -r key value; do
			[ "$key" = oom_kill ] && echo "$value" && break
		done
}

# watchdisk ends the command when the sandbox holds more than $1 KiB.
watchdisk() {
	trap 'kill "$clock" 2>/dev/null; exit 0' TERM
	while :; do
		sleep 5 &
		clock=$!
		wait "$clock"
		used=0
		for dir in /workspace /home/agent; do
			while read -r n _; do used=$((used + n)); done <<-EOF
				$(drop du -sxk "$dir" 2>/dev/null)
			EOF
		done
		if [ "$used" -gt "$1" ]; then
			echo "countersign: the sandbox holds $((used / 1024)) MiB; its limit is $(($1 / 1024)) MiB." >"$run/e"
			finish output_limit polite
			exit 0
		fi
	done
}

# command runs the program for the harness, which is its parent, and says on
# standard error what its exit code does not.
command_() {
	tool=$1 cwd=$2 disk=$3
	shift 3
	watcher=
	if [ "$disk" -gt 0 ]; then
		watchdisk "$disk" </dev/null >/dev/null 2>&1 &
		watcher=$!
	fi
	before=$(ooms)
	trap : HUP INT QUIT TERM PIPE USR1 USR2
	(
		# When memory is short, commands go before what watches them.
		echo 500 >/proc/self/oom_score_adj
		umask 022
		# A directory that only the user enters is entered by the user.
		drop sh -c 'cd "$1" || exit 126
shift
exec "$@"' sh "$cwd" "$@"
	)
	code=$?
	after=$(ooms)
	if [ "${after:-0}" != "${before:-0}" ]; then
		echo "countersign: the sandbox ran out of memory; the kernel ended a process in it." >&2
	fi
	[ -z "$watcher" ] || kill "$watcher"
	exit "$code"
}

# spawn runs the script with these arguments on its own. A background job would
# ignore interrupts for good, and so would the command: the parent goes instead.
spawn() {
	sh "$script" orphan "$@" </dev/null >/dev/null 2>&1
}

# --- requests: each runs in a subshell of the agent ---

use() {
	id=$1 record=$execs/$1 run=$execs/$1/run
}

begin() {
	use "$1"
	job=$2 cwd=$3 timeout=$4 blocks=$5 stdin=$6 disk=$7
	shift 7
	if [ ! -e "$record/job" ]; then
		drop test -d "$cwd" || exit "$nodir"
		mkdir -p "$record" && : >>"$record/stdout" && : >>"$record/stderr" || exit
		echo "$job" >"$record/job.$$" || exit
		ln "$record/job.$$" "$record/job" 2>/dev/null
		rm -f "$record/job.$$"
	fi
	read -r have <"$record/job" || exit
	[ "$have" = "$job" ] || [ "$have" = forbidden ] || exit "$conflict"
	if [ ! -e "$run" ]; then
		spawn "$record" shared "$timeout" "$blocks" "$stdin" "" \
			sh "$script" command "$record" "$tool" "$cwd" "$disk" "$@"
	fi
	tries=1000
	until [ -s "$run/self" ] || [ -e "$record/exit" ]; do
		[ "$tries" -gt 0 ] || exit 1
		tries=$((tries - 1))
		sleep 0.01 2>/dev/null || sleep 1
	done
	exit 0
}

# state tells how the exec stands: whether its harness lives first, for it
# writes how it ended before it goes.
state() {
	use "$1"
	[ -e "$run" ] || exit "$noexec"
	up=no
	if [ ! -s "$run/self" ]; then
		up="starting $(date +%s)"
	elif alive "$run/self" >/dev/null; then
		up=yes
	fi
	echo "up $up"
	cat "$record/exit" 2>/dev/null
	cd "$record" && stat -c '%n %s %y' run run/self exit stdout stderr 2>/dev/null
	exit 0
}

# output prints whether more may come, then up to $4 blocks from block $3 of a
# stream. With $5 the harness is looked for, too.
output() {
	use "$1"
	[ -e "$run" ] || exit "$noexec"
	more=running
	if [ -e "$record/exit" ]; then
		more=ended
	elif [ -n "$5" ] && [ -s "$run/self" ] && ! alive "$run/self" >/dev/null && [ ! -e "$record/exit" ]; then
		more=ended
	fi
	echo "$more"
	dd if="$record/$2" bs=65536 skip="$3" count="$4" 2>/dev/null
	exit 0
}

running() {
	for dir in "$execs"/*; do
		[ -e "$dir/run" ] && [ ! -e "$dir/exit" ] || continue
		if [ ! -s "$dir/run/self" ] || alive "$dir/run/self" >/dev/null; then
			echo "${dir##*/}"
		fi
	done
	exit 0
}

# send signals. An exec that is stopped before it was started never starts.
send() {
	use "$1"
	case $2 in
	stop | KILL)
		if [ ! -e "$run" ] && mkdir -p "$record" && mkdir "$run" 2>/dev/null; then
			: >>"$record/stdout" && : >>"$record/stderr" && echo forbidden >"$run/job" || exit
			ln "$run/job" "$record/job" 2>/dev/null
			end 0 cancelled
		elif [ ! -e "$record/exit" ]; then
			(sh "$script" signal "$record" "$2" </dev/null >/dev/null 2>&1 &)
		fi
		exit
		;;
	esac
	[ -e "$run" ] || exit "$noexec"
	[ ! -e "$record/exit" ] || exit 0
	if [ "$2" = STOP ]; then
		freeze
		exit
	fi
	deliver "$2"
	exit 0
}

# end records how an exec ended that has no harness to do so.
end() {
	printf 'code %s\nreason %s\n' "$1" "$2" >"$run/exit" && mv -f "$run/exit" "$record/exit"
}

# settle records the end of an exec whose container was killed to end it.
settle() {
	use "$1"
	[ -e "$run" ] && [ ! -e "$record/exit" ] || exit 0
	alive "$run/self" >/dev/null && exit 0
	end 137 "$2"
	exit
}

# input tells whether the exec takes standard input, and whether it does yet.
input() {
	use "$1"
	[ -e "$run" ] || exit "$noexec"
	read -r job <"$record/job"
	case $job in
	*' stdin') [ -e "$run/holder" ] && echo ready || echo wait ;;
	*) echo none ;;
	esac
	exit 0
}

closeinput() {
	use "$1"
	if holder=$(alive "$run/holder"); then
		kill "$holder"
	fi
	exit 0
}

# look follows names below $1 up to the first that is a link or not there. It
# runs as the command's user, as do the next two.
look() {
	drop sh -c '
at=$1 n=0
shift
for name; do
	if [ "$name" = .. ]; then
		at=${at%/*}
	elif [ -d "$at" ] && [ ! -x "$at" ]; then
		echo "denied $n"
		exit
	elif [ -L "$at/$name" ]; then
		echo "link $n"
		exec readlink "$at/$name"
	elif [ ! -e "$at/$name" ]; then
		echo "absent $n"
		exit
	else
		at=$at/$name
	fi
	n=$((n + 1))
done
echo "there $n"
exec stat -c "%f %s %y" "$at"' look "$@"
	exit
}

names() {
	drop sh -c '
cd "$1" 2>/dev/null || exit 0
for name in * .[!.]* ..?*; do
	if [ -e "$name" ] || [ -L "$name" ]; then printf "%s\000" "$name"; fi
done' names "$1"
	exit
}

content() {
	drop sh -c '[ -f "$1" ] || exit 43; exec head -c "$2" <"$1"' content "$1" "$2"
	exit
}

digest() {
	drop sh -c '[ -f "$1" ] || exit 43; exec sha256sum <"$1"' digest "$1"
	exit
}

# stamps prints when each entry of the workspace was changed, where find can.
stamps() {
	drop find /workspace -mindepth 1 -printf '%T@ %P\0' 2>/dev/null
	exit 0
}

# link makes a link that the engine does not unpack, and leaves its directory
# as it was: name, target, time, and the directory's name, mode and time.
link() {
	drop sh -c '
at() { touch -h -d "$1" -- "$2" || touch -h -d "${1%.*}" -- "$2"; }
cd /workspace && chmod u+rwx -- "$4" && ln -s -- "$2" "$1" || exit
at "$3" "$1"
[ "$4" = . ] || { chmod "$5" -- "$4"; at "$6" "$4"; }
exit 0' link "$@" 2>/dev/null
	exit
}

hello() {
	mkdir -p "$execs"
	[ -z "$1" ] || : >"$root/named"
	shell=sh
	! command -v bash >/dev/null || shell=bash
	named=no
	[ ! -e "$root/named" ] || named=yes
	echo "$tool $shell $named"
	exit 0
}

# agent answers requests, one at a time, until nobody is there to make any. A
# request is two lines: a word that marks the end of its answer, and shell code.
agent() {
	script=$root/harness-$1.sh
	if [ ! -e "$script" ]; then
		printf '%s\n' "$text" >"$script.$$" && mv -f "$script.$$" "$script" || exit
	fi
	findtool
	while IFS= read -r mark && IFS= read -r request; do
		(eval "$request") </dev/null
		printf '\n%s %s\n' "$mark" "$?"
	done
	exit 0
}

case ${1:-} in
agent)
	shift
	agent "$@"
	;;
orphan)
	shift
	script=$0
	sh "$script" orphaned $$ "$@"
	exit
	;;
orphaned)
	kill -s KILL "$2"
	shift 2
	exec /sbin/docker-init -s -- sh "$0" run "$@"
	;;
command)
	script=$0
	use "${2##*/}"
	shift 2
	command_ "$@"
	;;
esac
