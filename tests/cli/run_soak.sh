# SPDX-License-Identifier: BSD-3-Clause
# Eight ranks on four nodes with an L1 each, protected by xor, and a staging server: nodes and the server are killed at
# random, and the job ends with the answer of the undisturbed run. A node is a directory and the ranks that have their L1
# there; its death is theirs, and the end of the directory. A spare takes its place, so that ranks are placed differently.
# Usage: run_soak.sh [--seed N] [--minutes N] [--keep DIR]; without minutes one job, killed at chosen moments
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
heat=$BUILD_DIR/examples/heat2d
[ -x "$heat" ] || exit 77
case $("$KEDGE_BIN" info --json) in
*'"staging": "no"'*) exit 77 ;;
esac

seed=1 minutes=0 keep=
while [ $# -gt 0 ]; do
	case $1 in
	--seed) seed=$2 ;;
	--minutes) minutes=$2 ;;
	--keep) keep=$2 ;;
	*) die "unknown option $1" ;;
	esac
	shift 2
done
unset SLURM_JOB_NODELIST PBS_NODEFILE LSB_DJOB_HOSTFILE || :
top=$PWD
patience=600 # seconds without the end of a job, after which it counts as stuck
steps=60 retries=5
[ "$minutes" -eq 0 ] || { steps=200 retries=60; }
size="--cells 192 --steps $steps --quiet"
server= job=

say() {
	echo "$(date +%T) $*" | tee -a events
}

# draw N: a number below N in $drawn. The same seed draws the same numbers.
draw() {
	state=$(((state * 1103515245 + 12345) % 2147483648))
	drawn=$((state / 65536 % $1))
}

# ---- the server

server_start() { # PORT
	rm -f address.pipe
	mkfifo address.pipe
	"$KEDGE_BIN" serve -s l2 --listen "127.0.0.1:$1" --auth "key:$top/key" >address.pipe 2>>server.log &
	server=$!
	read -r address <address.pipe || die "the server does not begin: $(tail -n 3 server.log)"
	port=${address##*:}
}

server_kill() {
	say "the server is killed"
	kill -9 "$server"
	wait "$server" 2>/dev/null || :
	server=
}

# ---- nodes

# A rank: its node is that of the launch in whose place it is, two ranks each.
cat >rank.sh <<'END2'
node=$(echo "$KEDGE_RUN_NODES" | cut -d, -f$((OMPI_COMM_WORLD_RANK / 2 + 1)))
export KEDGE_NODE="$node" KEDGE_L1="$PWD/nodes/$node/l1"
mkdir -p "nodes/$node"
echo $$ >"pids/$node.$OMPI_COMM_WORLD_RANK"
exec "$@"
END2

rank_lives() { # PID NODE: and is a rank of that node, not another process that got the number
	tr '\0' '\n' <"/proc/$1/environ" | grep -qx "KEDGE_L1=$top/round/nodes/$2/l1"
} 2>/dev/null

node_kill() { # NODE
	say "node $1 is lost"
	at_loss=$(versions_taken)
	touch "round/down/$1"
	for file in "round/pids/$1".*; do
		[ -e "$file" ] || continue
		pid=$(cat "$file")
		! rank_lives "$pid" "$1" || kill -9 "$pid" 2>/dev/null || :
	done
	until rm -rf "round/nodes/$1" 2>/dev/null; do :; done
}

# The nodes that are in use, or were a moment ago.
nodes_now() {
	sed -n 's/.*launching on [0-9]* of [0-9]* nodes: //p' round/err | tail -n 1 | tr , ' '
}

node_any() { # one of them in $node, "" if none is known yet
	# shellcheck disable=SC2046
	set -- $(nodes_now)
	node=
	[ $# -gt 0 ] || return 0
	draw $#
	shift "$drawn"
	node=$1
	[ ! -e "round/down/$node" ] || node=
}

# ---- jobs

job_start() {
	rm -rf round l2
	mkdir -p round/down round/nodes round/pids
	: >round/journal
	awk 'BEGIN { for (i = 0; i < 64; i++) printf "node%02d\n", i }' >round/hosts
	(
		cd round
		export KEDGE_L2="$top/l2" KEDGE_STAGE="$address" KEDGE_STAGE_AUTH="key:$top/key"
		export KEDGE_PROTECT=xor:4 KEDGE_KEEP=3 KEDGE_L2_KEEP=3 KEDGE_BEGIN_IF_LOST=yes
		# shellcheck disable=SC2086,SC2016
		exec "$KEDGE_BIN" run --backoff 0 --patience 0 --retries "$retries" --journal journal --hosts hosts --spares 60 \
			--check-node 'test ! -e down/$KEDGE_NODE' -- mpirun -n 8 sh ../rank.sh "$heat" $size --every 5 --output answer
	) >round/out 2>round/err &
	job=$!
}

job_lives() {
	kill -0 "$job" 2>/dev/null
}

versions_taken() {
	grep -c '"event":"sealed"' round/journal || :
}

# Until N more versions were taken; false: the job has ended.
versions_wait() { # N
	want=$(($(versions_taken) + $1))
	until [ "$(versions_taken)" -ge "$want" ]; do
		job_lives || return 1
		[ "$(date +%s)" -lt "$deadline" ] || stuck
		sleep 0.05
	done
}

stuck() {
	ps -ef >round/processes
	die_here "the job did not end within $patience s"
}

die_here() { # WHY: with all that there is to find out
	[ -z "$keep" ] || { rm -rf "$keep"; cp -r . "$keep"; echo "everything is in $keep" >&2; }
	for file in events server.log round/err round/out; do
		echo "--- $file" >&2
		tail -n 40 "$file" >&2
	done
	echo "FAILED: round $round of seed $seed: $*" >&2
	exit 1
}

# One, or two at once, which is more than xor survives: then L2 has the answer.
event() { # KIND
	case $1 in
	node | both | two)
		node_any
		[ -z "$node" ] || node_kill "$node"
		;;
	esac
	case $1 in
	server | both)
		server_kill
		server_start "$port"
		;;
	two)
		node_any
		[ -z "$node" ] || node_kill "$node"
		;;
	esac
}

