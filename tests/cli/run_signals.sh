# Signals reach the command and its children; one that asks to stop ends the run without a relaunch.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

mkfifo ready
cat >job <<'END'
#!/bin/sh
trap 'echo usr1 >>seen' USR1
trap 'echo usr2 >>seen; echo again >ready' USR2
trap 'echo '"$1"' >>seen; exit 5' "$1"
echo "$KEDGE_RUN_LAUNCH" >>launches
echo ready >ready
while :; do
	sleep 60 &
	wait $!
	kill $! 2>/dev/null
done
END
chmod +x job

for signal in TERM HUP INT; do
	rm -f seen launches
	# A shell without job control starts background commands with SIGINT ignored.
	env --default-signal=INT "$KEDGE_BIN" run --backoff 0 -- ./job $signal >out 2>err &
	pid=$!
	read -r _ <ready
	kill -USR1 $pid
	kill -USR2 $pid
	read -r _ <ready
	kill -$signal $pid
	code=0
	wait $pid || code=$?
	case $signal in
	HUP) wants_code 129 ;;
	INT) wants_code 130 ;;
	TERM) wants_code 143 ;;
	esac
	wants seen usr1
	wants seen usr2
	wants seen $signal
	wants err 'stopped by signal'
	[ "$(cat launches)" = 1 ] || die "launched again after $signal"
done
no_journal_left

# What is ignored stays ignored: nohup.
env --ignore-signal=HUP "$KEDGE_BIN" run --backoff 0 -- ./job TERM >out 2>err &
pid=$!
read -r _ <ready
rm -f seen
kill -HUP $pid
kill -USR2 $pid
read -r _ <ready
kill -TERM $pid
code=0
wait $pid || code=$?
wants_code 143

# A signal between two launches ends the run too. The pause is an hour: only the signal can end it.
cat >dies <<'END'
#!/bin/sh
echo 1 >>launches
echo "checkpoint 1 1 1 0 1" >>"$KEDGE_RUN_JOURNAL"
exit 1
END
chmod +x dies
rm -f launches
mkfifo messages
"$KEDGE_BIN" run --backoff 3600 -- ./dies >out 2>messages &
pid=$!
exec 3<messages
read -r line <&3
case $line in
*relaunching*) ;;
*) die "no relaunch announced: $line" ;;
esac
kill -TERM $pid
code=0
wait $pid || code=$?
cat <&3 >err
wants_code 143
[ "$(cat launches)" = 1 ] || die "launched again"
