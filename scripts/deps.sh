#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install the distribution's packages that building and testing need; does nothing, and needs no network, if all
# are installed. If it may not install packages, it prints what is missing and the command that installs it.
# Usage: deps.sh build|check|deb, or list [build|check|deb]
set -eu

# One line per package: its name, then a command that succeeds if the same thing was installed in another way.
needed() {
	cat <<-'END'
		build-essential cc --version
		cmake cmake --version
		ninja-build ninja --version
		pkg-config pkg-config --version
		libxxhash-dev pkg-config --exists libxxhash
		liblz4-dev pkg-config --exists liblz4
		libzstd-dev pkg-config --exists libzstd
		libinih-dev pkg-config --exists inih
		libjansson-dev pkg-config --exists jansson
		libdeflate-dev pkg-config --exists libdeflate
		liburing-dev pkg-config --exists liburing
		libfabric-dev pkg-config --exists libfabric
		libsodium-dev pkg-config --exists libsodium
		libmunge-dev test -e /usr/include/munge.h
		libmicrohttpd-dev pkg-config --exists libmicrohttpd
		libisal-dev test -e /usr/include/isa-l.h
		libfpzip-dev test -e /usr/include/fpzip.h
		libbz2-dev test -e /usr/include/bzlib.h
		zlib1g-dev pkg-config --exists zlib
		libaec-dev test -e /usr/include/libaec.h
		libopenmpi-dev mpicc --version
		openmpi-bin mpirun --version
	END
	if [ "$1" = check ]; then
		cat <<-'END'
			libcmocka-dev pkg-config --exists cmocka
			libhdf5-dev pkg-config --exists hdf5
			hdf5-tools h5diff --version
			python3-h5py test -d /usr/lib/python3/dist-packages/h5py
			python3-netcdf4 test -d /usr/lib/python3/dist-packages/netCDF4
			slurmctld test -x /usr/sbin/slurmctld
			slurmd test -x /usr/sbin/slurmd
			slurm-client srun --version
			prometheus promtool --version
			chromium chromium --version
			munge test -x /usr/sbin/munged
			mold mold --version
		END
	fi
	if [ "$1" = deb ]; then
		cat <<-'END'
			debhelper dh --version
			fakeroot fakeroot --version
			lintian lintian --version
			mmdebstrap mmdebstrap --version
		END
	fi
}

installed() { # PACKAGE
	# shellcheck disable=SC2016
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing() {
	needed "$1" | while read -r package probe; do
		installed "$package" || $probe >/dev/null 2>&1 || printf '%s ' "$package"
	done
}

known() { # PACKAGE...: are all in apt's lists?
	for package; do
		apt-cache show "$package" >/dev/null 2>&1 || return 1
	done
}

refuse() { # WHY
	echo "Kedge needs packages that are not installed: $packages" >&2
	echo "$1 Please run:" >&2
	echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $packages" >&2
	exit 1
}

if [ "${1:-build}" = list ]; then
	needed "${2:-check}" | while read -r package probe; do
		echo "$package"
	done
	exit 0
fi
packages=$(missing "${1:-build}")
packages=${packages% }
[ -n "$packages" ] || exit 0

command -v apt-get >/dev/null || refuse "This system has no apt-get; these are Debian's names."
if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif sudo -n true 2>/dev/null; then
	as_root=sudo
else
	refuse "They can be installed only as root."
fi

# What apt says matters only if it fails.
apt() {
	said=$($as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" 2>&1) || {
		printf '%s\n' "$said" >&2
		return 1
	}
}

echo "Kedge needs these packages, which are installed now with apt-get: $packages"
# shellcheck disable=SC2086
if ! known $packages; then
	apt update
	apt install -y --no-install-recommends $packages
elif ! apt install -y --no-install-recommends $packages; then
	# The lists may be so old that they name files which no longer exist.
	apt update
	apt install -y --no-install-recommends $packages
fi
