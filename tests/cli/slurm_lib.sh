# SPDX-License-Identifier: BSD-3-Clause
# A Slurm of our own for a test: one controller and some nodes n0, n1, ..., all on this machine, as ordinary processes that end
# with the test; sourced after run_lib.sh. 77 (skipped) where Slurm is not installed.
PATH=$PATH:/usr/sbin
for program in slurmctld slurmd srun salloc sinfo scontrol; do
	command -v $program >/dev/null || { echo "SKIPPED: there is no $program"; exit 77; }
done
unset SLURM_JOB_ID SLURM_JOB_NODELIST || :
slurm=$PWD/slurm
slurm_pids=

slurm_stop() {
	for pid in $slurm_pids; do
		kill -KILL "$pid" 2>/dev/null || :
	done
	for pid in $slurm_pids; do
		wait "$pid" 2>/dev/null || :
	done
	[ -z "$slurm_pids" ] || slurm_steps_kill '*'
	slurm_pids=
}
trap 'slurm_stop' EXIT
trap 'exit 143' TERM INT HUP

slurm_config() { # NODES FIRST-PORT
	cat <<-END
		ClusterName=test
		SlurmctldHost=$(hostname -s)(127.0.0.1)
		SlurmctldPort=$2
		SlurmUser=$(id -un)
		SlurmdUser=$(id -un)
		AuthType=auth/none
		CredType=cred/none
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		MpiDefault=none
		ReturnToService=0
		StateSaveLocation=$slurm/state
		SlurmdSpoolDir=$slurm/spool/%n
		SlurmctldPidFile=$slurm/ctld.pid
		SlurmdPidFile=$slurm/%n.pid
		SlurmctldLogFile=$slurm/ctld.log
		SlurmdLogFile=$slurm/%n.log
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SwitchType=switch/none
		JobAcctGatherType=jobacct_gather/none
		KillWait=2
		${slurm_more:-}
	END
	i=0
	while [ $i -lt "$1" ]; do
		echo "NodeName=n$i NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$(($2 + 1 + i)) CPUs=1"
		i=$((i + 1))
	done
	echo "PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP"
}

slurm_all_live() {
	for pid in $slurm_pids; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Nobody gives out ports for good: if one is taken, a daemon ends at once, and others are tried.
slurm_try() { # NODES
	port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 30000))
	rm -rf "$slurm"
	mkdir -p "$slurm/state" "$slurm/spool"
	slurm_config "$1" $port >"$slurm/slurm.conf"
	slurmctld -D -f "$slurm/slurm.conf" >"$slurm/ctld.out" 2>&1 &
	slurm_pids=$!
	i=0
	while [ $i -lt "$1" ]; do
		mkdir "$slurm/spool/n$i"
		slurmd -N n$i -D -f "$slurm/slurm.conf" >"$slurm/n$i.out" 2>&1 &
		slurm_pids="$slurm_pids $!"
		i=$((i + 1))
	done
	while slurm_all_live; do
		[ "$(sinfo -h -t idle -o %D 2>/dev/null)" != "$1" ] || return 0
		sleep 0.1
	done
	slurm_stop
	return 1
}

slurm_start() { # NODES
	export SLURM_CONF="$slurm/slurm.conf"
	for attempt in 1 2 3 4 5 6 7 8; do
		! slurm_try "$1" || return 0
	done
	cat "$slurm"/*.out >&2
	die "Slurm does not start ($attempt attempts)"
}

# Processes of steps on a node outlive its daemon; they have its log open.
slurm_steps_kill() { # NODE
	for link in $(find /proc/[0-9]*/fd -lname "$slurm/$1.log" 2>/dev/null); do
		pid=${link#/proc/}
		pid=${pid%%/*}
		pkill -KILL -P "$pid" || :
		kill -KILL "$pid" 2>/dev/null || :
	done
}

# The death of a node: the word of the controller, and all of its processes. In the other order a job that is launched again at
# once may get the dead node once more, before anybody knows, and wait for it.
slurm_node_dies() { # NODE
	scontrol update nodename="$1" state=down reason=test
	slurm_steps_kill "$1"
}
