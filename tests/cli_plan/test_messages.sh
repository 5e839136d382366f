# SPDX-License-Identifier: BSD-3-Clause
# What is wrong is named, on standard error, with exit code 2; nothing is printed.
. "$KEDGE_SOURCE/tests/cli_plan/lib.sh"

refuse()
{
	message=$1
	shift
	expect 2 "$@"
	said "$message"
	[ ! -s out ] || fail "printed beside an error: $(cat out)"
}

R='--rates 1e-5,1e-6'
refuse 'kedge plan: cannot plan: failure rates are missing: give rates, or mtbf (or node_mtbf) and shares' kedge plan
refuse "kedge plan: cannot plan: size: '29G' has an unknown unit: expected a size such as 29GB (1000s) or 32GiB (1024s)" kedge plan --mtbf 1h --size 29G
refuse 'kedge plan: cannot plan: rates and mtbf are both given, but each sets the failure rates; give only one' kedge plan $R --mtbf 1h
refuse 'kedge plan: cannot plan: costs and pfs are both given, but each sets the costs of checkpoints; give only one' kedge plan $R --costs 1,2 --pfs 1GB/s
refuse 'kedge plan: cannot plan: costs has 3 values, but failures have 2 levels' kedge plan $R --costs 1,2,3
refuse 'kedge plan: cannot plan: shares is missing: costs has 2 values, so give the share of failures that need each level' kedge plan --mtbf 1h --costs 1,2
refuse 'kedge plan: cannot plan: l1_rate and pfs describe two levels, but failures have only one: give shares, or two rates' kedge plan --mtbf 1h --nodes 2 --size 1GB --l1-rate 1GB/s --pfs 1GB/s
refuse 'kedge plan: cannot plan: l1_rate and pfs describe two levels, but failures have only one: give shares, or two rates' kedge plan -m "$MACHINES/tsubame2.ini" --mtbf 13h
refuse 'kedge plan: cannot plan: nodes must be greater than 0' kedge plan $R --costs 1,2 --nodes 0
refuse 'kedge plan: cannot plan: nodes is missing: give costs, or nodes, size, l1_rate and pfs' kedge plan $R
refuse 'kedge plan: cannot plan: shares add up to 0.9, not to 1' kedge plan --mtbf 1h --shares 0.5,0.4 --costs 1,2
refuse 'kedge plan: cannot plan: the mean time between failures must be greater than 0' kedge plan --mtbf 0 --costs 1
refuse "kedge plan: cannot plan: --sweep failrue: no such option; did you mean 'failure'?" kedge plan $R --costs 1,2 --sweep failrue=1..2
refuse "kedge plan: cannot plan: --sweep 'failure': expected KEY=A..B, KEY=A..B:N or KEY=A,B,C" kedge plan $R --costs 1,2 --sweep failure
refuse 'kedge plan: cannot plan: --sweep failure ends at 1, before it begins at 2' kedge plan $R --costs 1,2 --sweep failure=2..1
refuse 'kedge plan: cannot plan: --sweep alpha begins at 0, which cannot be doubled: give the number of points, as in 0..1:11' kedge plan $R --costs 1,2 --sweep alpha=0..1
refuse 'kedge plan: cannot plan: --svg needs --sweep' kedge plan $R --costs 1,2 --svg x.svg
refuse 'kedge plan: cannot plan: --required-bandwidth 1.5: must be between 0 and 1' kedge plan -m "$MACHINES/tsubame2.ini" --required-bandwidth 1.5
refuse 'kedge plan: cannot plan: --name and --from-l2 need --from' kedge plan $R --costs 1,2 --name x
refuse 'kedge plan eval: cannot evaluate: --mode is missing: give sync or async' kedge plan eval $R --costs 1,2
refuse "kedge plan eval: cannot evaluate: --mode must be sync or async, not 'both'" kedge plan eval --mode both $R --costs 1,2
refuse 'kedge plan eval: cannot evaluate: --interval is missing' kedge plan eval --mode sync $R --costs 1,2 --counts 1,1
refuse 'kedge plan eval: cannot evaluate: --counts has 3 values, but there are 2 levels' kedge plan eval --mode sync $R --costs 1,2 --counts 1,1,1 --interval 5
refuse 'kedge plan eval: cannot evaluate: the count of the top level is 2: a period has 1 checkpoint of that level' kedge plan eval --mode sync $R --costs 1,2 --counts 1,2 --interval 5
refuse 'kedge plan eval: cannot evaluate: the interval is 0 s: it must be longer than 0' kedge plan eval --mode sync $R --costs 1,2 --counts 1,1 --interval 0
refuse "kedge plan eval: cannot evaluate: --interval: '-5' is negative: expected a time such as 90, 90s, 15min, 13h, 30d, 2y" kedge plan eval --mode sync $R --costs 1,2 --counts 1,1 --interval -5
refuse 'kedge plan eval: cannot evaluate: 3 incomplete segments in a period of 2: a copy must finish before the next one begins' kedge plan eval --mode async $R --costs 1 --restarts 1,2 --segments 2 --incomplete 3 --interval 5
refuse 'kedge plan best: cannot evaluate: 1 level: writing in the background needs a level to copy from and one to copy to' kedge plan best --mode async --rates 1e-5 --costs 1
refuse 'kedge plan best: cannot evaluate: --latency is missing: give the time of a copy to the top level, or its cost with --costs' kedge plan best --mode async $R --costs 1 --restarts 1,2
refuse 'kedge plan eval: cannot evaluate: --latency is missing: give the time of a copy to the top level, or its cost with --costs' kedge plan eval --mode async $R --costs 1 --restarts 1,2 --segments 5 --interval 5
refuse 'kedge simulate async: cannot simulate: --latency is missing: give the time of a copy to the top level, or its cost with --costs' kedge simulate async $R --costs 1 --restarts 1,2
refuse 'kedge plan coalesce: cannot evaluate: --mtbf must be greater than 0' kedge plan coalesce --full 1 --delta-cost 1 --delta-restore 1 --interval 1 --mtbf 0
refuse 'kedge plan pccr: cannot evaluate: --processes is missing' kedge plan pccr --size 1 --collect 1 --compress 1 --compress-pipelined 1 --fs-bandwidth 1 --process-bandwidth 1 --ratio 1
refuse "kedge plan rex: cannot evaluate: no preset 'fit-c'; did you mean 'fit-a'?" kedge plan rex --preset fit-c
refuse "kedge plan: unknown subcommand 'bset'; did you mean 'best'?" kedge plan bset
refuse 'kedge simulate async: cannot simulate: --shape and --per-node need --failures weibull' kedge simulate async $R --costs 1,2 --shape 1
refuse "kedge simulate async: cannot simulate: --flush must be segments, clock or restart, not 'never'" kedge simulate async $R --costs 1,2 --flush never
refuse 'kedge simulate sync: cannot simulate: --flush, --queue and --size-variation are only for async' kedge simulate sync $R --costs 1,2 --queue
refuse 'kedge simulate sync: cannot simulate: 0 runs: it must be 1 to 4294967296' kedge simulate sync $R --costs 1,2 --runs 0
refuse 'kedge simulate rex: cannot simulate: --shape and --per-node need --failures weibull' kedge simulate rex --shape 1
echo '1h 7' >trace
refuse 'kedge simulate sync: cannot simulate: trace, line 1: level 7: the machine has levels 1 to 2' kedge simulate sync $R --costs 1,2 --failures trace
expect 3 kedge plan -m no-such-machine
said "kedge plan: cannot plan: no machine file 'no-such-machine', and none of that name is installed"
printf 'nodse = 5\n' >machine.ini
expect 2 kedge plan -m machine.ini
grep -q 'machine.ini.*nodse.*nodes' err || fail "$(cat err)"

# huge and tiny numbers
expect 0 kedge plan eval --mode sync --rates 1e-300,1e-300 --costs 1e-9,1e-9 --counts 1000000,1 --interval 1e12 --json
near efficiency 1 1e-12
expect 0 kedge plan eval --mode sync --rates 10,10 --costs 1e6,1e6 --counts 1,1 --interval 1e6 --json
equal expected_seconds null
near efficiency 0 0
equal feasible false
expect 0 kedge plan best --mode async --rates 1e300,1e300 --costs 1e-300,1e-300 --json
