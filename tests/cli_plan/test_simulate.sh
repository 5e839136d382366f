# SPDX-License-Identifier: BSD-3-Clause
# Simulations: the same everywhere, beside the models, all modes.
. "$KEDGE_SOURCE/tests/cli_plan/lib.sh"

expect 0 kedge simulate async -m "$MACHINES/tsubame2.ini" --failure 10 --runs 400 --json
equal agrees true
mv out one
expect 0 kedge simulate async -m "$MACHINES/tsubame2.ini" --failure 10 --runs 400 --threads 3 --json
cmp out one || fail 'the result depends on the number of threads'
expect 0 kedge simulate async -m "$MACHINES/tsubame2.ini" --failure 10 --runs 400 --seed 2 --json
cmp -s out one && fail 'another seed gives the same result'

expect 0 kedge simulate sync --rates 1e-5,1e-6 --costs 60,600 --interval 3600 --counts 20,1 --work 10d --runs 300 --json
equal agrees true
near analytic_efficiency 0.919971221821084 1e-9
expect 0 kedge simulate sync -m "$MACHINES/three-levels.ini" --runs 50
printed 'within the interval'

printf 'span = 30d\n1d\n3d 2\n20d\n' >trace
expect 0 kedge simulate sync --rates 1e-5,1e-6 --costs 60,600 --failures trace --runs 20 --work 20d
expect 0 kedge simulate sync --rates 1e-5,1e-6 --costs 60,600 --failures weibull --shape 0.7 --runs 20
expect 0 kedge simulate sync --rates 1e-5,1e-6 --costs 60,600 --nodes 100 --failures weibull --per-node --runs 20
expect 0 kedge simulate async -m "$MACHINES/exascale.ini" --queue --size-variation 0.1 --work 5d --runs 20
printed 'skipped because one was still running'
expect 0 kedge simulate async -m "$MACHINES/tsubame2.ini" --flush restart --cold --runs 20

expect 0 kedge simulate rex --chi 6 --runs 500 --json
near ratio 1.0342 0.003
expect 0 kedge simulate rex --chi 6 --runs 500 --failures weibull --shape 1 --json
near ratio 1.0342 0.003
printf '1h\n2h 2\n' >rex
expect 0 kedge simulate rex --chi 6 --runs 5 --failures rex
expect 0 kedge simulate pccr --size 500MB --collect 0.5 --compress 10 --compress-pipelined 2 --fs-bandwidth 6.4GB/s --process-bandwidth 50MB/s --ratio 0.65 --processes 1024 --json
near seconds 80.5 1e-6
expect 0 kedge simulate flush --nodes 1408 --size 29GB --staging 32 --staging-rate 1.6GB/s --pfs 6.4GB/s --json
near last_seconds 6380 1e-6
