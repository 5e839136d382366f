/* SPDX-License-Identifier: BSD-3-Clause */
/* How threads are started, for this folder and for objects elsewhere that need their own. */
#ifndef KEDGE_PIPELINE_THREAD_H
#define KEDGE_PIPELINE_THREAD_H

#include <pthread.h>

/* Returns 0 or an errno. */
int kedge__thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

#endif
