# SPDX-License-Identifier: BSD-3-Clause
# kedge-bench veloc-like goes through VELOC's interface and prints every figure, at every share of change. How fast
# anything is, is not asked.
set -eu

fail() {
	echo "bench.sh: $*" >&2
	exit 1
}

mkdir scratch persistent
for threads in single multiple; do
	kedge-bench veloc-like --mpiexec "$1" --size 1M --versions 2 --restarts 1 --compute 0.01 --scratch scratch \
		--persistent persistent --threads $threads --json >out 2>err || fail "$threads: $(cat err)"
	python3 - <<-END || fail "$threads: $(cat out)"
		import json
		rows = json.load(open("out"))["results"]
		assert [(r["changed_percent"], r["capture"]) for r in rows] == [(p, c) for p in (100, 10, 1) for c in ("copy", "cow")]
		for row in rows:
		    for name in ("plain_scratch blocked plain_disk disk cost plain_cpu cpu plain_read restart_test restart memory_waited memory_beside").split():
		        f = row[name]
		        assert f["lowest"] <= f["median"] <= f["highest"], name
		    for name, plain in {"blocked": "plain_scratch", "cost": "plain_disk", "restart": "plain_read"}.items():
		        f = row["to_plain"][name]
		        assert f["lowest"] <= f["median"] <= f["highest"], name
		        if row[name]["lowest"] > 0:  # a cost may be less than nothing, where the machine is busy with other things
		            assert f["highest"] <= row[name]["highest"] / row[plain]["lowest"] * 1.01 + 0.01, name
		    assert 0 < row["blocked"]["median"] <= row["disk"]["median"]
		    assert row["restart_test"]["median"] <= row["restart"]["median"]
	END
done
[ -z "$(ls scratch persistent | grep -v :)" ] || fail "files were left"
# A script may stand for the program, where that needs a loader or libraries of its own; and mpiexec may need arguments.
bench=$(command -v kedge-bench)
printf '#!/bin/sh\necho started >>"%s/started"\nexec "%s-veloc" "$@"\n' "$PWD" "$bench" >wrapper
chmod +x wrapper
kedge-bench veloc-like --mpiexec "$1" --mpi-arg=-x --mpi-arg=KEDGE_THREADS=1 --program ./wrapper --size 1M --versions 1 \
	--restarts 1 --compute 0.01 --scratch scratch --persistent persistent --capture copy >out 2>err || fail "$(cat err)"
[ "$(wc -l <started)" = 12 ] || fail "the script was started $(wc -l <started) times, not by 2 ranks, twice, at 3 shares"
kedge-bench veloc-like --mpiexec /no/such/mpiexec --size 1M --scratch scratch --persistent persistent >out 2>err &&
	fail "without mpiexec there is a result"
grep -q 'cannot run /no/such/mpiexec' err || fail "the cause is missing: $(cat err)"
kedge-bench veloc-like --ranks 0 2>err && fail "no ranks"
exit 0
