#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run a test script in an empty directory of its own, which is removed afterwards, with the built command first on PATH.
# One that has not ended after $TEST_SECONDS (if set) is ended, with all that it has started, after a word on what it waits for.
# Usage: with-env.sh SCRIPT [ARG...]
set -eu

script=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/kedge-test.XXXXXX")
watchdog=
trap '[ -z "$watchdog" ] || kill $watchdog 2>/dev/null || :; chmod -R u+w "$work" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Settings of the person who runs the tests are not part of them.
for name in $(env | sed -n 's/^\(KEDGE_[A-Z0-9_]*\)=.*/\1/p'); do
	case $name in
	KEDGE_BIN | KEDGE_SOURCE) ;;
	*) unset "$name" ;;
	esac
done
XDG_CONFIG_HOME=$work/no-config
export XDG_CONFIG_HOME
if [ -n "${KEDGE_BIN:-}" ]; then
	PATH=$(dirname "$KEDGE_BIN"):$PATH
	export PATH
fi
TMPDIR=$work
export TMPDIR
cd "$work"
# Files that who runs the tests left open are not part of them either: ctest's log is one, and is replaced meanwhile.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-

# All that the script has started has this directory in its environment, whoever its parent is now.
started() {
	grep -lsF "TMPDIR=$work" /proc/[0-9]*/environ | sed 's,/proc/\([0-9]*\)/.*,\1,' | paste -sd,
}

say_stuck() {
	echo "FAILED: $script has not ended after $TEST_SECONDS seconds. What it has started:"
	ps -o pid,ppid,stat,wchan:20,etimes,args -p "$(started)" || :
	for file in out err *.log; do
		[ ! -s "$file" ] || { echo "--- $file"; tail -n 20 "$file"; }
	done
}

watch() {
	sleep "$TEST_SECONDS" >/dev/null 2>&1 &
	nap=$!
	trap 'kill $nap 2>/dev/null; exit 0' TERM
	wait $nap
	say_stuck >&2
	for pid in $(started | tr , ' '); do
		kill -KILL "$pid" 2>/dev/null || :
	done
}

if [ -n "${TEST_SECONDS:-}" ]; then
	watch &
	watchdog=$!
fi
case $script in
*.py) python3 "$script" "$@" ;;
*) sh "$script" "$@" ;;
esac
