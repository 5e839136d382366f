# SPDX-License-Identifier: BSD-3-Clause
# The shared libraries export the functions of their public headers, under a version, and nothing else; and what only
# programs of the tree use is in neither kind of libkedge.
set -eu
LC_ALL=C
export LC_ALL
command -v nm >/dev/null || exit 77

# compare LIBRARY HEADER
compare() {
	header=$KEDGE_SOURCE/include/kedge/$2
	sed -n 's/^KEDGE_API [^(]*[ *]\(kedge_[a-z0-9_]*\)(.*/\1@@KEDGE_0.1/p' "$header" | sort >declared
	[ -s declared ] || { echo "no functions in $2" >&2; exit 1; }
	if grep -nE '^[a-z][^(]*[ *]kedge_[a-z0-9_]*\(' "$header" >&2; then
		echo "$2: these functions are not marked KEDGE_API" >&2
		exit 1
	fi
	nm -D --defined-only "$BUILD_DIR/$1.so" | awk '$2 != "A" { print $3 }' | sort >exported
	if ! diff declared exported >differ; then
		sed -n 's/^< /declared in the header, not exported: /p; s/^> /exported, not declared in the header: /p' differ >&2
		echo "$1.so and $2 differ: packaging/$1.map lists what is exported" >&2
		exit 1
	fi
}

compare libkedge kedge.h
[ ! -e "$BUILD_DIR/libkedge-mpi.so" ] || compare libkedge-mpi kedge_mpi.h

# The global names of the offline stages, which must not be among all names of the libraries, local ones included.
nm --defined-only "$BUILD_DIR/libkedge_simulate.a" | awk '$2 ~ /^[TDRB]$/ { print $3 }' | sort -u >offline
grep -qx kedge__sim_run offline || { echo "no simulators in libkedge_simulate.a" >&2; exit 1; }
for library in libkedge.so libkedge.a; do
	nm --defined-only "$BUILD_DIR/$library" | awk 'NF == 3 { print $3 }' | sort -u >inside
	grep -qx kedge__controller_decide inside || { echo "$library has no names: was it stripped?" >&2; exit 1; }
	comm -12 offline inside >both
	if [ -s both ]; then
		echo "$library has what no code in it calls:" >&2
		cat both >&2
		exit 1
	fi
done
