# SPDX-License-Identifier: BSD-3-Clause
# What a dead launch left behind is ended before the next: in its group, out of it, and children of those.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

mkfifo ready
job job <<'END'
open_job
took "$KEDGE_RUN_LAUNCH"
if [ "$KEDGE_RUN_LAUNCH" = 1 ]; then
	sleep 300 &
	echo $! >>pids
	setsid sh -c 'echo $$ >>pids; sleep 300 & echo $! >>pids; trap "" TERM; echo >ready; wait' &
	read -r _ <ready
	kill -KILL $$
fi
for pid in $(cat pids); do
	if kill -0 "$pid" 2>/dev/null; then
		echo "process $pid is alive"
		exit 7
	fi
done
END
run -- ./job
wants_code 0
[ "$(wc -l <pids)" -eq 3 ] || die "the test did not start three processes"
wants err '2 launches'
