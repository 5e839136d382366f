# SPDX-License-Identifier: BSD-3-Clause
# Jobs that are asked to save their state and to end: by signals, by the end of the allocation, by hand; and jobs that hang.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
steps=$BUILD_DIR/tests/cli/cli_steps
export KEDGE_INTERVAL=1000h
mkfifo lines

# kedge run OPTIONS -- cli_steps HOW, in the background, until the job is at work: $pid, $began, $rank (its process)
start() { # HOW OPTION...
	how=$1
	shift
	"$KEDGE_BIN" run --backoff 0 "$@" -- "$steps" "$how" >lines 2>err &
	pid=$!
	exec 3<lines
	read -r line <&3
	began=${line#began at }
	rank=${line##* }
	began=${began%%,*}
}

# Its exit code in $code, what it printed last in $last.
finish() {
	code=0
	wait $pid || code=$?
	last=none
	while read -r line <&3; do
		last=$line
	done
	exec 3<&-
}

newest() {
	"$KEDGE_BIN" ls -n steps -q | tail -1
}

# A program without a handler, a signal to kedge run: a version is taken, and the next life begins with it.
ended=0
versions=0
for signal in USR1 TERM; do
	start polite
	[ "$began" = "$ended" ] || die "it began at $began after $ended"
	kill -$signal $pid
	finish
	wants_code 75
	case $last in
	"ended at "*) ended=${last#ended at } ;;
	*) die "it said '$last'" ;;
	esac
	versions=$((versions + 1))
	[ "$(newest)" = $versions ] || die "version $(newest), not $versions"
	wants err "not finished: saved, and ended as it was asked to (signal $signal)"
	wants err '1 launch, 1 version taken'
done

# The same signal to the program itself, as Slurm sends it to every rank: it is no reason to die.
start polite
kill -USR1 "$rank"
finish
wants_code 75
wants err 'ended as it was asked to (signal USR1)'
ended=${last#ended at }

# A program that asks nothing is ended when it is saved.
start silent
kill -USR1 $pid
finish
wants_code 75
wants err 'not finished: saved'
before=$(newest)

# One that does not answer gets TERM after the grace, and then KILL.
start deaf --grace 0
kill -USR1 $pid
finish
wants_code 75
wants err 'no version in time: sending TERM'
wants err 'without another version'
start stubborn --grace 0
kill -USR1 $pid
finish
wants_code 75
wants err 'does not end: sending KILL'
[ "$(newest)" = "$before" ] || die "a version of a deaf job"

# By hand.
code=0
"$KEDGE_BIN" halt -n steps >out 2>>err || code=$?
wants_code 3
wants err 'no job is running as steps'
start polite
code=0
"$KEDGE_BIN" checkpoint-now -n steps --reason 'before lunch' --wait 1000 >out 2>>err || code=$?
wants_code 0
wants out "^version $(newest) of steps$"
"$KEDGE_BIN" ls -l -n steps >listed
wants listed 'before lunch'
[ "$(newest)" -gt "$before" ] || die "no version"
"$KEDGE_BIN" halt -n steps --json --wait 1000 >out 2>>err
wants out '"answered": *true'
finish
wants_code 75
wants err 'not finished: saved, and ended as it was asked to (kedge halt by '
[ ! -e kedge-store/steps/record-request ] || die "the request is still there"
start silent
"$KEDGE_BIN" halt -n steps >out 2>>err
wants out 'asked .* to save its state and to end'
finish
wants_code 75

# The end of the allocation: asked for in time; a time that is too short for a checkpoint is said.
start polite --deadline 1h --lead 3600
finish
wants_code 75
wants err 'asked to (the allocation ends in '
start deaf --deadline 0
until grep -q 'this time is too short for the job to be saved' err; do
	sleep 0.1
done
kill -TERM $pid # a second request: it is not waited for any longer
finish
wants_code 75
run --deadline tomorrow -- "$steps" polite
wants_code 2
wants err 'deadline'

# A job that hangs is noticed, ended and launched again, as often as it takes.
run --watchdog 3 --patience 0 --retries 1000 -- "$steps" hangs 1
wants_code 0
wants err 'no sign of life for .*: sending TERM'
wants err 'launch 1: .*, no sign of life'

# Under Slurm, or what looks like it: its word for the end of the allocation, and back to the queue, but not if nobody wants that.
mkdir bin
cat >bin/scontrol <<'END'
#!/bin/sh
echo "scontrol $*" >>"$TMPDIR/asked"
[ "$1" != show ] || echo "JobId=7 JobName=x JobState=$(cat "$TMPDIR/state") StartTime=now EndTime=$(date -d "+1 hour" +%Y-%m-%dT%H:%M:%S) Deadline=N/A"
END
cat >bin/sbatch <<'END'
#!/bin/sh
echo "sbatch $*" >>"$TMPDIR/asked"
END
chmod +x bin/*
PATH=$PWD/bin:$PATH
requests() {
	grep -c '"request"\|^request' kedge-run-7.journal
}
export SLURM_JOB_ID=7
echo RUNNING >state
start polite --requeue --lead 2h
finish
wants_code 75
wants asked '^scontrol requeue 7$'
wants err 'asked to (the allocation ends in '
wants err 'job 7 goes back to the queue'
[ "$(requests)" -eq 1 ] || die "journal: $(cat kedge-run-7.journal)"
export SLURM_RESTART_COUNT=1
start polite --requeue --lead 2h
finish
wants_code 75
[ "$(requests)" -eq 2 ] || die "the journal did not go on: $(cat kedge-run-7.journal)"
unset SLURM_RESTART_COUNT
rm asked
echo CANCELLED >state
start polite --requeue
kill -TERM $pid
finish
wants_code 75
wants err 'does not go back to the queue: it was cancelled'
start polite --requeue
"$KEDGE_BIN" halt -n steps -q
finish
wants_code 75
wants err 'does not go back to the queue: somebody asked for its end'
wants_not asked requeue
echo RUNNING >state
SLURM_JOB_ID=8 KEDGE_RUN_FIRST=7
export KEDGE_RUN_FIRST
start polite --follow-up script --lead 2h
finish
wants_code 75
wants asked '^sbatch --parsable --dependency=afterany:8 --export=ALL,KEDGE_RUN_FIRST=7 script$'
[ "$(requests)" -eq 2 ] || die "the journal did not go on in another job"
unset KEDGE_RUN_FIRST

# Options that make no sense here, and a script for Slurm.
unset SLURM_JOB_ID
run --requeue -- true
wants_code 2
wants err 'needs a job of Slurm'
run --requeue --follow-up x -- true
wants_code 2
run --print-sbatch --spares 1 -- srun -n 4 ./heat2d --title "it's hot"
wants_code 0
wants out '^#SBATCH --no-kill'
wants out "^exec kedge run --requeue --spares 1 -- srun -n 4 ./heat2d --title 'it'\\\\''s hot'\$"
sh -n out
rm kedge-run-7.journal
no_journal_left
