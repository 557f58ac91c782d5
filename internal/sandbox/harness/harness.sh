#!/bin/sh
# Runs one command at most once and keeps its record, with nobody watching.
# What each file of a record means stands in harness.go.
#
#   harness shared RECORD TIMEOUT BLOCKS STDIN CWD PROGRAM [ARG...]
#   harness own RECORD TIMEOUT BLOCKS STDIN CWD PROGRAM [ARG...]
#   harness signal RECORD stop|KILL|INT|TERM|STOP|CONT
#   harness feed RECORD KEY
#
# POSIX sh, with cat, grep, mkfifo, rm, sleep and, where there is no /proc, ps.
# setsid is used where it exists. A process costs about a millisecond, so "own",
# which needs no list of processes to end them all, makes few.
set -u
umask 077
ulimit -c 0
LC_ALL=C
export LC_ALL

proc=
[ -r /proc/self/stat ] && proc=1

# nap waits a tenth of a second, or a whole one where sleep knows only those.
nap() { sleep 0.1 2>/dev/null || sleep 1; }

# identity prints a line that names process $1 for as long as the system is up.
identity() {
	if [ -n "$proc" ]; then
		IFS= read -r line 2>/dev/null <"/proc/$1/stat" && echo "$line"
	else
		kill -0 "$1" 2>/dev/null && echo "$1 (-) $(ps -o lstart= -p "$1" 2>/dev/null)"
	fi
}

# started prints what of an identity line never changes: pid and start time.
started() {
	[ -n "$1" ] || return 1
	if [ -n "$proc" ]; then
		pid=${1%% *}
		# The name in parentheses may hold anything; the start time is field 22.
		set -- ${1##*) }
		echo "$pid ${20:-}"
	else
		echo "$1"
	fi
}

# alive prints the pid that file $1 names, if that process still runs.
alive() {
	IFS= read -r was 2>/dev/null <"$1" || return 1
	pid=${was%% *}
	is=$(identity "$pid")
	case ${is##*) } in [ZX]*) return 1 ;; esac # it has ended and waits to be noticed
	[ "$(started "$was")" = "$(started "$is")" ] || return 1
	echo "$pid"
}

# table prints "pid parent" of every process.
table() {
	if [ -z "$proc" ]; then
		ps -A -o pid= -o ppid=
		return
	fi
	grep -H '^PPid:' /proc/[0-9]*/status 2>/dev/null |
		while IFS='/:	' read -r _ _ pid _ _ parent; do echo "$pid $parent"; done
}

# tree prints the given processes and all their descendants, parents before children:
# they are given in any order, and numbers begin anew.
tree() {
	processes=$(table)
	given=" $* "
	found=" "
	while read -r pid parent; do
		case $given in *" $pid "*) ;; *) continue ;; esac
		case $given in *" $parent "*) ;; *) found="$found$pid " ;; esac
	done <<-EOF
		$processes
	EOF
	grow
	# One whose parent has ended while they were listed.
	for pid; do
		case $found in *" $pid "*) ;; *) found="$found$pid " ;; esac
	done
	grow
	echo $found
}

# grow adds the descendants of those that were found.
grow() {
	grown=1
	while [ -n "$grown" ]; do
		grown=
		while read -r pid parent; do
			case $found in *" $pid "*) continue ;; esac
			case $found in *" $parent "*) found="$found$pid " grown=1 ;; esac
		done <<-EOF
			$processes
		EOF
	done
}

# members prints the processes of the command. With a process namespace of its
# own these are the descendants of the namespace's init; without one they are
# the command's descendants and whoever carries its mark.
members() {
	if [ -s "$run/init" ]; then
		init=$(alive "$run/init") || return 0
		for pid in $(tree "$init"); do
			[ "$pid" = "$init" ] || echo "$pid"
		done
		return 0
	fi
	[ -e "$run/own" ] && return 0 # not known yet
	main=$(alive "$run/main")
	marked=$(marked)
	[ -z "$main$marked" ] || tree $main $marked
}

