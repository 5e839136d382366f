# SPDX-License-Identifier: BSD-3-Clause
# --json gives the whole story after the command's own output.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

job job <<'END'
open_job
if [ "$KEDGE_RUN_LAUNCH" = 1 ]; then
	took 1
	kill -KILL $$
fi
restarted 1
took 2
echo "the answer"
END
run --json --quiet -- ./job
wants_code 0
[ "$(head -n 1 out)" = "the answer" ] || die "the command's output does not come first"
tail -n +2 out | tr -d ' \n' >flat
wants flat '"outcome":"done"'
wants flat '"exit_code":0'
wants flat '"launch_count":2'
wants flat '"versions_taken":2'
wants flat '"restarted_from":\[1\]'
wants flat '"command":\["./job"\]'
wants flat '"exit_code":137,"signal":9,"restarted_from":null,"versions_taken":1,"last_version":1'
wants flat '"exit_code":0,"signal":null,"restarted_from":1,"versions_taken":1,"last_version":2'
wants flat '"version":2,"launch":2,"raw_bytes":1000,"stored_bytes":100,"blocked_seconds":0.5'
wants flat '"lost_seconds":'

run --json --retries 0 -- sh -c 'exit 6'
wants_code 6
tr -d ' \n' <out >flat
wants flat '"outcome":"retries_used"'

run --json -- ./no-such-command
wants_code 127
tr -d ' \n' <out >flat
wants flat '"outcome":"not_started"'
