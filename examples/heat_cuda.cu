/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a plate, computed on a GPU; the state never leaves its memory but for checkpoints.
 *
 *   nvcc -o heat_cuda heat_cuda.cu -lkedge
 *   KEDGE_L1=ckpt ./heat_cuda 4096 2000 100      kill it, start it again: it goes on, and ends with the same sum
 *
 * heat_cuda [SIZE [STEPS [EVERY]]]: a plate of SIZE x SIZE, STEPS steps, a checkpoint after EVERY steps.
 */
#include <cuda_runtime.h>
#include <kedge/kedge.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA(call)                                                                           \
	do {                                                                                 \
		cudaError_t e_ = (call);                                                     \
		if (e_ != cudaSuccess) {                                                     \
			fprintf(stderr, "heat_cuda: %s: %s\n", #call, cudaGetErrorString(e_)); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static void check(kedge_t *k, int rc, const char *what)
{
	if (rc != KEDGE_OK) {
		fprintf(stderr, "heat_cuda: %s: %s\n", what, kedge_last_error(k));
		exit(1);
	}
}

/* Cold, with a hot square in it. */
static __global__ void begin(double *t, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;

	if (x < n)
		t[(size_t)y * n + x] = abs(x - n / 3) < n / 8 && abs(y - n / 2) < n / 8 ? 100 : 0;
}

static __global__ void step(const double *from, double *to, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
	size_t i = (size_t)y * n + x;

	if (x >= n)
		return;
	if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
		to[i] = from[i];
	else
		to[i] = from[i] + 0.2 * (from[i - 1] + from[i + 1] + from[i - n] + from[i + n] - 4 * from[i]);
}

/* Of all bits: two runs agree in it only if they agree in every number. */
static __global__ void sum(const unsigned long long *bits, size_t count, unsigned long long *out)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
		atomicAdd(out, (bits[i] ^ i) * 0x9E3779B97F4A7C15ull);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1024, steps = argc > 2 ? atoi(argv[2]) : 1000;
	int every = argc > 3 ? atoi(argv[3]) : 100, done = 0, rc;
	size_t count = (size_t)n * n;
	dim3 grid((n + 255) / 256, n);
	double *now, *next;
	unsigned long long *total, result;
	kedge_t *k;

	if (n < 8 || steps < 0 || every < 1) {
		fprintf(stderr, "usage: heat_cuda [SIZE [STEPS [EVERY]]]\n");
		return 2;
	}
	CUDA(cudaMalloc(&now, count * sizeof(*now)));
	CUDA(cudaMalloc(&next, count * sizeof(*next)));
	check(NULL, kedge_open("heat_cuda", NULL, NULL, &k), "kedge_open");
	check(k, kedge_protect(k, "temperature", now, count, KEDGE_F64), "kedge_protect");
	check(k, kedge_protect(k, "steps done", &done, 1, KEDGE_I32), "kedge_protect");

	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc == KEDGE_E_NOTFOUND)
		begin<<<grid, 256>>>(now, n);
	else
		check(k, rc, "kedge_restart");
	printf(rc ? "a new plate\n" : "going on after step %d\n", done);

	while (done < steps) {
		step<<<grid, 256>>>(now, next, n);
		CUDA(cudaMemcpyAsync(now, next, count * sizeof(*now), cudaMemcpyDeviceToDevice));
		done++;
		if (done % every == 0)
			check(k, kedge_checkpoint(k, (uint64_t)done), "kedge_checkpoint");
	}

	CUDA(cudaMalloc(&total, sizeof(*total)));
	CUDA(cudaMemset(total, 0, sizeof(*total)));
	sum<<<1024, 256>>>((const unsigned long long *)now, count, total);
	CUDA(cudaMemcpy(&result, total, sizeof(result), cudaMemcpyDeviceToHost));
	printf("step %d, sum %016llx\n", done, result);
	check(k, kedge_close(k), "kedge_close");
	return 0;
}
