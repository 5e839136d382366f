# SPDX-License-Identifier: BSD-3-Clause
# A job that dies twice and makes progress each time is run to its end.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

job job <<'END'
open_job
case $KEDGE_RUN_LAUNCH in
1)
	cat >input.1
	took 1
	took 2
	kill -KILL $$
	;;
2)
	cat >input.2
	restarted 2
	took 3
	exit 3
	;;
3)
	restarted 3
	took 4
	;;
esac
END
echo text >input
run -- ./job <input
wants_code 0
wants err 'launch 1 ended: killed by signal 9 (Killed), after version 2; relaunching at once'
wants err 'launch 2 ended: exit code 3, after version 3; relaunching at once'
wants err '3 launches, 4 versions taken'
wants err 'launch 2: .*restarted from version 2, took 1 version (last 3), exit code 3'
wants err 'launch 3: .*restarted from version 3, .*exit code 0'
cmp input input.1 || die "the first launch has no input"
[ ! -s input.2 ] || die "the second launch has input"
no_journal_left

# Progress is counted for each job of a command on its own, by versions above all earlier ones.
job two_jobs <<'END'
open_job first
took 100
open_job second
took "$KEDGE_RUN_LAUNCH"
[ "$KEDGE_RUN_LAUNCH" -eq 5 ]
END
run -- ./two_jobs
wants_code 0
wants err '5 launches'
