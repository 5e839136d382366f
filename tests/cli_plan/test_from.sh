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
said 'kedge plan: cannot plan: l1 holds 2 jobs: --name says which one is meant'
