#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Try the packages in BUILD/deb as a stranger would: in a bare Debian, each with nothing but what it depends on, as an ordinary user.
# Needs root, mmdebstrap and a mirror; exit 77, saying which, where one of them is lacking. `make check-deb` runs it.
# Usage: check-deb.sh [BUILD]
# shellcheck disable=SC2016
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
debs=$here/${1:-build}/deb
: "${KEDGE_DEBIAN:=bookworm}"

skip() {
	echo "check-deb is skipped: $*" >&2
	exit 77
}
fail() {
	echo "check-deb: $*" >&2
	exit 1
}

ls "$debs"/kedge_*.deb >/dev/null 2>&1 || fail "there are no packages in $debs: run make deb"
[ "$(id -u)" -eq 0 ] || skip 'a chroot can be made only as root'
command -v mmdebstrap >/dev/null || skip 'mmdebstrap is not installed'

root=$(mktemp -d "${TMPDIR:-/tmp}/kedge-deb.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$root"

echo "A bare Debian ($KEDGE_DEBIAN) in $root"
mmdebstrap --quiet --variant=minbase "$KEDGE_DEBIAN" "$root" >"$debs/chroot.log" 2>&1 || {
	tail -n 5 "$debs/chroot.log" >&2
	skip 'no bare Debian could be made: is a mirror reachable?'
}
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/debs"
cp "$debs"/*.deb "$root/debs"
rm -f "$root"/debs/*-dbgsym_*

inside() { # COMMAND...: as root in it
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
user() { # SCRIPT: as an ordinary user, in a home directory
	# Without /sys, the library that MPI finds cores with complains.
	chroot --userspec=stranger "$root" env -i PATH=/usr/bin:/bin HOME=/home/stranger LC_ALL=C.UTF-8 HWLOC_HIDE_ERRORS=2 OMPI_MCA_rmaps_base_oversubscribe=1 \
		OMPI_MCA_btl_vader_single_copy_mechanism=none sh -euc "cd; $1" || fail "this failed: $1"
}
get() { # PACKAGE-OR-PATTERN...
	echo "Installing $*"
	inside sh -c "apt-get -q -y --no-install-recommends install $*" >"$debs/chroot.log" 2>&1 || {
		cat "$debs/chroot.log" >&2
		fail "$* cannot be installed"
	}
}
owned() { # PACKAGE...: no file is left behind by them
	for package; do
		inside dpkg -L "$package"
	done | sort -u | while read -r file; do
		[ -d "$root$file" ] || echo "$file"
	done
}

inside apt-get -q update >"$debs/chroot.log" 2>&1 || skip "no mirror is reachable from it: $(cat "$debs/chroot.log")"
inside useradd -m stranger

# The command alone: no compiler, no MPI, no manual reader.
get '/debs/kedge_*.deb'
if inside dpkg-query -W -f '${Package}\n' | grep -xE 'gcc|gcc-[0-9]+|libopenmpi.*|openmpi.*|.*-dev'; then
	fail 'the command needs a compiler, MPI or development files'
fi
user 'kedge --version'
user 'seq 100000 >numbers; kedge save -n n numbers; echo more >>numbers; kedge save -n n numbers; kedge ls -n n; kedge verify -n n'
user 'mkdir out; kedge restore -n n -v 2 -o out; cmp numbers out/numbers'
user 'kedge plan --help >/dev/null; ls /usr/share/kedge/machines/atlas.ini /usr/share/bash-completion/completions/kedge'
user 'ls /usr/share/man/man1/kedge-run.1.gz /usr/share/man/man5/kedge.conf.5.gz /usr/share/doc/kedge/guide/tutorial.md* >/dev/null'

# A program: with pkg-config, and statically.
get gcc libc6-dev pkg-config '/debs/libkedge0_*.deb' '/debs/libkedge-dev_*.deb'
user 'cp -r /usr/share/doc/kedge/examples .; cc examples/heat_serial.c -o heat_serial $(pkg-config --cflags --libs kedge)'
user './heat_serial 200 1000; ./heat_serial 200 1000 | grep "restarted at step 200"'
user 'ls /usr/share/man/man3/kedge_open.3.gz /usr/share/man/man3/kedge_close.3.gz >/dev/null'

# With MPI, by CMake.
get cmake make openmpi-bin '/debs/libkedge-mpi0_*.deb' '/debs/libkedge-mpi-dev_*.deb'
user 'cmake -S examples -B by-cmake >log || { cat log; exit 1; }; cmake --build by-cmake >log || { cat log; exit 1; }'
user 'kedge run -- mpirun -n 2 by-cmake/heat2d --cells 256 --die-at 550 --die-rank 1 2>&1 | grep "restarted at step 500"'

# The program of the guide for users of VELOC.
get '/debs/libkedge-veloc_*.deb'
mkdir "$root/guide"
cp "$here/scripts/check-guide.sh" "$here/docs/guide/from-veloc.md" "$root/guide"
user 'mkdir veloc; cd veloc; sh /guide/check-guide.sh /guide/from-veloc.md'

# All of it goes away again.
packages=$(find "$root/debs" -name '*.deb' -exec basename {} \; | sed 's/_.*//')
# shellcheck disable=SC2086
owned $packages >"$debs/owned"
[ -s "$debs/owned" ] || fail 'the packages own no files'
# shellcheck disable=SC2086
inside apt-get -q -y purge $packages >"$debs/chroot.log" 2>&1 || fail "they cannot be removed: $(cat "$debs/chroot.log")"
while read -r file; do
	[ ! -e "$root$file" ] || fail "left behind: $file"
done <"$debs/owned"
rm -f "$debs/owned" "$debs/chroot.log"
echo "The packages work in a bare Debian ($KEDGE_DEBIAN)."
