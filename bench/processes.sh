#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The comparison of the REX paper on real processes: kernels like those of NPB, and sqlite3 with a database in memory, are captured by
# `kedge run --transparent`, a base and eight increments, and what was captured is kept by rex and as others do (kedge-bench rex).
# Usage: processes.sh BIN KERNELS [OPTION...]   BIN: where kedge and kedge-bench are; KERNELS: the program bench_kernels;
# options are those of kedge-bench rex. Needs two gigabytes below $TMPDIR, and takes minutes.
set -eu

bin=$(cd "$1" && pwd)
kernels=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
moments=9
dir=$(mktemp -d)
cd "$dir"
trap 'cd / && rm -rf "$dir"' EXIT
mkdir images

lines()
{
	wc -l <printed
}

await() # LINES
{
	while [ "$(lines)" -lt "$1" ]; do
		kill -0 $run || { cat said >&2; exit 1; }
		sleep 0.02
	done
}

# A program that prints a line when it is ready, and one after each step that it is given. The steps are what the function `step` prints.
capture() # NAME COMMAND...
{
	name=$1
	shift
	mkfifo line
	: >printed
	"$bin/kedge" run --transparent --keep-versions --interval 1000000000 --set sync=no --set capture=sync -s store -n "$name" -- "$@" <line >printed 2>said &
	run=$!
	exec 3>line
	step 0 >&3
	for moment in $(seq $moments); do
		await "$moment"
		"$bin/kedge" checkpoint-now --wait 600 -s store -n "$name" >/dev/null
		step "$moment" >&3
	done
	await $((moments + 1))
	exec 3>&-
	wait $run
	mkdir "images/$name"
	for moment in $(seq $moments); do
		"$bin/kedge" restore -q -s store -n "$name" -v "$moment" -o back --pages moment.idx
		mv back/moment.idx "images/$name/m$moment.idx"
		mv back/moment.pages "images/$name/m$moment.pages"
		rm -rf back
	done
	"$bin/kedge" rm -q -s store -n "$name" --all >/dev/null 2>&1 || rm -rf store
	rm -f line
}

for kernel in cg mg is; do
	step() { [ "$1" = 0 ] || echo step; }
	capture $kernel "$kernels" $kernel
done

if command -v sqlite3 >/dev/null; then
	# A mixed load: 400 rows change, 100 go, 200 come, of 100,000.
	step()
	{
		if [ "$1" = 0 ]; then
			echo "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, balance REAL, changed INTEGER);"
			echo "CREATE INDEX byname ON t(name);"
			echo "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
				INSERT INTO t SELECT i, 'customer number ' || (i * 7919 % 100003), i * 1.25, 0 FROM n;"
		else
			echo "UPDATE t SET balance = balance * 1.01, changed = $1 WHERE id % 250 = $1 * 13;"
			echo "DELETE FROM t WHERE id % 1000 = $1 * 17;"
			echo "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
				INSERT INTO t SELECT $1 * 1000000 + i, 'new customer ' || (i * 31 % 199), i, $1 FROM n;"
		fi
		echo "SELECT count(*), sum(balance) FROM t;"
	}
	capture sqlite sqlite3 :memory:
else
	echo "sqlite3 is not there, and is left out" >&2
fi

"$bin/kedge-bench" rex --images images "$@"
