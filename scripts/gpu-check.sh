#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# gpu-check.sh [FOLDER]: on a machine with an NVIDIA GPU and nvcc, build the kernels with their CPU twins, compare the two bit
# for bit, time the kernels beside a device copy, and measure the CPU's digest on one core beside XXH3-128. GIB: size of the
# buffer on the device; ROUNDS: how often all kernels are timed; MIB: size of the buffer on the CPU.
# XXHASH_INCLUDE may name a folder with xxhash.h if the system has none (copy that one file there); without it the CPU
# is measured beside memcpy only. AHEAD: distances of the prefetch to try, in bytes.
set -e
cd "$(dirname "$0")/.."
out=${1:-build-gpu}
mkdir -p "$out"
inc="-Iinclude -Isrc ${XXHASH_INCLUDE:+-I$XXHASH_INCLUDE}"
flags="-std=gnu11 -O2 -D_GNU_SOURCE $inc"
for f in digest digest_key digest_avx2 digest_avx512 error memory fault fs log clock; do
	cc $flags -c "src/base/$f.c" -o "$out/$f.o"
done
twins="$out/digest.o $out/digest_key.o $out/digest_avx2.o $out/digest_avx512.o"
rest="$out/error.o $out/memory.o $out/fault.o $out/fs.o $out/log.o $out/clock.o"
cc $flags -mavx2 -DPEER=peer_avx2 -DXXH_VECTOR=2 -c bench/digest_peer.c -o "$out/peer_avx2.o"
cc $flags -mavx512f -DPEER=peer_avx512 -DXXH_VECTOR=3 -c bench/digest_peer.c -o "$out/peer_avx512.o"
cc $flags -c bench/digest_rate.c -o "$out/digest_rate.o"
peers="$out/peer_avx2.o $out/peer_avx512.o"

status=0
if command -v nvcc >/dev/null; then
	nvcc -O3 -arch="${ARCH:-sm_90}" $inc -o "$out/digest_check" src/gpu/digest_check.cu $twins $rest
	if [ -z "$BUILD_ONLY" ]; then
		"$out/digest_check" "${GIB:-8}" "${ROUNDS:-3}" || status=1
	fi
else
	echo "no nvcc: the kernels are not checked"
	status=1
fi

for ahead in ${AHEAD:-4096}; do
	for f in digest_avx2 digest_avx512; do
		cc $flags -DDIGEST_AHEAD="$ahead" -c "src/base/$f.c" -o "$out/$f.o"
	done
	cc -o "$out/digest_rate" "$out/digest_rate.o" $peers $twins $rest -lpthread
	if [ -z "$BUILD_ONLY" ]; then
		echo "prefetch $ahead bytes ahead; $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
		"$out/digest_rate" "${MIB:-256}" 9
		"$out/digest_rate" 1 101
	fi
done
exit $status
