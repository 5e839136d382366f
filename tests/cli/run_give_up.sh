# SPDX-License-Identifier: BSD-3-Clause
# Without progress a job is given up after three launches, and in any case when its retries are used up.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

job stuck <<'END'
open_job
took 5
exit 9
END
run -- ./stuck
wants_code 9
wants err 'giving up: 3 launches in a row without a new version'
wants err '4 launches'

job hopeless <<'END'
exit 4
END
run -- ./hopeless
wants_code 4
wants err 'giving up: 3 launches in a row without a new version; the last ended: exit code 4'
wants err '3 launches'

run --patience 5 --quiet -- ./hopeless
wants_code 4
wants err 'giving up: 5 launches'

run --patience 1 -- ./hopeless
wants_code 4
wants err 'giving up: 1 launch without a new version; the last ended: exit code 4'

run --retries 0 -- ./hopeless
wants_code 4
wants err 'giving up: launched 1 time;'

job steady <<'END'
open_job
took "$KEDGE_RUN_LAUNCH"
kill -SEGV $$
END
run --retries 5 -- ./steady
wants_code 139
wants err 'giving up: launched 6 times; the last ended: killed by signal 11'

# A version taken anew after a restart from an older one is not progress; nor is a line that makes no sense.
job again <<'END'
open_job
restarted 6
took 6
echo '{"time":1,"event":"sealed","name":"job"}' >>"$KEDGE_RUN_JOURNAL"
echo '{"time":1,"event":"sealed","version":99}' >>"$KEDGE_RUN_JOURNAL"
echo '{"event":7,"name":[]} {' >>"$KEDGE_RUN_JOURNAL"
echo 'checkpoint 99 1 1 0.1 1' >>"$KEDGE_RUN_JOURNAL"
printf '{"time":1,"event":"sealed","name":"job","version":100}' >>"$KEDGE_RUN_JOURNAL"
exit 1
END
run -- ./again
wants_code 1
wants err '3 launches in a row'
wants err 'has an older libkedge, whose journal is not understood'
