# SPDX-License-Identifier: BSD-3-Clause
# Whole plans: from options, from machine files, swept, drawn.
. "$KEDGE_SOURCE/tests/cli_plan/lib.sh"

expect 0 kedge plan --nodes 1408 --size 29GB --l1-rate 400MB/s --pfs 6.4GB/s --rates 2.13e-6,4.27e-7 --alpha 0.00184
printed 'asynchronous checkpointing is 1.072 times as efficient as synchronous'
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --failure 10 --cost 10 --json
near gain 2.306 0.001
for machine in "$MACHINES"/*.ini; do
	expect 0 kedge plan -m "$machine" --json
	grep -q '"feasible": true' out || fail "$machine: not feasible"
	grep -q '^source = ' "$machine" || fail "$machine has no source"
done

# options replace what a file says, also when it says it otherwise
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --mtbf 13h --shares 84%,16% --json
near rate 1.794871e-05 1e-10

# how many staging nodes
expect 0 kedge plan -m "$MACHINES/exascale.ini" --json
near best_staging 1464 16
expect 0 kedge plan --nodes 1408 --size 29GB --l1-rate 400MB/s --pfs 6.4GB/s --mtbf 13h --shares 84%,16% --staging-rate 200MB/s --alpha-slope 0.009 --json
near best_staging 32 0 # just enough for the file system
expect 0 kedge plan --nodes 1408 --size 29GB --l1-rate 400MB/s --pfs 6.4GB/s --rates 2.13e-6,4.27e-7 --staging-rate 1.6GB/s --alpha-slope 0.008768
printed 'best number of staging nodes: '
# a machine by its name, as installed
mkdir -p prefix/bin prefix/share/kedge/machines
cp "$KEDGE_BIN" prefix/bin/kedge
cp "$MACHINES"/*.ini prefix/share/kedge/machines
expect 0 prefix/bin/kedge plan -m tsubame2
printed 'TSUBAME2.0'
rm -r prefix

# a job that cannot finish is said to be one, and why
expect 0 kedge plan --mtbf 60s --costs 72.5
printed 'synchronous: the job cannot finish: a failure comes every 60 s on average, but even the cheapest checkpoint takes 72.5 s'
grep -q '^synchronous  *-  *-  .* never$' out || fail "an interval for a job that cannot finish: $(cat out)"
expect 0 kedge plan --mtbf 60s --costs 72.5 --json
equal feasible false
# and nothing is recommended for it
expect 0 kedge plan --mtbf 10s --shares 0.9,0.1 --costs 60,600
! grep -q 'kedge.conf\|times as efficient' out || fail "$(cat out)"
# settings to copy: the copy must fit, so intervals are rounded up; where L2 is the cheaper level, it is used alone
expect 0 kedge plan -m "$MACHINES/tsubame2.ini"
printed 'kedge.conf(5): interval = 6444, l2_every = 1'
expect 0 kedge plan --costs 600,60 --rates 1e-5,1e-6
printed 'kedge.conf(5): l1 = (a place on level 2), no l2, interval = 3264'
# no failures, no costs
expect 0 kedge plan best --mode sync --rates 0,0 --costs 10,100
printed 'no failures are expected: no checkpoint is worth its cost, efficiency 1'
expect 0 kedge plan best --mode async --rates 0,0 --costs 10,100
printed 'no failures are expected: no checkpoint is worth its cost, efficiency 1'
expect 0 kedge plan --rates 0,0 --costs 10,100
printed 'no failures are expected: a checkpoint would only cost time'
expect 0 kedge plan --rates 0,0 --costs 10,100 --json
equal interval null
near efficiency 1 0
expect 0 kedge plan --rates 1/d,1/w --costs 0,100
printed 'level-1 checkpoints cost nothing: take them as often as the program can'

expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --sweep failure=1..16 --sweep cost=1,2,10 --svg a.svg --json
[ "$(grep -c "\"sync_efficiency" out)" -eq 15 ] || fail 'not 15 rows'
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --sweep pfs=1GB/s..100GB/s:5 --sweep failure=1,10 --svg b.svg
printed '31.62 GB/s'
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --sweep failure=1..4 --sweep pfs=6.4GB/s,50GB/s --svg b.svg
grep -q '>async, pfs 6.4 GB/s<' b.svg || fail 'the legend has no unit'
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --sweep alpha=0..1:6 --bars --svg c.svg --title 'a < b & c'
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --required-bandwidth 0.9,0.8,0.7 --sweep failure=1,4 --svg d.svg --json
near async_0.9 5.324e8 1e6
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --required-bandwidth 0.9
expect 0 kedge plan -m "$MACHINES/tsubame2-13h.ini" --failure 4 --required-bandwidth 0.9
printed 'never'
expect 0 kedge plan rex --sweep cores=1,2,4,8 --svg e.svg
printed 'cores = 8        best 5'
expect 0 kedge plan pccr --size 500MB --collect 0.5 --compress 10 --compress-pipelined 2 --fs-bandwidth 6.4GB/s --process-bandwidth 50MB/s --ratio 0.65 --sweep processes=1..4096 --svg f.svg
for svg in a b c d e f; do
	[ -s $svg.svg ] || fail "$svg.svg is missing"
	grep -q '</svg>' $svg.svg || fail "$svg.svg is cut short"
	! grep -q 'nan\|inf' $svg.svg || fail "$svg.svg has a number that is none"
	if command -v xmllint >/dev/null; then
		xmllint --noout $svg.svg
	fi
done
grep -q 'a &lt; b &amp; c' c.svg || fail 'the title is not escaped'
[ "$(ls)" = "a.svg
b.svg
c.svg
d.svg
e.svg
err
f.svg
out" ] || fail "left behind: $(ls)"

# Where no job can finish, there is nothing to compare, and no number that is none.
expect 0 kedge plan -m "$MACHINES/tsubame2.ini" --sweep failure=1,1e7
! grep -qi nan out || fail "not a number: $(cat out)"
[ "$(awk 'END { print $NF }' out)" = - ] || fail "async/sync of a job that cannot finish: $(cat out)"
expect 0 kedge plan --mtbf 1 --costs 10 --work 1h
! grep -q 'e+03 ms' out || fail "a second in thousands of milliseconds: $(cat out)"
