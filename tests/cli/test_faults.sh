# SPDX-License-Identifier: BSD-3-Clause
# Calls that fail, memory that runs out, processes that die: a code that says so, and a store that is still good.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random f 60 1
random g 60 2
expect 0 kedge save -s base -n job --reduce basic f g
flip f 1000
expect 0 kedge save -s base -n job --reduce basic f g
flip g 2000
expect 0 kedge save -s base -n job --reduce basic f g
rm -rf want && expect 0 kedge restore -s base -n job -o want
random g 60 3

# intact STORE: all that was there before is there, and nothing else.
intact()
{
	kedge verify -s "$1" -q >out 2>err || fail "$2: the store is damaged: $(cat out err)"
	rm -rf got
	kedge restore -s "$1" -n job -v 3 -o got -q || fail "$2: version 3 cannot be restored"
	diff -r want got >/dev/null || fail "$2: version 3 is not what it was"
}

# A call that fails at every place in turn, until none is left to fail.
for action in eio enospc; do
	n=1
	while :; do
		rm -rf store && cp -r base store
		got=0
		KEDGE_FAULT=$action@$n+ kedge save -s store -n job --codec none f g >out 2>err || got=$?
		[ $got -eq 0 ] && break
		is $got 5 "the exit code of save with $action@$n"
		grep -q '^kedge save: ' err || fail "no message with $action@$n"
		intact store "$action@$n"
		n=$((n + $(every 1 4)))
		[ $n -lt 200 ] || fail "save never succeeds"
	done
	[ $n -gt 5 ] || fail "only $n calls"
done

# Restore: the files that were there stay as they were, and no temporary ones are left.
mkdir there && echo old >there/f && echo old >there/g
n=1
while :; do
	rm -rf back && cp -r there back
	got=0
	KEDGE_FAULT=eio@$n kedge restore -s base -n job -v 3 -o back >out 2>err || got=$?
	[ $got -eq 0 ] && break
	is $got 5 "the exit code of restore with eio@$n"
	[ -z "$(find back -name '*.tmp')" ] || fail "temporary files after eio@$n"
	for file in f g; do
		cmp -s back/$file there/$file || cmp -s back/$file want/$file || fail "a half-written $file after eio@$n"
	done
	n=$((n + $(every 1 3)))
	[ $n -lt 100 ] || fail "restore never succeeds"
done

# Coalescing, killed at every call.
n=1
while :; do
	rm -rf store && cp -r base store
	got=0
	KEDGE_FAULT=kill@$n kedge coalesce -s store -n job --self-contained >out 2>err || got=$?
	kedge gc -s store -n job --keep 9 -q || fail "gc after kill@$n"
	[ -z "$(find store -name '*.tmp')" ] || fail "leftovers after kill@$n"
	intact store "coalesce, kill@$n"
	[ $got -eq 0 ] && break
	n=$((n + $(every 1 4)))
	[ $n -lt 100 ] || fail "coalesce never succeeds"
done
[ $n -gt 5 ] || fail "only $n calls"

# A version in the middle that is removed, and one that gets a label, killed at every call.
for command in "rm 2" "tag -v 3 good"; do
	n=1
	while :; do
		rm -rf store && cp -r base store
		got=0
		KEDGE_FAULT=kill@$n kedge ${command%% *} -s store -n job ${command#* } >out 2>err || got=$?
		kedge gc -s store -n job --keep 9 -q || fail "gc after kill@$n: $command"
		[ -z "$(find store -name '*.tmp')" ] || fail "leftovers after kill@$n: $command"
		intact store "$command, kill@$n"
		kedge ls -s store -n job -q >out
		case $(tr '\n' ' ' <out) in
		"1 2 3 ") ;;
		"1 3 ") [ "$command" = "rm 2" ] || fail "version 2 is gone: $command, kill@$n" ;;
		*) fail "versions $(cat out) after kill@$n: $command" ;;
		esac
		[ $got -eq 0 ] && break
		n=$((n + $(every 1 4)))
		[ $n -lt 100 ] || fail "$command never succeeds"
	done
	[ $n -gt 3 ] || fail "only $n calls: $command"
done

# Every allocation in turn: an exit code, never a signal.
try()
{
	n=1
	while :; do
		rm -rf back
		got=0
		KEDGE_FAULT=alloc@$n kedge "$@" >out 2>err || got=$?
		[ $got -eq 0 ] && break
		[ $got -ge 1 ] && [ $got -le 7 ] || fail "exit code $got of alloc@$n: kedge $*: $(cat err)"
		[ -s err ] || fail "no message of alloc@$n: kedge $*"
		n=$((n + STEP))
		[ $n -lt 3000 ] || fail "never succeeds: kedge $*"
	done
}
STEP=$(every 1 7)
try ls -s base
try ls -s base -n job --json
try log -s base -n job
STEP=$(every 3 23)
try show -s base -n job --extents --blocks
try restore -s base -n job -v 3 -o back
STEP=$(every 5 37)
try diff -s base -n job 1 3 --svg back.svg
try verify -s base
