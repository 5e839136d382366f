# SPDX-License-Identifier: BSD-3-Clause
# heat2d goes through three allocations that are too short for it, back into the queue each time, and finishes in the fourth with the answer of an
# undisturbed run. Not one step is lost: each life begins with the step at which the last one was asked to end. How far a life comes in its
# time is the machine's affair: the last one computes a few steps more than the third.
#
# By hand, with the time limit of Slurm, which is a minute at least, and without any options: LONG=1 sh tests/with-env.sh THIS-FILE
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
. "$KEDGE_SOURCE/tests/cli/slurm_lib.sh"
heat=$BUILD_DIR/examples/heat2d
[ -x "$heat" ] && command -v sbatch >/dev/null || exit 77
slurm_more=SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1
slurm_start 4

export KEDGE_INTERVAL=1000h heat
# The allocation ends in a minute, kedge run is told, and asks two seconds after its start, or as soon as the job is at work.
export when='--deadline 1min --lead 58s'
[ -z "${LONG:-}" ] || when=
cat >script <<'END'
#!/bin/sh
#SBATCH --nodes=1 --requeue --open-mode=append --output=out --error=err
steps=1000000000
if [ "${SLURM_RESTART_COUNT:-0}" -ge 3 ]; then
	steps=$(($("$KEDGE_BIN" ls -n heat2d -q | tail -1) + 20)) when='--deadline none'
fi
echo "$steps" >steps
exec "$KEDGE_BIN" run --requeue $when --grace 1000 -- \
	mpirun -n 2 "$heat" --cells 1024 --every 0 --steps "$steps" --output answer
END
id=$(sbatch --parsable --time="${LONG:-20}" script)
state() {
	scontrol show job -o "$id" | sed 's/.*JobState=\([A-Z_]*\).*/\1/'
}
# A node refuses a job that was killed there a moment ago, and so Slurm waits before it starts it again; another node has no reason to.
life=0
while :; do
	case $(state) in
	PENDING)
		count=$(scontrol show job -o "$id" | sed 's/.* Restarts=\([0-9]*\).*/\1/')
		[ "$count" -eq $life ] || scontrol update jobid="$id" ReqNodeList="n$count" StartTime=now
		life=$count
		;;
	RUNNING | CONFIGURING | COMPLETING | REQUEUED) ;;
	COMPLETED) break ;;
	*) die "the job ended as $(state)" ;;
	esac
	sleep 0.1
done

[ "$(grep -c 'goes back to the queue' err)" -eq 3 ] || die "not three requeues"
sed -n 's/heat2d: asked to end at step //p' out >ends
sed -n 's/heat2d: restarted at step //p' out >begins
[ "$(wc -l <ends)" -eq 3 ] && cmp ends begins || die "steps were lost"
KEDGE_L1=undisturbed mpirun -n 2 "$heat" --cells 1024 --every 0 --steps "$(cat steps)" --output expected --quiet
cmp expected answer || die "another answer"
[ "$(grep -c '"event":"request",.*"kind":"exit"' "kedge-run-$id.journal")" -eq 3 ] || die "the journal did not survive: $(cat kedge-run-*.journal)"
