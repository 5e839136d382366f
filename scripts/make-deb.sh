#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build Debian packages of this tree, as it is, in BUILD/deb, and check them with lintian.
# Usage: make-deb.sh [BUILD]
set -eu

cd "$(dirname "$0")/.."
mkdir -p "${1:-build}/deb"
out=$(cd "${1:-build}/deb" && pwd)
full=$(sed -n '1s/^kedge (\([^)]*\)).*/\1/p' debian/changelog)
version=${full%-*}
tree=$out/kedge-$version
changes=$out/kedge_${full}_$(dpkg --print-architecture).changes

# The files of the tree: those that git knows or does not ignore; of an unpacked archive, all but build/.
files() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files --cached --others --exclude-standard
	else
		find . -path ./build -prune -o \( -type f -o -type l \) -print | sed 's|^\./||'
	fi | while read -r file; do
		if [ -e "$file" ] || [ -L "$file" ]; then
			printf '%s\n' "$file"
		fi
	done
}

quietly() { # COMMAND...: what it says matters only if it fails
	if ! "$@" >"$out/log" 2>&1; then
		cat "$out/log" >&2
		echo "$1 failed; its output is in $out/log" >&2
		exit 1
	fi
}

rm -rf "$tree" "$out"/*.deb "$out"/kedge_*
mkdir "$tree"
files | tar -cf - -T - | tar -xf - -C "$tree"
# Without the debian directory and in one order, it is what upstream would publish.
tar -C "$out" --exclude="kedge-$version/debian" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$out/kedge_$version.orig.tar.xz" \
	"kedge-$version"
cd "$tree"
echo "Building the packages of kedge $full in $tree"
quietly dpkg-buildpackage -us -uc
echo 'Checking them with lintian'
lintian --tag-display-limit 0 --fail-on error,warning "$changes"
rm -rf "$tree"
cd "$out"
ls -- *.deb
