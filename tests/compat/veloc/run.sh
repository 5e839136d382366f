#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A run that is killed again and again, each time with another misfortune before the next start, ends with the very bits
# of an undisturbed one. Usage: run.sh PROGRAM MPIEXEC RANKS MODE [SEED]
set -eu

program=$1 mpiexec=$2 ranks=$3 mode=$4 seed=${5:-$3}
dir=$(mktemp -d "${TMPDIR:-/tmp}/kedge-veloc-run-XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export OMPI_MCA_odls_base_sigkill_timeout=0 # the others need not be asked twice

fail() {
	echo "run.sh: $*" >&2
	cat log err >&2 2>/dev/null || :
	exit 1
}

config() { # DIR
	cat >"$1.cfg" <<-END
		scratch = $dir/$1/scratch
		persistent = $dir/$1/persistent
		mode = $mode
		max_versions = 6
		scratch_versions = 4
		log_level = error
		threads = 1
	END
}

# run NAME STEP: until it ends, or until a rank dies in STEP.
run() {
	DIE_STEP=$2 DIE_RANK=$((seed % ranks)) "$mpiexec" -n "$ranks" "$program" "$1.cfg" >log 2>err && return 0
	[ "$2" -gt 0 ] || fail "the last run failed"
}

restarted() { # the version that the run began with, or 0
	sed -n 's/^restart //p' log | grep . || echo 0
}

newest() { # of all levels
	ls -d a/*/heat/set-* | sed 's/.*set-0*//' | sort -n | tail -n 1
}

segments() { # VERSION: the last rank's, on each level
	ls a/*/heat/v"$(printf %020d "$1")"/r"$(printf %07d $((ranks - 1)))"-*.seg
}

random() { # LOW HIGH: the same for the same seed
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	echo $(($1 + seed / 65536 % ($2 - $1 + 1)))
}

config a
config b
run b 0
want=$(grep '^result' log) || fail "no result"

run a "$(random 25 35)"
[ "$(restarted)" = 0 ] || fail "the first run did not begin at the beginning"
rm -rf a/scratch
run a "$(random 45 55)"
[ "$(restarted)" -ge 10 ] || fail "scratch was lost: began with $(restarted)"

lost=$(newest)
rm -f $(segments "$lost")
run a "$(random 65 75)"
[ "$(restarted)" -ge 10 ] || fail "a file of version $lost was lost: began with $(restarted)"
[ "$(restarted)" -lt "$lost" ] || fail "version $lost is not complete, and was used"

lost=$(newest)
for file in $(segments "$lost"); do
	truncate -s $(($(stat -c %s "$file") / 2)) "$file"
done
run a "$(random 85 95)"
[ "$(restarted)" -ge 10 ] || fail "version $lost was cut: began with $(restarted)"
[ "$(restarted)" -lt "$lost" ] || fail "version $lost is cut, and was used"

lost=$(newest)
for file in $(segments "$lost"); do
	byte=$(dd if="$file" bs=1 skip=100 count=1 2>/dev/null | od -An -tu1 | tr -d ' ')
	printf "\\$(printf %o $((byte ^ 16)))" | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
done
run a 0
[ "$(restarted)" -ge 10 ] || fail "version $lost was damaged: began with $(restarted)"
[ "$(restarted)" -lt "$lost" ] || fail "version $lost is damaged, and was used"
[ "$(grep '^result' log)" = "$want" ] || fail "another result: $(grep '^result' log), not $want"
