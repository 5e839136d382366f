/* How threads are started: those of this folder, and of objects elsewhere that need one of their own. */
#ifndef KEDGE_PIPELINE_THREAD_H
#define KEDGE_PIPELINE_THREAD_H

#include <pthread.h>

/* Returns 0 or an errno. */
int kedge__thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

#endif
