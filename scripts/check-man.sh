#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every man page must format without a warning. Usage: check-man.sh [DIRECTORY]; exit 77 if groff is not installed.
set -eu

dir=${1:-$(dirname "$0")/../docs/man}
command -v groff >/dev/null || exit 77
status=0
found=0
for page in "$dir"/*.[1-8]; do
	[ -e "$page" ] || continue
	found=1
	warnings=$(groff -man -ww -Tutf8 -z "$page" 2>&1)
	if [ -n "$warnings" ]; then
		printf '%s\n' "$warnings" >&2
		status=1
	fi
done
if [ $found -eq 0 ]; then
	echo "no man pages in $dir" >&2
	status=1
fi
exit $status
