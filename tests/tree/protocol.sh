#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The table of docs/PROTOCOL.md has every step of src/job/messages.h, with its call, and no other. Usage: protocol.sh ROOT
set -eu

cd "$1"
code=$(sed -n 's/^[[:space:]]*STEP(\([A-Z_]*\), "\([a-z_]*\)".*/\1 \2/p' src/job/messages.h)
table=$(sed -n 's/^| \([A-Z_]*\)[ (0-9)]* | \([a-z_,]*\).*/\1 \2/p' docs/PROTOCOL.md | tr -d ,)
status=0
if [ "$(printf '%s\n' "$code" | wc -l)" -lt 15 ]; then
	echo "src/job/messages.h has hardly any steps: has the form of KEDGE__STEPS changed?" >&2
	status=1
fi
for step in $(printf '%s\n' "$code" | cut -d ' ' -f 1); do
	call=$(printf '%s\n' "$code" | sed -n "s/^$step //p")
	if ! printf '%s\n' "$table" | grep -q -E "^$step ($call|several)\$"; then
		echo "docs/PROTOCOL.md: no line of the table says that $step belongs to $call" >&2
		status=1
	fi
done
for step in $(printf '%s\n' "$table" | cut -d ' ' -f 1 | sort -u); do
	if ! printf '%s\n' "$code" | grep -q "^$step "; then
		echo "docs/PROTOCOL.md: there is no step $step in src/job/messages.h" >&2
		status=1
	fi
done
exit $status
