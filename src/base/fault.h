/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fault.c and the two files that have fault points: fs.c and memory.c. */
#ifndef KEDGE_BASE_FAULT_H
#define KEDGE_BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kedge__fault {
	KEDGE__FAULT_NONE,
	KEDGE__FAULT_EIO,
	KEDGE__FAULT_ENOSPC,
	KEDGE__FAULT_SHORT, /* let one byte through */
	KEDGE__FAULT_CUT,   /* write half, then kedge__fault_die() */
};

/* Unknown until the first fault point has read $KEDGE_FAULT; off for good if no faults are requested. */
enum kedge__fault_state { KEDGE__FAULT_UNREAD, KEDGE__FAULT_OFF, KEDGE__FAULT_ON };
extern atomic_int kedge__fault_state;

enum kedge__fault kedge__fault_meet(void);
bool kedge__fault_meet_read(void);
bool kedge__fault_meet_alloc(size_t bytes);
void kedge__fault_count_bytes(int64_t bytes);
void kedge__fault_die(void);

/* Precedes every mutating file-system call. A kill happens inside. */
static inline enum kedge__fault kedge__fault_point(void)
{
	if (atomic_load_explicit(&kedge__fault_state, memory_order_relaxed) == KEDGE__FAULT_OFF)
		return KEDGE__FAULT_NONE;
	return kedge__fault_meet();
}

/* Precedes every file-system call that opens, reads or lists: true if it has to fail with EIO. */
static inline bool kedge__fault_read(void)
{
	if (atomic_load_explicit(&kedge__fault_state, memory_order_relaxed) == KEDGE__FAULT_OFF)
		return false;
	return kedge__fault_meet_read();
}

/* Precedes every allocation of BYTES more: true if it has to fail. */
static inline bool kedge__fault_alloc(size_t bytes)
{
	if (atomic_load_explicit(&kedge__fault_state, memory_order_relaxed) == KEDGE__FAULT_OFF)
		return false;
	return kedge__fault_meet_alloc(bytes);
}

/* Whether allocations and frees have to be reported to kedge__fault_count_bytes(). */
static inline bool kedge__fault_counts_bytes(void)
{
	return atomic_load_explicit(&kedge__fault_state, memory_order_relaxed) == KEDGE__FAULT_ON;
}

#endif