# marked prints the processes that carry the command's mark.
marked() {
	[ -n "$proc" ] || return 0
	grep -lF "COUNTERSIGN_EXEC=$record;" /proc/[0-9]*/environ 2>/dev/null |
		while IFS=/ read -r _ _ pid _; do echo "$pid"; done
}

# ordered prints processes, parents first, in the order in which they get signal
# $1: a shell with jobs must not see one of them halted when it goes on itself.
ordered() {
	sig=$1
	shift
	if [ "$sig" != CONT ]; then
		echo "$@"
		return
	fi
	back=
	for pid; do back="$pid $back"; done
	echo "$back"
}

# halted waits, not for long, until process $1 has come to a halt: one that waits
# for others must not see them halt before.
halted() {
	looks=100
	while [ "$looks" -gt 0 ] && IFS= read -r line 2>/dev/null <"/proc/$1/stat"; do
		case ${line##*) } in [TtZX]*) return ;; esac
		looks=$((looks - 1))
	done
}

# deliver sends signal $1 to every process of the command.
deliver() {
	if [ -e "$run/own" ] && [ ! -s "$run/init" ]; then
		return # not known yet; whoever must succeed tries again
	fi
	if [ "$1" = KILL ] && init=$(alive "$run/init"); then
		kill -s KILL "$init" 2>/dev/null # takes its whole namespace along
		return
	fi
	[ "$1" = CONT ] || grouped "$1"
	for pid in $(ordered "$1" $(members)); do
		kill -s "$1" "$pid" 2>/dev/null
	done
	# A shell with jobs leads its group, and must not go on before them.
	[ "$1" != CONT ] || grouped CONT
}

# grouped delivers signal $1 to the command's group, which catches what has lost both
# its parent and its mark; an interrupt reaches nobody twice.
grouped() {
	if [ "$1" != INT ] && [ -e "$run/group" ] && IFS= read -r was 2>/dev/null <"$run/main"; then
		kill -s "$1" -- "-${was%% *}" 2>/dev/null
	fi
}

# sweep ends the command's group and sees it go, as far as it does. It makes no process:
# the command may have left room for none, and then a list of processes is not to be had.
sweep() {
	[ -e "$run/group" ] && IFS= read -r was 2>/dev/null <"$run/main" || return 0
	looks=20000
	while [ "$looks" -gt 0 ] && kill -s KILL -- "-${was%% *}" 2>/dev/null; do
		looks=$((looks - 1))
	done
}

# crowded tells, without making a process, that there is hardly room for one, where
# that can be known; relieve then ends the command, without making one either.
crowded() { return 1; }
relieve() { :; }

# freeze halts every process of the command, and those that they were just
# about to start, and returns when none moves.
freeze() {
	tries=30
	still=
	while [ "$tries" -gt 0 ]; do
		tries=$((tries - 1))
		if [ -e "$run/own" ] && [ ! -s "$run/init" ] && [ ! -e "$run/done" ]; then
			nap
			continue
		fi
		moving=
		for pid in $(members); do
			IFS= read -r line 2>/dev/null <"/proc/$pid/stat" || [ -z "$proc" ] || continue
			line=${line##*) }
			case $line in
			[TtZX]*) ;;
			*)
				moving=1
				kill -s STOP "$pid" 2>/dev/null
				halted "$pid"
				;;
			esac
		done
		if [ -z "$moving" ]; then
			# Looked at twice: a list may be older than a child.
			[ -z "$still" ] || return 0
			still=1
			continue
		fi
		still=
		[ -n "$proc" ] || [ "$tries" -gt 27 ] || return 0 # where states are not seen
		[ "$tries" -gt 20 ] || nap
	done
	return 1
}

# uproot ends what this process has started where the record is gone, and with it
# what names the command's processes.
uproot() {
	IFS= read -r me 2>/dev/null </proc/self/stat || me=
	others=
	for pid in $(tree $$ $(marked)); do
		case $pid in "$$" | "${me%% *}") ;; *) others="$others $pid" ;; esac
	done
	# At once: the first to end may be what makes somebody end this one.
	[ -z "$others" ] || kill -s KILL $others 2>/dev/null
}

