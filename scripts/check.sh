#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build three times (plain with -Werror; address and undefined-behaviour sanitizers; thread sanitizer) and run the tests
# of each. A failure does not prevent the rest from being run; the last lines are a summary, in ctest's format, and
# the exit status is 1 if anything failed.
set -eu

cd "$(dirname "$0")/.."
jobs=$(nproc)
: "${KEDGE_BUILD_ROOT:=build}"
# Tests wait for storage, and those of MPI count as two: four at a time keep two cores busy.
: "${CTEST_PARALLEL_LEVEL:=4}"
export CTEST_PARALLEL_LEVEL
# Memory that was freed is not given out again for the next 16 MB: with 256, as is usual, and with what is given back to the kernel meanwhile,
# a third of the time of these tests is the kernel's, for fresh pages.
: "${ASAN_OPTIONS:=quarantine_size_mb=16:allocator_release_to_os_interval_ms=-1}"
export ASAN_OPTIONS

# Stages whose tests start threads: for the thread sanitizer, only these are built and run.
threaded='pipeline reduce store restore job'

mkdir -p "$KEDGE_BUILD_ROOT"
notes=$(mktemp -d "$KEDGE_BUILD_ROOT/check.XXXXXX")
memory=
in_memory=
trap 'rm -rf "$notes" "$memory" "$in_memory"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
: >"$notes/table"
: >"$notes/failed"
total=0 failures=0

row() { # BUILD PASSED FAILED SKIPPED
	printf '%-10s %8s %8s %8s\n' "$@" >>"$notes/table"
}

build() { # NAME TARGETS [OPTION...]
	name=$1
	targets=$2
	dir=$KEDGE_BUILD_ROOT/$name
	shift 2
	echo "== $dir: $*"
	# Of kernels for GPUs, one architecture shows that they compile.
	if ! cmake -S . -B "$dir" -G Ninja -DKEDGE_WERROR=ON -DKEDGE_TESTS=ON -DKEDGE_QUICK=ON -DKEDGE_GPU_ARCHS=90 "$@" >"$notes/log" 2>&1; then
		cat "$notes/log"
		return 1
	fi
	sed -n '/^-- Kedge/,/^-- Configuring/p' "$notes/log" | sed '/^-- Configuring/d'
	# shellcheck disable=SC2086
	if ! ninja -C "$dir" -j "$jobs" $targets >"$notes/log" 2>&1; then
		cat "$notes/log"
		return 1
	fi
}

give_up() { # BUILD WHAT: nothing of it was run; it counts as one failure
	row "$1" - - -
	echo "$1: $2" >>"$notes/failed"
	total=$((total + 1))
	failures=$((failures + 1))
}

# ctest counts skipped tests among those that passed.
count() { # NAME, with the output of ctest in $notes/log
	failed=$(sed -n 's/.* tests passed, \([0-9]*\) tests failed out of .*/\1/p' "$notes/log" | tail -n 1)
	all=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' "$notes/log" | tail -n 1)
	if [ -z "$all" ]; then
		give_up "$1" ctest
		return
	fi
	skipped=$(sed -n '/^The following tests did not run:/,/^$/p' "$notes/log" | grep -c '(Skipped)$' || :)
	row "$1" $((all - failed - skipped)) "$failed" "$skipped"
	sed -n '/^The following tests FAILED:/,$p' "$notes/log" | sed -n "s/^[[:space:]]*[0-9]* - /$1: /p" >>"$notes/failed"
	total=$((total + all))
	failures=$((failures + failed))
}

tests() { # NAME TITLE [CTEST-ARGUMENT...]: those of build NAME, a line with TITLE of the summary
	name=$1
	title=$2
	shift 2
	echo "== $KEDGE_BUILD_ROOT/$name: tests${memory:+, with their files in memory}"
	{
		${memory:+env "TMPDIR=$memory"} $fixed ctest --test-dir "$KEDGE_BUILD_ROOT/$name" --output-on-failure \
			--no-label-summary --no-tests=error "$@" 2>&1 || :
	} | tee "$notes/log"
	count "$title"
}

check() { # NAME SANITIZERS TARGETS [CTEST-ARGUMENT...]
	name=$1
	sanitizers=$2
	targets=$3
	shift 3
	if build "$name" "$targets" "-DKEDGE_SANITIZE=$sanitizers"; then
		tests "$name" "$name" "$@"
	else
		give_up "$name" 'the build'
		return 1
	fi
}

# With sanitizers the files of tests are in memory, where there is room for them: what a disk does differently the plain build sees.
if [ -d /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 6000000 ]; then
	memory=$(mktemp -d /dev/shm/kedge-check.XXXXXX)
	chmod 1777 "$memory" # like /tmp: some tests are another user's
fi
# The thread sanitizer needs its shadow memory where the address randomisation of newer kernels may put a mapping.
fixed=
if setarch -R true 2>/dev/null; then
	fixed='setarch -R'
fi
# Without tests that take long under this sanitizer and have no threads of their own to show: of sizes, of many versions
# (test_still and test_cow hold images in the same ways), of pure functions, of races that are the test itself, and of calls that
# fail, but for one program; and of results that do not depend on threads.
labels=$(echo "$threaded" | tr ' ' '|')
units=$(for stage in $threaded; do echo "unit_tests_$stage"; done)
check thread thread "$units" -L "^($labels)\$" -LE mpi \
	-E '^(reduce/test_(large|gpu_finder|gpu_pack|bounds|resolve|cases|record|oracle)|store/test_(fault|damage)|restore/test_verify|job/test_device_restore|job/test_keep|job/test_device_faults|job/test_growth|job/test_race|job/test_retention.*|job/test_no_hang_(open|protect|restart|l2_.*))$' || :
fixed=
# Programs under mpirun run one at a time: of VELOC's, one has all threads. Benchmarks and large sizes show nothing new here,
# nor does every walk.
check address address,undefined '' -E '^(lives/walks-[26]001$|compat/veloc-(run-|bench|api-(1-|2-sync|2-async|2-copy-single))|cli/bench|job/test_growth)' || :
# In the plain build every call fails once, in thousands of small stores that are made and removed: a disk's file system takes three times
# as long for that, and has nothing to add.
failing='^(job/test_(no_hang_.*|device_faults)|store/test_fault)$'
in_memory=$memory
memory=
if check plain '' '' ${in_memory:+-E "$failing"} && [ "$in_memory" ]; then
	memory=$in_memory
	tests plain 'in memory' -R "$failing"
fi

echo
echo '== summary'
printf '%-10s %8s %8s %8s\n' build passed failed skipped
cat "$notes/table"
if [ -s "$notes/failed" ]; then
	echo
	echo 'These failed:'
	sed 's/^/	/' "$notes/failed"
fi
echo
percent=$((100 * (total - failures) / total))
echo "$percent% tests passed, $failures tests failed out of $total"
[ "$failures" -eq 0 ]
