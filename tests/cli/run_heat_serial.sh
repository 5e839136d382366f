# SPDX-License-Identifier: BSD-3-Clause
# A real job: killed inside its checkpoints, at one file-system call after another, it ends with the same answer.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
heat=$BUILD_DIR/examples/heat_serial
[ -x "$heat" ] || exit 77

KEDGE_L1=undisturbed "$heat" 3000 2000 >expected
wants expected '^step 3000: '

cat >job <<END
#!/bin/sh
[ "\$KEDGE_RUN_LAUNCH" -gt 3 ] || export KEDGE_FAULT=kill@\$((30 + 5 * KEDGE_RUN_LAUNCH))
exec "$heat" 3000 2000
END
chmod +x job
run --json -- ./job
wants_code 0
tail -n 1 expected >answer
grep '^step' out | cmp - answer || die "another answer"
wants out '^restarted at step '
tr -d ' \n' <out >flat
wants flat '"launch_count":4'
wants flat '"exit_code":137,"signal":9'
