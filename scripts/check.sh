#!/bin/sh
# Build three times (plain with -Werror; address and undefined-behaviour sanitizers; thread sanitizer) and run the
# tests of each. Ends at the first run that fails, so that the last lines are always the summary that matters.
set -eu

cd "$(dirname "$0")/.."
jobs=$(nproc)
: "${KEDGE_BUILD_ROOT:=build}"
# Tests wait for storage, and those of MPI count as two: four at a time keep two cores busy.
: "${CTEST_PARALLEL_LEVEL:=4}"
export CTEST_PARALLEL_LEVEL

# Stages whose tests start threads.
threaded='^(pipeline|reduce|codec|store|restore|job)$'

build() { # NAME [OPTION...]
	dir=$KEDGE_BUILD_ROOT/$1
	shift
	echo "== $dir: $*"
	cmake -S . -B "$dir" -G Ninja -DKEDGE_WERROR=ON -DKEDGE_TESTS=ON "$@" >"$dir.log" 2>&1 || {
		cat "$dir.log"
		exit 1
	}
	sed -n '/^-- Kedge/,/^-- Configuring/p' "$dir.log" | sed '/^-- Configuring/d'
	ninja -C "$dir" -j "$jobs" >"$dir.log" 2>&1 || {
		cat "$dir.log"
		exit 1
	}
	rm -f "$dir.log"
}

run_tests() { # NAME [CTEST-ARGUMENT...]
	dir=$KEDGE_BUILD_ROOT/$1
	shift
	echo "== $dir: tests"
	$fixed ctest --test-dir "$dir" --output-on-failure --no-label-summary --no-tests=error "$@"
}

mkdir -p "$KEDGE_BUILD_ROOT"
fixed=
build plain -DKEDGE_SANITIZE=
build address -DKEDGE_SANITIZE=address,undefined
build thread -DKEDGE_SANITIZE=thread

# The thread sanitizer wants its shadow memory where address randomisation of newer kernels may put a mapping.
if setarch -R true 2>/dev/null; then
	fixed='setarch -R'
fi
# reduce/test_large is about sizes, and takes a minute there; test_oracle has the same threads.
run_tests thread -L "$threaded" -LE mpi -E '^reduce/test_large$'
fixed=
run_tests address
run_tests plain
