# SPDX-License-Identifier: BSD-3-Clause
# The demonstration in small: a rank of an MPI job is killed, the job restarts and ends with the same answer.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
heat=$BUILD_DIR/examples/heat2d
[ -x "$heat" ] || exit 77

size="--cells 128 --steps 60 --every 10"
# shellcheck disable=SC2086
KEDGE_L1=undisturbed mpirun -n 4 "$heat" $size --output expected
# On L2 three ranks share a file, and the fourth has one to itself.
export KEDGE_L2=safe KEDGE_GROUP_SIZE=3
# shellcheck disable=SC2086
run -- mpirun -n 4 "$heat" $size --output answer --die-at 35 --die-rank 2
wants_code 0
cmp expected answer || die "another answer"
wants out 'restarted at step 30'
wants err '2 launches'
wants err 'restarted from version 30'
"$KEDGE_BIN" verify -s kedge-store -n heat2d >verified || die "the store is damaged"
"$KEDGE_BIN" verify -s safe -n heat2d >verified || die "L2 is damaged"
versions=$("$KEDGE_BIN" ls -s safe -n heat2d -a -q | wc -l)
[ "$versions" -gt 0 ] || die "nothing is on L2"
[ "$(find safe -name 'r*' -type f ! -name 'record*' | wc -l)" -eq $((2 * versions)) ] || die "another number of files on L2: $(find safe)"