# over tells whether the command itself has ended.
over() {
	[ -e "$run/done" ] || [ ! -d "$run" ] && return 0
	[ -s "$run/self" ] && [ -z "$(alive "$run/self")" ] && [ -z "$(members)" ]
}

# finish ends the command for reason $1 (the first one given stays): politely
# for a second, then at once. Without $2 it is not polite.
finish() {
	if [ ! -d "$run" ]; then
		uproot
		return
	fi
	crowded || { over && return; }
	set -C
	{ echo "$1" >"$run/reason"; } 2>/dev/null
	set +C
	relieve
	if [ -n "${2:-}" ]; then
		deliver TERM
		deliver CONT
		tries=10
		while [ "$tries" -gt 0 ] && ! over; do
			nap
			tries=$((tries - 1))
		done
	fi
	tries=100
	while [ "$tries" -gt 0 ] && ! over; do
		deliver KILL
		nap
		tries=$((tries - 1))
	done
	[ -d "$run" ] || uproot
}

# watch ends the command after $1 seconds.
watch() {
	clock=
	trap 'kill "$clock" 2>/dev/null; exit 0' TERM
	[ -e "$run/done" ] && exit 0 # the signal may have come before the trap
	sleep "$1" &
	clock=$!
	wait "$clock" || {
		# A sleep that knows only whole seconds has refused a fraction.
		sleep "$((${1%.*} + 1))" &
		clock=$!
		wait "$clock"
	}
	finish timed_out polite
}

# join makes this process a member of the command's control groups, if it has any.
# What they bound is the command, never what watches it.
join() {
	[ -n "${COUNTERSIGN_GROUPS-}" ] || return 0
	IFS=:
	for group in $COUNTERSIGN_GROUPS; do
		echo 0 2>/dev/null >"$group/cgroup.procs" || {
			echo "countersign: the sandbox's limits could not be set." >&2
			exit 126
		}
	done
	unset IFS
}

# killed sets $killed to how many processes of the sandbox the kernel has ended for
# want of memory.
killed() {
	killed=
	[ -n "${COUNTERSIGN_OOMS-}" ] || return 0
	while read -r key value; do
		[ "$key" != oom_kill ] || killed=$value
	done 2>/dev/null <"$COUNTERSIGN_OOMS"
}

# short says on standard error that memory was short, where $1 were killed before.
short() {
	killed
	[ "$killed" = "$1" ] || echo "countersign: the sandbox ran out of memory; the kernel ended a process in it." >&2
}

# limited copies its input to file $1, up to the limit that ends the command.
# The command never holds the file itself: it could truncate it. Whoever calls
# keeps the input open until the reason is written: without a reader the command
# would end by itself, before it is known why.
limited() {
	ulimit -f "$blocks"
	exec cat >"$1"
}

# copied says why a copy ended early, by its exit code.
copied() {
	case $1 in
	0) ;;
	153) finish output_limit ;; # SIGXFSZ
	*) finish output_lost ;;
	esac
}

# pump copies pipe $1 to file $2, until it is told to end.
pump() {
	exec 3<"$1"
	trap 'kill "$copy" 2>/dev/null; exit 0' TERM
	limited "$2" <&3 3<&- &
	copy=$!
	wait "$copy"
	copied "$?"
}

# keep copies its input to file $1.
keep() {
	(limited "$1")
	copied "$?"
}

