#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What make install and make uninstall do, and what find_package(Kedge) says of a component that is not there.
set -eu

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# A build of its own, without tests.
make -n -C "$KEDGE_SOURCE" install PREFIX=/nowhere >plan
grep -q 'cmake -S . -B build/install .*-DKEDGE_TESTS=OFF .*-DCMAKE_INSTALL_PREFIX=/nowhere' plan || fail "make install: $(cat plan)"
! grep -q 'build/plain' plan || fail "make install builds the tests: $(cat plan)"

# Uninstall: what the manifest has, and directories of ours that are empty then.
mkdir -p root/usr/bin root/usr/include/kedge root/usr/share/kedge/machines
for file in bin/kedge bin/other include/kedge/kedge.h share/kedge/machines/a.ini; do
	echo x >"root/usr/$file"
done
printf '%s\n' /usr/bin/kedge /usr/include/kedge/kedge.h /usr/share/kedge/machines/a.ini /usr/share/gone >manifest
DESTDIR=$PWD/root "$KEDGE_SOURCE/scripts/uninstall.sh" manifest >out
grep -q '^3 files removed$' out || fail "uninstall said: $(cat out)"
[ "$(cd root/usr && find . -type f)" = ./bin/other ] || fail "left: $(find root)"
[ ! -e root/usr/include/kedge ] && [ ! -e root/usr/share/kedge ] || fail "directories are left: $(find root)"
! "$KEDGE_SOURCE/scripts/uninstall.sh" manifest 2>err || fail "uninstalled twice"
grep -q 'Nothing is known to be installed from here' err || fail "the second time: $(cat err)"

# Components say why they were not found.
command -v cmake >/dev/null || exit 0
mkdir -p prefix/lib/cmake/Kedge project
sed 's/@PACKAGE_INIT@/macro(check_required_components name)\nforeach(part ${${name}_FIND_COMPONENTS})\nif(${name}_FIND_REQUIRED_${part} AND NOT ${name}_${part}_FOUND)\nset(${name}_FOUND FALSE)\nendif()\nendforeach()\nendmacro()/' \
	"$KEDGE_SOURCE/packaging/KedgeConfig.cmake.in" >prefix/lib/cmake/Kedge/KedgeConfig.cmake
: >prefix/lib/cmake/Kedge/KedgeTargets.cmake
: >prefix/lib/cmake/Kedge/KedgeStaticTargets.cmake
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(asks LANGUAGES C)
find_package(Kedge REQUIRED COMPONENTS ${need} OPTIONAL_COMPONENTS ${like})
END
! cmake -S project -B b -DKedge_ROOT="$PWD/prefix" -Dneed=mpi >out 2>&1 || fail "a component that is not there was found"
tr -s ' \n' ' ' <out >flat
grep -q 'Kedge component mpi: this Kedge was built without MPI' flat || fail "no reason: $(cat out)"
: >prefix/lib/cmake/Kedge/KedgeMpiTargets.cmake
! cmake -S project -B b -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DKedge_ROOT="$PWD/prefix" '-Dneed=mpi;gpu' >out 2>&1 || fail "a component that is not there was found"
tr -s ' \n' ' ' <out >flat
grep -q 'found no MPI for C: enable the language C' flat || fail "no reason: $(cat out)"
grep -q 'Kedge component gpu: there is no such component' flat || fail "no reason: $(cat out)"
cmake -S project -B b -DKedge_ROOT="$PWD/prefix" -Dneed= -Dlike=mpi >out 2>&1 || fail "Kedge was not found: $(cat out)"
grep -q 'Kedge without component mpi' out || fail "no word of an optional component: $(cat out)"
