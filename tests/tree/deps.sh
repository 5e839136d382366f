# SPDX-License-Identifier: BSD-3-Clause
# deps.sh installs only what is missing, updates apt's lists only when it must, and says what to do when it may not.
set -eu
deps=$KEDGE_SOURCE/scripts/deps.sh

# A system made of stubs: `have` lists installed packages, `lists` those that apt knows, `calls` records apt-get.
mkdir bin
stub() { # NAME, with its body on standard input
	{ echo '#!/bin/sh'; cat; } >"bin/$1"
	chmod +x "bin/$1"
}
stub dpkg-query <<'END'
for package; do :; done
grep -qx "$package" have && printf installed
END
stub apt-cache <<'END'
grep -qx "$2" lists
END
stub apt-get <<'END'
echo "$*" >>calls
case "$*" in
*update*) cp all lists ;;
*install*) [ ! -e broken ] || { rm broken; exit 100; } ;;
esac
END
stub id <<'END'
cat uid
END
stub sudo <<'END'
[ -e sudoer ] || exit 1
[ "$1" = -n ] || exec "$@"
END
for probe in cc cmake ninja pkg-config mpicc mpirun; do
	echo 'exit 1' | stub $probe
done
for tool in cat chmod cp env grep rm sh printf; do
	ln -s "$(command -v $tool)" "bin/$tool" 2>/dev/null || :
done
PATH=$PWD/bin

system() { # UID PACKAGES-THAT-ARE-MISSING
	/bin/sh "$deps" list >all
	grep -vx "$2" all >have || :
	cp all lists
	echo "$1" >uid
	rm -f calls broken sudoer
	: >calls
}
expect() { # CODE, of deps.sh check
	code=0
	/bin/sh "$deps" check >out 2>&1 || code=$?
	[ $code -eq "$1" ] || { cat out; echo "exit code $code, not $1"; exit 1; }
}
calls() { # EXPECTED-LINES
	grep -c . calls >count || :
	[ "$(cat count)" -eq "$1" ] || { cat calls; echo "not $1 calls of apt-get"; exit 1; }
}

system 0 none
expect 0
calls 0

system 0 libcmocka-dev
expect 0
calls 1
grep -q 'install -y --no-install-recommends libcmocka-dev$' calls

system 0 libzstd-dev
: >lists
expect 0
calls 2

# Lists that are too old: the first attempt fails.
system 0 libzstd-dev
: >broken
expect 0
calls 3

system 1000 libinih-dev
: >sudoer
expect 0
calls 1

system 1000 'lib[iz].*-dev'
expect 1
calls 0
grep -q 'sudo apt-get install -y --no-install-recommends libzstd-dev libinih-dev$' out

# What is there without a package counts too.
system 1000 libinih-dev
echo '[ "$2" != inih ] || exit 0; exit 1' | stub pkg-config
expect 0
calls 0
