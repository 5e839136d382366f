#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What restic would keep of snapshots of many times: makes tests/store/restic_answers.inc, with which the tests compare what Kedge
# keeps. Needs restic (tried with 0.14); takes some minutes, because every snapshot is a run of restic.
# Usage: scripts/make-restic-table.sh >tests/store/restic_answers.inc
set -eu
command -v restic >/dev/null || { echo "restic is not installed" >&2 && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
TZ=UTC LC_ALL=C RESTIC_PASSWORD=x RESTIC_REPOSITORY=$dir/repository
export TZ LC_ALL RESTIC_PASSWORD RESTIC_REPOSITORY
echo x >"$dir/file"
restic init --no-cache -q

# Three years with a version now and then, then thirty days with one every few hours. The numbers are drawn, and always the same.
awk 'BEGIN {
	seed = 7
	at = 1704103200 # Monday, 1 January 2024, 10:00
	for (i = 0; i < 150; i++) {
		print at
		seed = (seed * 1103515245 + 12345) % 2147483648
		draw = int(seed / 65536)
		at += i < 40 ? 86400 * (10 + draw % 35) + draw : 60 * (5 + draw % 570)
	}
}' >"$dir/times"
while read -r at; do
	restic backup --no-cache -q --host h --time "$(date -d "@$at" '+%Y-%m-%d %H:%M:%S')" "$dir/file"
done <"$dir/times"

echo "/* Made by scripts/make-restic-table.sh, with $(restic version | cut -d ' ' -f 1,2). */"
echo "static const int64_t restic_times[] = {"
sed 's/.*/    &,/' "$dir/times"
echo "};"
echo "static const struct {"
echo "	const char *keep, *stay;"
echo "} restic_answers[] = {"
while read -r keep; do
	options=
	for word in $keep; do
		case $word in
		*:*) options="$options --keep-${word%:*} ${word#*:}" ;;
		*) options="$options --keep-last $word" ;;
		esac
	done
	# shellcheck disable=SC2086
	restic forget --no-cache --dry-run --json $options | sed 's/"remove":.*//' | grep -o '"time":"[^"]*"' | cut -d '"' -f 4 |
		while read -r time; do date -d "$time" +%s; done >"$dir/stay"
	printf '    {"%s", "' "$keep"
	awk 'NR == FNR { stay[$1] = 1; next } { printf "%d", $1 in stay }' "$dir/stay" "$dir/times"
	printf '"},\n'
done <<'POLICIES'
1
5
hourly:24
hourly:1000
daily:7
daily:30
weekly:5
weekly:200
monthly:12
yearly:2
yearly:10
2 hourly:24 daily:7
3 hourly:48 daily:14 weekly:8 monthly:12 yearly:5
1 daily:30 monthly:6
hourly:6 weekly:100
POLICIES
echo "};"
