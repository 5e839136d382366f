#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many small files: kedge, tar and restic side by side, in one run, and their ratios. Needs about a gigabyte, and takes minutes.
# Usage: files.sh KEDGE [FILES [DIR]]   KEDGE: the program; FILES: how many (default: 100000); DIR: where (default: a new one below $TMPDIR)
set -eu

kedge=$1
files=${2:-100000}
dir=${3:-$(mktemp -d)}
cd "$dir"
trap 'cd / && rm -rf "$dir"' EXIT

# Words of source code, a few hundred bytes to some kilobytes a file, fifty files a directory.
awk -v files="$files" 'BEGIN {
	srand(1)
	split("static int return kedge struct if else region const for while void size char break case", word, " ")
	for (i = 0; i < files; i++) {
		if (i % 50 == 0) {
			d = sprintf("in/d%03d/e%02d", i / 1000, i / 50 % 20)
			system("mkdir -p " d)
		}
		f = sprintf("%s/file%06d.c", d, i)
		n = 20 + int(rand() * 480)
		text = ""
		for (k = 0; k < n; k++)
			text = text (rand() < 0.2 ? int(rand() * 10000) : word[1 + int(rand() * 16)]) " "
		print text >f
		close(f)
	}
}'
sync

# took NAME COMMAND...: its seconds, in took_NAME.
took()
{
	name=$1
	shift
	began=$(date +%s%N)
	"$@" >/dev/null || { echo "$* failed" >&2; exit 1; }
	eval "took_$name=$((($(date +%s%N) - began) / 1000000))"
	eval "echo \"$name: \$took_$name ms\""
}

bytes()
{
	du -sb "$1" | cut -f 1
}

ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b ? a / b : 0 }'
}

# Each after what it writes was written back: what one leaves dirty is not the next one's to wait for.
settle()
{
	sync
}

# As durable as restic and tar are: what is synced is said apart.
fast="--set sync=no"
took kedge_save "$kedge" save $fast -s store -n job in; settle
took kedge_again "$kedge" save $fast -s store -n job in; settle
took kedge_restore "$kedge" restore $fast -s store -n job -o out.kedge; settle
took kedge_restore_durable "$kedge" restore -s store -n job -o out.durable; settle
took tar_save sh -c 'tar -c in | zstd -q >tar.zst'; settle
took tar_restore sh -c 'mkdir out.tar && zstd -dc tar.zst | tar -x -C out.tar'; settle
diff -r in out.kedge/in >/dev/null || { echo "kedge: files differ" >&2; exit 1; }
first=$(bytes store/job/v00000000000000000001)
second=$(bytes store/job/v00000000000000000002)
echo "$files files, $(bytes in) bytes: kedge stored $first bytes, then $second for the unchanged ones ($(ratio "$second" "$files") a file); tar and zstd $(bytes tar.zst)"
if command -v restic >/dev/null; then
	RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$dir/cache RESTIC_PROGRESS_FPS=0.1
	export RESTIC_PASSWORD RESTIC_CACHE_DIR RESTIC_PROGRESS_FPS
	restic init -q -r repo
	took restic_save restic -q -r repo backup in; settle
	before=$(bytes repo)
	took restic_again restic -q -r repo backup in; settle
	took restic_restore restic -q -r repo restore latest --target out.restic
	echo "restic stored $before bytes, then $(($(bytes repo) - before))"
	echo "kedge / restic: save $(ratio $took_kedge_save $took_restic_save), unchanged $(ratio $took_kedge_again $took_restic_again), restore $(ratio $took_kedge_restore $took_restic_restore), bytes $(ratio "$first" "$before")"
fi
echo "kedge / tar with zstd: save $(ratio $took_kedge_save $took_tar_save), restore $(ratio $took_kedge_restore $took_tar_restore), bytes $(ratio "$first" "$(bytes tar.zst)")"
