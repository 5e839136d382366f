# SPDX-License-Identifier: BSD-3-Clause
# An installed tree must be enough to build and run the examples: with pkg-config, shared and static, and with CMake.
set -eu

root=$PWD/root
cmake --install "$BUILD_DIR" --prefix "$root" >install.log
libdir=$(dirname "$(find "$root" -name kedge.pc)")/..
pc() {
	PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config "$@"
}
cp -r "$KEDGE_SOURCE/examples" examples
export LD_LIBRARY_PATH="$libdir"

check() { # PROGRAM
	rm -rf kedge-store
	"$1" 200 1000 >first
	grep -q '^starting$' first
	"$1" 200 1000 >second
	grep -q '^restarted at step 200$' second
	[ "$(tail -n 1 first)" = "$(tail -n 1 second)" ]
}

# shellcheck disable=SC2046
{
	cc -std=c11 -Wall -Wextra -Werror examples/heat_serial.c -o serial_shared $(pc --cflags --libs kedge)
	cc -std=c11 examples/heat_serial.c -o serial_static $(pc --cflags kedge) \
		-Wl,-Bstatic $(pc --libs kedge) -Wl,-Bdynamic $(pc --static --libs kedge | tr ' ' '\n' | grep -v '^-lkedge$')
}
check ./serial_shared
check ./serial_static
if ldd serial_static | grep -q libkedge; then
	echo "serial_static is linked to the shared library" >&2
	exit 1
fi

cmake -S examples -B by-cmake -DCMAKE_PREFIX_PATH="$root" >cmake.log || { cat cmake.log; exit 1; }
cmake --build by-cmake >build.log || { cat build.log; exit 1; }
check by-cmake/heat_serial

if [ -e "$libdir/pkgconfig/kedge-mpi.pc" ]; then
	# shellcheck disable=SC2046
	mpicc -std=c11 -D_GNU_SOURCE examples/heat2d.c -o heat2d $(pc --cflags --libs kedge-mpi)
	for program in ./heat2d by-cmake/heat2d; do
		rm -rf kedge-store
		mpirun -n 2 "$program" --cells 64 --steps 20 --every 5 --output "$program.out"
	done
	cmp heat2d.out by-cmake/heat2d.out
fi

# Every call has a manual page, if only one that refers to another.
man3=$(dirname "$(find "$root" -name kedge.3)")
sed -n 's/^KEDGE_API .*[ *]\(kedge_[a-z_]*\)(.*/\1/p' "$KEDGE_SOURCE/include/kedge/kedge.h" >calls
while read -r call; do
	[ -e "$man3/$call.3" ] || { echo "no manual page $call.3" >&2; exit 1; }
done <calls
grep -qx '\.so man3/kedge_open.3' "$man3/kedge_close.3"

"$root/bin/kedge" ls >names
grep -q heat names

# Developers' benchmarks are built with the tree and stay there.
[ -x "$BUILD_DIR/bin/kedge-bench" ]
[ -x "$root/bin/kedge" ]
if find "$root" -name 'kedge-bench' -o -name 'kedge-bench-capture*' | grep .; then
	echo "developers' benchmarks were installed" >&2
	exit 1
fi
