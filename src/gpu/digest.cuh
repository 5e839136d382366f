/* digest.cuh: chunk sizes that have a kernel, with lanes a chunk and 16-byte loads a lane (chosen by measurement). */
#ifndef KEDGE_GPU_DIGEST_CUH
#define KEDGE_GPU_DIGEST_CUH

#define KEDGE_DIGEST_KERNELS(X) \
	X(64, 2, 2)             \
	X(128, 4, 2)            \
	X(256, 4, 4)            \
	X(512, 8, 4)            \
	X(1024, 16, 4)          \
	X(4096, 32, 8)

#endif