# A loss after a loss, before a version was taken, is more than xor survives: L2 must have something then.
event_random() {
	draw 10
	l2=$("$KEDGE_BIN" ls -s l2 -n heat2d --quiet 2>/dev/null || :)
	[ -n "$l2" ] || [ "$(versions_taken)" -gt "${at_loss:-0}" ] || drawn=5
	case $drawn in
	0 | 1 | 2 | 3 | 4) event node ;;
	5 | 6 | 7) event server ;;
	8) event both ;;
	9) if [ -n "$l2" ]; then event two; else event node; fi ;;
	esac
}

job_end() {
	while job_lives; do
		[ "$(date +%s)" -lt "$deadline" ] || stuck
		sleep 0.1
	done
	code=0
	wait "$job" || code=$?
	job=
	[ "$code" -eq 0 ] || die_here "the job ended with $code"
	cmp expected round/answer || die_here "another answer"
	"$KEDGE_BIN" verify -s l2 -n heat2d >verified 2>&1 || die_here "L2 is damaged: $(tail -n 3 verified)"
	say "round $round: right, $(sed -n 's/.*: \([0-9]* launch[es]*\).*/\1/p' round/err | tail -n 1), $(versions_taken) versions"
}

# While nothing reaches L2, what a node had comes from the other nodes alone.
play_short() {
	server_kill
	job_start
	versions_wait 2 || die_here "the job ended at once"
	event node
	until grep -q '"event":"restart"' round/journal; do
		job_lives || die_here "the job ended instead of a restart"
		sleep 0.05
	done
	versions_wait 1 || die_here "the job ended after its restart"
	server_start "$port"
	event both
}

play() { # a job, with events of the round's own seed
	deadline=$(($(date +%s) + patience))
	at_loss=0
	state=$(((seed * 1000 + round) % 2147483648))
	draw 2
	if [ "$minutes" -eq 0 ]; then
		play_short
	else
		job_start
		draw 10
		events=$((drawn + 2))
		while [ "$events" -gt 0 ]; do
			draw 4
			versions_wait "$drawn" || break
			draw 40
			sleep "$(printf '0.%02d' "$drawn")"
			event_random
			events=$((events - 1))
		done
	fi
	job_end
}

finish() {
	[ -z "$job" ] || { kill "$job" && wait "$job"; } 2>/dev/null || :
	[ -z "$server" ] || { kill -9 "$server" && wait "$server"; } 2>/dev/null || :
}
trap finish EXIT
trap "exit 130" INT
trap "exit 143" TERM

head -c 32 /dev/urandom >key
chmod 600 key
round=0
# shellcheck disable=SC2086
KEDGE_L1=undisturbed mpirun -n 2 "$heat" $size --every "$steps" --output expected
rm -rf undisturbed
server_start 0
until=$(($(date +%s) + minutes * 60))
while :; do
	play
	round=$((round + 1))
	[ "$(date +%s)" -lt "$until" ] || break
done
[ "$minutes" -gt 0 ] || [ "$(grep -c 'lost\|killed' events)" -ge 2 ] || die_here "hardly anything happened to the job"
