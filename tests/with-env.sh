#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run a test script in an empty directory of its own, which is removed afterwards, with the built command first on PATH.
# Usage: with-env.sh SCRIPT [ARG...]
set -eu

script=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/kedge-test.XXXXXX")
trap 'chmod -R u+w "$work" 2>/dev/null || :; rm -rf "$work"' EXIT
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
case $script in
*.py) python3 "$script" "$@" ;;
*) sh "$script" "$@" ;;
esac
