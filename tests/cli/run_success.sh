# SPDX-License-Identifier: BSD-3-Clause
# A command that ends well is launched once, with its input, output, arguments and environment.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

job job <<'END'
[ "$KEDGE_RUN_LAUNCH" = 1 ]
[ -n "$KEDGE_RUN_ID" ]
[ -f "$KEDGE_RUN_JOURNAL" ]
open_job
took 1
took 2
read -r line
echo "input: $line, arguments: $*"
END
echo something >input
run -- ./job --retries 'two words' <input
wants_code 0
wants out '^input: something, arguments: --retries two words$'
wants err '1 launch, 2 versions taken'
wants err 'launch 1: .*took 2 versions (last 2), exit code 0'
no_journal_left

# Without "--", options of the command stay its own.
run ./job -q <input
wants_code 0
wants out 'arguments: -q$'

run --quiet -- ./job <input
wants_code 0
[ ! -s err ] || die "--quiet is not quiet"

mkdir elsewhere
job moves <<'END'
cd elsewhere
open_job
took 7
END
run --journal events -- ./moves
wants_code 0
wants events '"event":"open","name":"job","store":"/store"'
wants events '"event":"sealed","name":"job","version":7,'

# Processes of a job that ended well are nobody's business.
job daemon <<'END'
sleep 60 </dev/null >/dev/null 2>&1 &
echo $! >daemon.pid
END
run -- ./daemon
wants_code 0
kill "$(cat daemon.pid)" || die "the daemon was killed"
