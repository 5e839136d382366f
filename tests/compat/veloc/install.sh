# SPDX-License-Identifier: BSD-3-Clause
# What is installed: programs of VELOC's users find header and library as they expect them, with a compiler and with CMake,
# and the programs of docs/guide/first-program.md compile and run as written. Arguments: MPIEXEC and the C compiler.
set -eu

mpiexec=$1 cc=$2
root=$PWD/root
cmake --install "$BUILD_DIR" --prefix "$root" >install.log
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name kedge.pc)")
lib=$(dirname "$PKG_CONFIG_PATH")
veloc=$lib/kedge/veloc
source=$KEDGE_SOURCE/tests/compat/veloc
export PKG_CONFIG_PATH LD_LIBRARY_PATH="$lib"

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

# Neither the header nor the library is where others look for VELOC.
[ -z "$(find "$root" -name 'veloc.h' -not -path "$veloc/*")" ] || fail "a second veloc.h"
[ -z "$(find "$root" -name 'libveloc*' -not -path "$veloc/*")" ] || fail "a second libveloc"

printf 'scratch = %s/scratch\npersistent = %s/persistent\nmode = async\n' "$PWD" "$PWD" >heat.cfg
unset LD_LIBRARY_PATH # the library finds Kedge by itself
OMPI_CC=$cc mpicc -D_GNU_SOURCE "$source/heat_mem.c" -I "$veloc" -I "$veloc/include" -L "$veloc/lib" -lveloc-client \
	-lveloc-modules -lm -Wl,-rpath,"$veloc/lib" -o heat_mem
"$mpiexec" -n 2 ./heat_mem heat.cfg >first 2>err || fail "heat_mem: $(cat err)"
"$mpiexec" -n 2 ./heat_mem heat.cfg >second 2>err || fail "heat_mem again: $(cat err)"
grep -q '^restart 120' second || fail "heat_mem did not restart from its last version"
[ "$(grep result first)" = "$(grep result second)" ] || fail "another result"

mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(heat LANGUAGES C)
find_package(veloc 1.8 REQUIRED)
add_executable(heat_file $source/heat_file.c)
target_compile_definitions(heat_file PRIVATE _GNU_SOURCE)
target_link_libraries(heat_file PRIVATE veloc::client m)
END
cmake -S project -B build -DCMAKE_PREFIX_PATH="$veloc" -DCMAKE_C_COMPILER="$cc" >cmake.log 2>&1 || fail "$(cat cmake.log)"
cmake --build build >build.log 2>&1 || fail "$(cat build.log)"
# Older programs ask for less; another major version is another interface.
for version in 1 1.4 2.0; do
	mkdir "asks-$version"
	printf 'cmake_minimum_required(VERSION 3.20)\nproject(asks LANGUAGES C)\nfind_package(veloc %s)\n' $version \
		>"asks-$version/CMakeLists.txt"
	printf 'message(STATUS "found=${veloc_FOUND} version=${veloc_VERSION}")\n' >>"asks-$version/CMakeLists.txt"
	cmake -S "asks-$version" -B "build-$version" -DCMAKE_PREFIX_PATH="$veloc" -DCMAKE_C_COMPILER="$cc" >asks.log 2>&1 ||
		fail "$(cat asks.log)"
	case $version in
	2.0) grep -q 'found=0' asks.log || fail "find_package(veloc 2.0) found this: $(cat asks.log)" ;;
	*) grep -q 'found=1 version=1.8' asks.log || fail "find_package(veloc $version): $(cat asks.log)" ;;
	esac
done
rm -rf scratch persistent
"$mpiexec" -n 2 build/heat_file heat.cfg >third 2>err || fail "heat_file: $(cat err)"
[ "$(grep result first)" = "$(grep result third)" ] || fail "another result in file mode"

export LD_LIBRARY_PATH="$lib"
block() { # the program of the guide that begins with this comment
	awk -v start="/* $1" 'index($0, start) == 1 { on = 1 } /^```$/ { on = 0 } on' "$KEDGE_SOURCE/docs/guide/first-program.md"
}
block 'series.c, before' >before.c
block 'series.c *' >series.c
block 'series_mpi.c' >series_mpi.c
"$cc" before.c -o before
"$cc" -Wall -Wextra -Werror series.c $(pkg-config --cflags --libs kedge) -o series
OMPI_CC=$cc mpicc -Wall -Wextra -Werror series_mpi.c $(pkg-config --cflags --libs kedge-mpi) -o series_mpi
[ "$(./before)" = "$(./series)" ] || fail "the protected program has another result"
[ "$(./before)" = "$(./series)" ] || fail "another result after a restart"
"$mpiexec" -n 2 ./series_mpi >four 2>err || fail "series_mpi: $(cat err)"
[ "$(wc -l <four)" = 1 ] || fail "series_mpi: $(cat four)"
# Ten lines, besides the comment above and the last return.
[ "$(diff before.c series.c | grep -c '^>.*[;)>]')" -le 12 ] || fail "that is more than ten lines"
