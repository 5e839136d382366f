# SPDX-License-Identifier: BSD-3-Clause
# check.sh tries all builds whatever fails, and ends with one summary and a status that says whether anything failed.
set -eu

# A system made of stubs: `script/NAME` is what ctest prints of build NAME, and `script/few` of some tests by name; a file
# `broken` names a build that fails, and `room` says how much of memory files may take.
mkdir -p bin tree/scripts script
cp "$KEDGE_SOURCE/scripts/check.sh" tree/scripts/
stub() { # NAME, with its body on standard input
	{ echo '#!/bin/sh'; cat; } >"bin/$1"
	chmod +x "bin/$1"
}
stub cmake <<'END'
echo '-- Configuring done'
END
stub ninja <<END
case \$2 in
*/\$(cat "$PWD/broken")) echo 'a line of the compiler'; exit 1 ;;
esac
END
stub ctest <<END
script=\$(basename "\$2")
case " \$* " in
*' -R '*) script=few ;;
esac
echo "\$script \${TMPDIR-}" >>"$PWD/calls"
cat "$PWD/script/\$script"
! grep -q '(Failed)' "$PWD/script/\$script"
END
stub df <<END
printf 'a\nb c d %s\n' "\$(cat "$PWD/room")"
END
stub nproc <<'END'
echo 2
END
PATH=$PWD/bin:$PATH

good() { # TOTAL
	printf '\n100%% tests passed, 0 tests failed out of %s\n\nTotal Test time (real) =  1.00 sec\n' "$1"
}
run() { # EXPECTED-STATUS
	rm -f calls
	status=0
	sh tree/scripts/check.sh >out 2>&1 || status=$?
	[ "$status" -eq "$1" ] || { cat out; echo "status $status, not $1"; exit 1; }
}
line() { # a line that must be there
	grep -qx -- "$1" out || { cat out; echo "no line: $1"; exit 1; }
}
ends() { # the last line
	[ "$(tail -n 1 out)" = "$1" ] || { cat out; echo "the last line is not: $1"; exit 1; }
}

echo none >broken
echo 0 >room
good 10 >script/thread
good 20 >script/address
good 30 >script/plain
run 0
ends '100% tests passed, 0 tests failed out of 60'
line 'plain            30        0        0'
[ "$(wc -l <calls)" -eq 3 ]

# Where there is room in memory, files of the plain build are there for some tests alone.
if [ -d /dev/shm ]; then
	echo 9000000 >room
	good 5 >script/few
	run 0
	ends '100% tests passed, 0 tests failed out of 65'
	line 'in memory         5        0        0'
	grep -q '^thread /dev/shm/' calls
	[ "$(sed -n 's/^plain //p' calls)" = "${TMPDIR-}" ]
	grep -q '^few /dev/shm/' calls
	[ "$(wc -l <calls)" -eq 4 ]
	memory=$(sed -n 's/^few //p' calls)
	[ ! -e "$memory" ] || { echo "left behind: $memory"; exit 1; }
	echo plain >broken
	run 1
	[ "$(wc -l <calls)" -eq 2 ]
	echo none >broken
	echo 0 >room
fi

# Tests that fail in the first run and are skipped in the second: the third is run all the same.
cat >script/thread <<'END'

80% tests passed, 2 tests failed out of 10

Total Test time (real) =  1.00 sec

The following tests FAILED:
	  4 - job/test_one (Failed)
	  7 - job/test_two (Timeout)
Errors while running CTest
END
cat >script/address <<'END'

100% tests passed, 0 tests failed out of 20

Total Test time (real) =  1.00 sec

The following tests did not run:
	 37 - capture/test_cow (Skipped)
	 38 - capture/test_cow_gone (Skipped)

END
run 1
line 'thread            8        2        0'
line 'address          18        0        2'
line 'plain            30        0        0'
line '	thread: job/test_one (Failed)'
line '	thread: job/test_two (Timeout)'
ends '96% tests passed, 2 tests failed out of 60'

# A build that fails is said, with what the compiler said, and is not taken for tests that passed.
good 10 >script/thread
echo address >broken
run 1
line 'a line of the compiler'
line 'address           -        -        -'
line '	address: the build'
ends '97% tests passed, 1 tests failed out of 41'
[ "$(wc -l <calls)" -eq 2 ]

# ctest that says nothing at all.
echo none >broken
: >script/plain
run 1
line '	plain: ctest'
[ -z "$(ls tree/build)" ] || { ls tree/build; echo 'left behind'; exit 1; }
