#!/bin/sh
# gpu-check.sh: on a machine with an NVIDIA GPU and nvcc, build the kernels with their CPU twins, compare the two bit for
# bit, and time the kernels beside a device copy. XXHASH_INCLUDE may name a folder with xxhash.h where the system has none.
set -e
cd "$(dirname "$0")/.."
out=${1:-build-gpu}
mkdir -p "$out"
inc="-Iinclude -Isrc ${XXHASH_INCLUDE:+-I$XXHASH_INCLUDE}"
for f in src/base/digest*.c; do
	cc -std=c11 -O2 -D_GNU_SOURCE -DXXH_INLINE_ALL $inc -c "$f" -o "$out/$(basename "$f" .c).o"
done
nvcc -O3 -arch=sm_90 $inc -o "$out/digest_check" src/gpu/digest_check.cu "$out"/digest*.o
"$out/digest_check" "${GIB:-8}"
