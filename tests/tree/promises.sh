#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every test that docs/PROMISES.md names must exist. Usage: promises.sh ROOT
set -eu

cd "$1"
status=0
count=0
for name in $(grep '^|' docs/PROMISES.md | grep -o '`[a-z_]*/[a-z0-9_]*`' | tr -d '`' | sort -u); do
	count=$((count + 1))
	if [ ! -e "tests/$name.c" ] && [ ! -e "tests/$name.sh" ]; then
		echo "docs/PROMISES.md names $name, which is not in tests/" >&2
		status=1
	fi
done
if [ "$count" -lt 20 ]; then
	echo "docs/PROMISES.md names only $count tests: has its form changed?" >&2
	status=1
fi
exit $status
