# SPDX-License-Identifier: BSD-3-Clause
# Test programs use tests/lib, and none has its own main, scratch directory, walk over a tree, or generator. Every cmocka
# program lists its cases, runs those that it is asked for, and refuses other arguments.
set -eu

findings() { # ROOT: one line each
	(
		cd "$1"
		find tests -name '*.[ch]' ! -path 'tests/lib/*' | LC_ALL=C sort | while read -r file; do
			grep -HnE '\b(mkdtemp|nftw|ftw|cmocka_run_group_tests|cmocka\.h)\b' "$file" || :
			case $file in
			*/make_golden.c) ;; # its stores keep their contents
			*) grep -HnE '6364136223846793005|\^= [*a-z>-]+ << 13' "$file" || : ;;
			esac
			if grep -q 'struct CMUnitTest' "$file" && ! grep -qE '\bcases_(run(_where)?|main)\(' "$file"; then
				echo "$file: does not run its cases by cases_run()"
			fi
		done
	)
}

found=$(findings "$KEDGE_SOURCE")
if [ -n "$found" ]; then
	echo "$found"
	echo 'these belong to tests/lib (CONTRIBUTING.md)'
	exit 1
fi

# Each of them is found.
mkdir -p tree/tests/lib tree/tests/x
echo 'nftw(mkdtemp(dir));' >tree/tests/lib/files.c
[ -z "$(findings tree)" ]
for line in 'mkdtemp(dir);' 'nftw(dir, f, 16, 0);' 'return cmocka_run_group_tests(tests, NULL, NULL);' \
	'#include <cmocka.h>' 'x = x * 6364136223846793005u + 1;' '*x ^= *x << 13;' 'const struct CMUnitTest tests[1];'; do
	echo "$line" >tree/tests/x/test_x.c
	[ -n "$(findings tree)" ] || { echo "not found: $line"; exit 1; }
done
echo 'const struct CMUnitTest tests[1]; cases_run(argc, argv, tests, NULL, NULL);' >tree/tests/x/test_x.c
[ -z "$(findings tree)" ]

program=$BUILD_DIR/tests/base/test_error
[ -x "$program" ] || exit 0 # built without cmocka
status() { # EXPECTED ARG...
	expected=$1
	shift
	got=0
	"$program" "$@" >out 2>err || got=$?
	[ "$got" -eq "$expected" ] || { cat out err; echo "$*: status $got, not $expected"; exit 1; }
}
status 0 --list
[ "$(wc -l <out)" -eq "$(grep -c 'cmocka_unit_test(' "$KEDGE_SOURCE/tests/base/test_error.c")" ]
grep -qx errno_maps out
status 0 --case errno_maps --case 'null_*'
[ "$(cat out err | grep -c '  OK ]')" -eq 2 ]
status 2 --case nothing
grep -q nothing err
status 2 --case
status 2 --lost
status 2 errno_maps
