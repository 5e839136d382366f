/* SPDX-License-Identifier: BSD-3-Clause */
/* The SIGSEGV handler that trackers of this process share. */
#ifndef KEDGE_CAPTURE_TRACKER_SIGNAL_H
#define KEDGE_CAPTURE_TRACKER_SIGNAL_H

#include "base/base.h"

enum kedge__fault_verdict {                       /* the highest counts */
			    KEDGE__FAULT_FOREIGN, /* not our memory: the application's handler is next */
			    KEDGE__FAULT_STALE,   /* perhaps ours until a moment ago: worth one more try */
			    KEDGE__FAULT_DONE,    /* the write may be tried again */
};

/* Called in a signal handler, on any thread: async-signal-safe functions only. */
typedef enum kedge__fault_verdict (*kedge__fault_fn)(void *ctx, uintptr_t address);

/* The first one installs the handler, the last one reinstates the application's. After remove, FN does not run. */
int kedge__fault_handler_add(kedge__fault_fn fn, void *ctx, struct kedge__error *err);
void kedge__fault_handler_remove(void *ctx);

#endif