# status reads what bubblewrap reports: the init of its namespace, then the
# command's exit code.
status() {
	IFS= read -r line || return 0
	pid=${line#*\"child-pid\": }
	identity "${pid%%[!0-9]*}" >"$run/init"
	while IFS= read -r line; do
		case $line in *'"exit-code": '*)
			code=${line#*\"exit-code\": }
			coded "${code%%[!0-9]*}"
			;;
		esac
	done
}

# reserve makes the files that how the exec ends is written to, so that it can be
# where the command has filled the disk: what is written over takes no room. Whoever
# made the record may have done so, who can say that there is none.
reserve() {
	[ -s "$run/code" ] || echo '126   ' >"$run/code"
	[ -s "$run/room" ] || printf '%80s\n' '' >"$run/room"
}

# coded writes down exit code $1.
coded() { echo "$1 " 1<>"$run/code"; } 2>/dev/null

# reasoned sets $reason to why the command was ended, if it was. One that could not be
# written down is that the disk is full.
reasoned() {
	[ -e "$run/reason" ] || return 1
	reason=
	read -r reason <"$run/reason"
	reason=${reason:-output_lost}
}

# record writes how the exec ended, until the disk takes it: without this record
# its outcome would be unknown. It is one write, and its last line is whole or
# the record does not count.
record() {
	tries=600
	until printf 'code %s\nreason %s\n' "$1" "$2" >"$record/exit" ||
		{ printf 'code %s\nreason %s\n' "$1" "$2" 1<>"$run/room" && mv -f "$run/room" "$record/exit"; }; do
		# A sandbox that was destroyed needs no record.
		[ "$tries" -gt 0 ] && [ -d "$run" ] || exit 1
		tries=$((tries - 1))
		sleep 1
	done 2>/dev/null
	[ "$kept" = 0 ] || rm -f "$run/o" "$run/e" "$run/in"
	exit 0
}

# take takes the lock, for this process and for good, or ends it.
take() {
	set -C
	if ! { true >"$run/lock"; } 2>/dev/null; then
		[ -e "$run/lock" ] # then somebody has started it
		exit
	fi
	set +C
	identity "$$" >"$run/self"
	reserve
	# A caught signal is reset in children, an ignored one would stay ignored.
	trap : HUP INT QUIT TERM PIPE USR1 USR2
}

# provide opens the command's standard input as 7. Where it is a pipe, somebody
# holds it open until told.
provide() {
	holder=
	if [ "$1" != 1 ]; then
		exec 7</dev/null
		return
	fi
	exec 8<>"$run/in"
	sleep 2147483647 9>&8 8>&- &
	holder=$!
	exec 7<"$run/in" 8>&-
	identity "$holder" >"$run/holder"
}

# feed sends what is under key $1 to the command, once, whoever asks how often.
# It waits for as long as the command takes to read it.
feed() {
	sent=$run/sent/$1
	(set -C && identity "$$" >"$sent/self") 2>/dev/null || return 0
	case $(cat "$sent/what") in
	*interrupt*) deliver INT ;;
	esac
	code=0
	if [ -s "$sent/text" ]; then
		# Opened for reading first: that never blocks, and a pipe whose other readers
		# have gone then says so.
		([ -p "$run/in" ] && exec 6<>"$run/in" 7>"$run/in" 6>&- && exec cat "$sent/text" >&7 2>/dev/null)
		code=$?
	fi
	case $(cat "$sent/what") in
	*eof*) if holder=$(alive "$run/holder"); then kill "$holder"; fi ;;
	esac
	echo "$code" >"$sent/done"
}

# enter becomes the command, in a session of its own.
enter='
umask 022
run=$1 cwd=$2
shift 2
{ IFS= read -r me </proc/self/stat; } 2>/dev/null || me="$$ (-) $(ps -o lstart= -p $$)"
echo "$me" >"$run/main"
if [ -n "$cwd" ] && ! cd "$cwd"; then
	echo failed >"$run/reason"
	exit 126
fi
exec "$@"'

