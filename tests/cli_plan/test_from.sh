# SPDX-License-Identifier: BSD-3-Clause
# Costs as earlier runs measured them.
. "$KEDGE_SOURCE/tests/cli_plan/lib.sh"

i=0
while [ $i -lt 3 ]; do
	i=$((i + 1))
	echo $i >>state
	expect 0 kedge save -q -s l1 -n job --set l2=l2 state
done
expect 0 kedge plan --from l1 --mtbf 1h --json
near rate 0.000277777777777778 1e-15
grep -q 'measured by 3 checkpoints of 1 ranks' out || fail "$(cat out)"
expect 0 kedge plan --from l1 --from-l2 l2 --mtbf 1h --shares 0.9,0.1 --json
grep -q '3 copies to L2' out || fail "$(cat out)"
expect 0 kedge plan --from l1 --name job --pfs 1MB/s --mtbf 1h --shares 0.9,0.1
# an option has the last word
expect 0 kedge plan --from l1 --mtbf 1h --costs 7 --json
near cost 7 0
expect 3 kedge plan --from l1 --name jib --mtbf 1h
expect 3 kedge plan --from nowhere --mtbf 1h
expect 0 kedge save -q -s l1 -n other state
expect 2 kedge plan --from l1 --mtbf 1h
said 'kedge plan: cannot plan: l1 contains 2 jobs; choose one with --name'

# failure rates from a log
cat >log <<'LOG'
# 100 days of a cluster
span = 100d
2d
10d 2 # rack power
11d
40d 1
LOG
expect 0 kedge plan --log log --costs 60,600 --json
near rate 3.472222e-07 1e-12
expect 2 kedge plan --log log --costs 60,600 --mtbf 1h
said 'kedge plan: cannot plan: --log and --mtbf both set the failure rates; give only one of them'
: >empty
expect 2 kedge plan --log empty --costs 60,600
said 'kedge plan: cannot plan: empty: contains no failure'
