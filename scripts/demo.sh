#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The demonstration: a parallel job loses a rank in mid-run, restarts, and ends with the same answer, bit for bit.
# Usage: demo.sh BUILD-DIRECTORY
set -eu

cd "$(dirname "$0")/.."
build=${1:-build/plain}
ranks=4
job="--cells 1536 --steps 600 --every 50"
die_at=370
die_rank=2

# Ranks may outnumber the cores and may belong to root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# The demonstration shows the defaults.
for name in $(env | sed -n 's/^\(KEDGE_[A-Z0-9_]*\)=.*/\1/p'); do
	unset "$name"
done

title() {
	printf '\n%s\n' "$*"
	printf '%s\n' "$*" | sed 's/./-/g'
}

quietly() { # LOG COMMAND...
	log=$1
	shift
	"$@" >"$log" 2>&1 || {
		cat "$log" >&2
		exit 1
	}
}

work=$(mktemp -d "${TMPDIR:-/tmp}/kedge-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title "Building"
quietly "$work/log" cmake -S . -B "$build" -G Ninja -DKEDGE_WERROR=ON
quietly "$work/log" ninja -C "$build" -j "$(nproc)" kedge heat2d
bin=$(cd "$build" && pwd)
kedge=$bin/bin/kedge
heat2d=$bin/examples/heat2d
echo "$("$kedge" --version), heat2d on $ranks ranks"

title "1. An undisturbed run"
echo "A hot spot in a cold plate of 1536 x 1536 cells, 600 steps, a checkpoint every 50."
mkdir "$work/undisturbed" "$work/killed"
# shellcheck disable=SC2086
(cd "$work/undisturbed" && mpirun -n $ranks "$heat2d" $job --output answer)

title "2. The same job under kedge run; rank $die_rank is killed with SIGKILL at step $die_at"
# mpirun prints a lot about a dead rank; it is shown only if the job fails in the end.
# shellcheck disable=SC2086
{
	code=0
	(cd "$work/killed" && "$kedge" run -- mpirun -n $ranks "$heat2d" $job --output answer \
		--die-at $die_at --die-rank $die_rank) 2>&1 || code=$?
	echo $code >"$work/code"
} | tee "$work/messages" | grep --line-buffered -E '^(heat2d|kedge run|  launch)' || :
if [ "$(cat "$work/code")" -ne 0 ]; then
	cat "$work/messages" >&2
	exit 1
fi

title "3. The answers"
(cd "$work" && sha256sum undisturbed/answer killed/answer)
cmp "$work/undisturbed/answer" "$work/killed/answer"
echo "They are equal, bit for bit."

title "4. What each checkpoint cost"
(cd "$work/killed" && "$kedge" ls -n heat2d --json) >"$work/versions"
awk '
	function mib(bytes) { return bytes / 1048576 }
	{ gsub(/[",]/, "") }
	/^ *version:/ { version = $2 }
	/^ *reducer:/ { reducer = $2 }
	/^ *raw_bytes:/ { raw = $2 }
	/^ *stored_bytes:/ { stored = $2 }
	/^ *literal_bytes:/ { literal = $2 }
	/^ *seconds:/ {
		if (!n++)
			printf "%8s  %-8s %10s %10s %10s %10s %9s\n", "version", "reducer", "raw MiB", "new MiB", "stored MiB", "of raw", "blocked s"
		printf "%8d  %-8s %10.2f %10.2f %10.2f %9.1f%% %9.3f\n", version, reducer, mib(raw), mib(literal), mib(stored), 100 * stored / raw, $2
		all_raw += raw; all_literal += literal; all_stored += stored; all_seconds += $2
	}
	END {
		if (!n || !all_stored) {
			print "no versions were listed" > "/dev/stderr"
			exit 1
		}
		printf "%8s  %-8s %10.2f %10.2f %10.2f %9.1f%% %9.3f\n\n", "all", "", mib(all_raw), mib(all_literal), mib(all_stored), 100 * all_stored / all_raw, all_seconds
		printf "%d full copies would take %.1f MiB; the record takes %.2f MiB: %.1f times less.\n", n, mib(all_raw), mib(all_stored), all_raw / all_stored
		print "(Cells far from the hot spot do not change yet, so they are not stored again.)"
	}' "$work/versions"

title "5. Every stored byte is checked"
(cd "$work/killed" && "$kedge" verify -n heat2d)
