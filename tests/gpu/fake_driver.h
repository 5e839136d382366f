/* SPDX-License-Identifier: BSD-3-Clause */
/* What the driver of the tests has beyond that of NVIDIA; to be found with dlsym(). */
#ifndef KEDGE_TESTS_GPU_FAKE_DRIVER_H
#define KEDGE_TESTS_GPU_FAKE_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* FUNCTION fails with ERROR from its COUNTDOWN-th next call on; "" for none. */
void fake_cuda_fail(const char *function, int countdown, int error);
/* The N-th next call of any function (from 0) fails with ERROR; with LOST, all that follow it, too. N < 0: none. */
void fake_cuda_fail_call(long n, int error, int lost);
long fake_cuda_calls(void);        /* since then */
void fake_cuda_hold(int hold);     /* calls are neither counted nor fail while HOLD */
/* BYTES bytes at ADDRESS become VALUE when STREAM, or all that the device has to do, is waited for. */
void fake_cuda_later(void *stream, void *address, int value, size_t bytes);
void fake_cuda_swap(int swap);         /* its two devices have the numbers of each other */
void fake_cuda_pin_most(size_t bytes); /* no more can be pinned in one piece */
void fake_cuda_room(size_t bytes);     /* the device has so many */
size_t fake_cuda_taken(void);      /* of which so many are in use */
void fake_cuda_devices(int count); /* there are so many: 1 or 2 */
size_t fake_cuda_pinned(void);     /* bytes of the host, at most, since this was last asked */
size_t fake_cuda_sent(void);       /* bytes from the host to the device, since this was last asked */
void fake_cuda_flip(int countdown, size_t at); /* of the COUNTDOWN-th next copy to the device, a bit of byte AT; -1: none */

#ifdef __cplusplus
}
#endif

#endif
