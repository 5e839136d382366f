# SPDX-License-Identifier: BSD-3-Clause
# The recipe of the guide: a program that is told to end saves its state, and continues with the very step at which it ended.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
program=$BUILD_DIR/examples/interruptible
[ -x "$program" ] || exit 77

mkfifo lines
for signal in TERM INT; do
	env --default-signal=INT "$program" 1000000000000 >lines 2>err &
	pid=$!
	exec 3<lines
	read -r began <&3
	kill -$signal $pid
	read -r ended <&3
	exec 3<&-
	wait $pid || die "it failed: $(cat err)"
	case $ended in
	"ended at step "*) ;;
	*) die "it said '$ended'" ;;
	esac
	[ "$signal" = TERM ] || [ "$began" = "step ${before#ended at step }" ] || die "it began with '$began' after '$before'"
	before=$ended
done
last=${ended#ended at step }
"$program" $((last + 10)) >out
wants out "^step $last$"
wants out "^done at step $((last + 10))$"
[ "$(kedge ls -n interruptible -q | tr '\n' ' ')" = "1 2 3 " ] || die "versions: $(kedge ls)"