# shared runs a program that has no process namespace of its own.
shared() {
	timeout=$1 blocks=$2 stdin=$3 cwd=$4
	shift 4
	take
	kept=1
	mkfifo "$run/o" "$run/e" "$run/in" || record 126 failed
	pump "$run/o" "$record/stdout" &
	out=$!
	pump "$run/e" "$record/stderr" &
	err=$!
	watch "$timeout" &
	watch=$!
	provide "$stdin"
	session=
	if command -v setsid >/dev/null 2>&1; then
		session=setsid
		: >"$run/group"
	fi

	# In the foreground: a background job of a shell without job control would
	# ignore interrupts for good.
	killed
	before=$killed
	{
		(join && exec $session sh -c "$enter" enter "$run" "$cwd" "$@")
		code=$?
		short "$before"
	} <&7 >"$run/o" 2>"$run/e" 7<&-
	exec 7<&-
	true 2>/dev/null >"$run/done"

	# What the command left in the background ends with it.
	tries=20
	sweep
	relieve
	deliver KILL
	while [ "$tries" -gt 0 ] && [ -n "$(members)" ]; do
		deliver KILL
		nap
		tries=$((tries - 1))
	done
	# Something may have escaped with a pipe in its hands: not waited for.
	(nap && nap && nap && nap && nap && kill "$out" "$err") 2>/dev/null &
	guard=$!
	wait "$out" "$err"
	kill -s KILL "$guard" 2>/dev/null
	kill $watch $holder 2>/dev/null

	reasoned || reason=exited
	record "$code" "$reason"
}

# enclosed runs the program and ends its namespace with it: the namespace's init
# stays for what the command left in the background, or where the program was
# killed that watches it.
enclosed() {
	umask 022
	killed
	before=$killed
	(join && exec "$@")
	code=$?
	short "$before"
	if IFS= read -r was 2>/dev/null <"$run/init" && IFS= read -r is 2>/dev/null <"/proc/${was%% *}/stat"; then
		# Mostly it is just about to end by itself, so no process is spent on it.
		init=${was%% *}
		set -- ${was##*) }
		was=${20:-}
		set -- ${is##*) }
		[ "$was" != "${20:-}" ] || kill -s KILL "$init" 2>/dev/null
	fi
	[ "$code" -lt 128 ] || coded "$code"
	true 2>/dev/null >"$run/done"
}

# own runs a program that makes a process namespace of its own and reports on
# file descriptor 9.
own() {
	timeout=$1 blocks=$2 stdin=$3
	shift 4
	take
	: >"$run/own"
	watch "$timeout" &
	watch=$!
	kept=$stdin
	if [ "$stdin" = 1 ]; then
		mkfifo "$run/in" || record 126 failed
	fi
	provide "$stdin"
	exec 8>/dev/null
	inside "$@"
	ended
}

# inside runs the program between its pipes, which have no names: 4 is its output,
# 5 its errors.
inside() {
	{
		{
			enclosed "$@" <&7 9>&1 >&4 2>&5 4>&8 8>"$run/begun" 5>&- 7<&- |
				status 4>&- 5>&- 7<&- 8>&-
		} 5>&1 | keep "$record/stderr" 4>&- 7<&- 8>&-
	} 4>&1 | keep "$record/stdout" 7<&- 8>&-
	exec 7<&-
	# Its directory may be gone; ":" would end this shell then.
	true 2>/dev/null >"$run/done"
}

# ended records how the program between the pipes ended.
ended() {
	kill $watch $holder 2>/dev/null
	code=126 reason=exited
	[ -e "$run/code" ] && read -r code <"$run/code"
	code=${code:-126}
	if ! reasoned && [ ! -s "$run/begun" ]; then
		reason=failed # bubblewrap could not set the sandbox up
	fi
	record "$code" "$reason"
}

verb=$1 record=$2
shift 2
run=$record/run
case $verb in
shared)
	cd /
	shared "$@"
	;;
own)
	cd /
	own "$@"
	;;
signal)
	[ -e "$record/exit" ] && exit 0
	case $1 in
	stop) finish cancelled polite ;;
	KILL) finish cancelled ;;
	STOP) freeze || exit 1 ;;
	*) deliver "$1" ;;
	esac
	;;
feed) feed "$1" ;;
*) exit 2 ;;
esac
exit 0
