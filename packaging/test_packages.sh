# SPDX-License-Identifier: BSD-3-Clause
# Debian packages without building them: every installed file belongs to one of them, the symbols and the SONAMEs are those of the
# libraries, and versions and dependencies agree with the tree. `make check-deb` builds, installs and tries them.
set -eu
LC_ALL=C
export LC_ALL
debian=$KEDGE_SOURCE/debian

fail() {
	echo "$*" >&2
	exit 1
}

[ -e "$BUILD_DIR/libkedge-mpi.so" ] || exit 77

# Each file is installed by one line of debian/*.install, and each line installs something.
DESTDIR=$PWD/root cmake --install "$BUILD_DIR" --prefix /usr >install.log
libdir=$(dirname "$(cd root && find usr -name 'libkedge.so')")
(cd root && find usr ! -type d) | sort >installed
: >packaged
for list in "$debian"/*.install; do
	package=$(basename "$list" .install)
	grep -q "^Package: $package\$" "$debian/control" || fail "debian/control has no package $package"
	sed "s|^usr/lib/\*|$libdir|" "$list" >patterns
	while read -r pattern _; do
		# shellcheck disable=SC2086
		(cd root && find $pattern ! -type d 2>/dev/null) >found || :
		[ -s found ] || fail "$list: nothing is installed as $pattern"
		cat found >>packaged
	done <patterns
done
sort packaged >sorted
uniq -d sorted >twice
[ ! -s twice ] || fail "in two packages: $(cat twice)"
comm -23 installed sorted >forgotten
[ ! -s forgotten ] || fail "in no package; add them to debian/*.install: $(cat forgotten)"
for part in examples/heat2d.c examples/CMakeLists.txt guide/tutorial.md; do
	[ -e "root/usr/share/doc/kedge/$part" ] || fail "$part is not installed"
done

# What a package is called, what its symbols file says, and what the library is.
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$BUILD_DIR/CMakeCache.txt")
for library in libkedge libkedge-mpi; do
	soname=$(objdump -p "$BUILD_DIR/$library.so" | sed -n 's/^ *SONAME *//p')
	package=$library${soname##*.so.}
	symbols=$debian/$package.symbols
	[ -e "$symbols" ] || fail "the SONAME is $soname, but there is no $symbols"
	head -n 1 "$symbols" | grep -q "^$soname $package " || fail "$symbols is not for $soname"
	nm -D --defined-only "$BUILD_DIR/$library.so" | awk '{ sub(/@@/, "@", $3); if ($2 == "A") $3 = $3 "@" $3; print $3 }' |
		sed 's/^\([^@]*\)@\1@.*/\1@\1/' | sort >exported
	sed -n 's/^ \([^ ]*\) .*/\1/p' "$symbols" | sort >listed
	if ! diff listed exported >differ; then
		sed -n "s/^< /removed, but programs may need it: /p; s/^> \(.*\)/add to $package.symbols:  \1 $version/p" differ >&2
		fail "$symbols does not list what $library.so exports"
	fi
done

# Versions and dependencies.
packaged_version=$(sed -n '1s/^kedge (\([^-)]*\).*/\1/p' "$debian/changelog")
[ "$packaged_version" = "$version" ] || fail "debian/changelog is about $packaged_version, the tree is $version"
grep -q "^ *version(\"$version\"" "$KEDGE_SOURCE/packaging/spack/package.py" || fail "packaging/spack/package.py has no version $version"
sed -n '/^Build-Depends:/,/^Standards/p' "$debian/control" | tr -d ' ' | sed 's/^Build-Depends://; s/[[(,].*//' | sort >build_depends
# Of the packages that building by hand needs, these are of no use to a package.
"$KEDGE_SOURCE/scripts/deps.sh" list build | grep -vxE 'build-essential|libbz2-dev|openmpi-bin' | sort >needed
comm -23 needed build_depends >lacking
[ ! -s lacking ] || fail "debian/control: not in Build-Depends: $(cat lacking)"
