# SPDX-License-Identifier: BSD-3-Clause
# The pieces for scripts: options and keys as the manual says, numbers as the vectors say.
. "$KEDGE_SOURCE/tests/cli_plan/lib.sh"

expect 0 kedge plan eval --mode sync --rates 2.13e-05,4.27e-06 --costs 72.5,6380 --restarts 72.5,6380 --counts 23,1 --interval 2100 --json
near expected_seconds 71597.819195 1e-5
near efficiency 0.70393206 1e-8
expect 0 kedge plan eval --mode sync --rates 0.0001,3e-05,2e-05,1e-06 --costs 5,30,50,300 --restarts 6,40,60,500 --counts 2,3,2,1 --interval 400 --json
near expected_seconds 17010.209988 1e-6
expect 0 kedge plan eval --mode async --rates 2e-05,3e-06 --costs 72.5 --restarts 80,6380 --segments 4 --incomplete 2 --alpha 0.05 --init-cost 50 --interval 1500 --json
near expected_seconds 6883.132643 1e-6
near efficiency 0.87169612 1e-8
# the same with units
expect 0 kedge plan eval --mode async --rates 72e-3/h,3e-06 --costs 72500ms --restarts 80s,6380 --segments 4 --incomplete 2 --alpha 5% --init-cost 50 --interval 25min --json
near expected_seconds 6883.132643 1e-6

expect 0 kedge plan best --mode sync --rates 1.7581e-05,1.377e-06 --costs 72.5,6380 --restarts 72.5,6380 --json
near efficiency 0.811989 1e-4
near interval 2494.36 30
near counts 36 2
expect 0 kedge plan best --mode async --rates 1.7581e-05,1.377e-06 --costs 72.5 --restarts 72.5,6380 --latency 6380 --alpha 0.00184 --json
near efficiency 0.925012 1e-4
equal segments 2
equal incomplete 2
expect 0 kedge plan best --mode async --rates 1.7581e-05,1.377e-06 --costs 72.5,6380 --alpha 0.00184 --json
near efficiency 0.925012 1e-4

expect 0 kedge plan best --mode async --rates 1.7581e-05,1.377e-06 --costs 72.5 --restarts 72.5,6380 --latency 0 --json
equal incomplete 0

expect 0 kedge plan coalesce --full 60 --delta-cost 30 --delta-restore 15 --interval 854 --mtbf 10000 --json
equal n_min 24
expect 0 kedge plan coalesce --full 60 --delta-cost 30 --delta-restore 0 --interval 854 --mtbf 10000 --json
equal n_min null

expect 0 kedge plan pccr --size 1000 --collect 1 --compress 30 --compress-pipelined 8 --fs-bandwidth 20000 --process-bandwidth 400 --ratio 0.55 --processes 2048 --json
near uncompressed 103.4 1e-9
near serial 87.32 1e-9
near pipelined 56.32 1e-9
near saturation 50 1e-9
near saturation_compressed 90.9091 1e-4
near saturation_pipelined 290.9091 1e-4
near beneficial_serial 1333.333 1e-3
near beneficial_pipelined 140 1e-9
expect 0 kedge plan pccr --size 1GB --collect 1 --compress 30 --compress-pipelined 8 --fs-bandwidth 20GB/s --process-bandwidth 400MB/s --ratio 55% --processes 2048 --json
near serial 87.32 1e-9

expect 0 kedge plan rex --table --json
equal exact 29
equal within_one 36
expect 0 kedge plan rex --table
printed '29 of 36 equal, 36 within 1'
expect 0 kedge plan rex --ic 1/2 --ratio 2 --json
equal chi 6
near ratio 1.034180 1e-6
