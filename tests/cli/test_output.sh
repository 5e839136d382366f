# SPDX-License-Identifier: BSD-3-Clause
# What is written where: nothing lost in silence, no bar in a pipe, colours nowhere.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random f 2000
expect 0 kedge save -s store -n job f
silent
expect 0 kedge restore -s store -n job -o back
silent
expect 0 kedge verify -s store
silent
expect 0 kedge save -s store -n job -q f
is "$(cat out err)" "" "the output of save --quiet"
expect 0 kedge restore -s store -n job -o back -q
is "$(cat out err)" "" "the output of restore --quiet"
expect 0 kedge gc -s store -n job --keep 5 -q
is "$(cat out err)" "" "the output of gc --quiet"

if [ -w /dev/full ]; then
	for line in "ls -s store" "ls -s store -n job --json" "save -s store -n job --json f" "show -s store" "verify -s store" \
		"diff -s store 1 2" "info" "info --config" "--help" "--version" "restore -s store -o back"; do
		got=0
		# shellcheck disable=SC2086
		kedge $line >/dev/full 2>err || got=$?
		is $got 5 "the exit code of 'kedge $line' on a full device"
		said "standard output"
	done
fi

# On a terminal there is a bar, and it is wiped off.
if command -v script >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	random big 4000
	script -qec 'kedge save -s store -n bar --codec zstd:9 big' /dev/null </dev/null >tty 2>&1
	grep -qF 'of 3.91 MiB' tty || fail "no progress on a terminal"
	script -qec 'kedge save -s store -n bar2 --quiet big' /dev/null </dev/null >tty 2>&1
	[ ! -s tty ] || fail "progress in spite of --quiet"
fi


# Closed streams: nothing that is printed may end up in a file of the store.
for fd in 0 1 2; do
	got=0
	case $fd in
	0) kedge save -s closed -n job f >out 2>err <&- || got=$? ;;
	1) kedge save -s closed -n job f >&- 2>err || got=$? ;;
	2) kedge save -s closed -n job f >out 2>&- || got=$? ;;
	esac
	[ $fd -ne 1 ] || is $got 5 "the exit code with standard output closed"
	expect 0 kedge verify -s closed
done

# More files than one may have open by default.
mkdir many
i=0
while [ $i -lt 150 ]; do
	echo $i >many/$i
	i=$((i + 1))
done
(ulimit -Sn 40 && kedge save -s store -n many many/* >/dev/null && kedge restore -s store -n many -o unpacked >/dev/null) ||
	fail "many files"
diff -r many unpacked/many >/dev/null || fail "the many files differ"
