/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: capture and restart of a whole process that knows nothing of it, from outside, by ptrace. x86-64 Linux.
 *
 * The target is the process that is captured; it is a child of this one. The stub is the process that becomes it at a
 * restart. An injection is a system call that a stopped thread makes for us. The scratch is memory that is mapped in the
 * target for injections. The tracker knows which pages of a target have not been written since they were copied. A still is
 * a copy of the target that never runs: its memory is read while the target goes on. A process image is what a version has of a process: the region `process`, which is described by
 * struct kedge__process_image and docs/FORMAT.md, the pages (struct kedge__process_mirror), and the contents of files.
 *
 * All calls for one target come from one thread: ptrace knows threads.
 */
#ifndef KEDGE_PROCESS_PROCESS_H
#define KEDGE_PROCESS_PROCESS_H

#include "base/base.h"
#include <sys/types.h>

#define KEDGE__PROCESS_REGION "process"
#define KEDGE__PAGE_BYTES     ((size_t)4096)
#define KEDGE__PAGES_REGION   "pages"
#define KEDGE__PAGES_INDEX    "pages.index"
#define KEDGE__PAGES_MAGIC    UINT64_C(0x4547415045474445) /* "EDGEPAGE" */
#define KEDGE__PAGES_HEAD     2                            /* words before the addresses: magic, page size */
#define KEDGE__PAGES_FREE     UINT64_MAX                   /* the address of a place without a page */

/* ------------------------------------------------------------------ image.c: the region `process` */

struct kedge__process_blob {
	uint8_t *data;
	uint64_t bytes;
};

#define KEDGE__PROCESS_REGISTERS    27 /* of struct user_regs_struct */
#define KEDGE__PROCESS_SIGINFO      128
#define KEDGE__PROCESS_LIMITS       16
#define KEDGE__PROCESS_FEATURES     7
#define KEDGE__PROCESS_MM           12 /* the fields of struct prctl_mm_map up to env_end; the last is not used */
#define KEDGE__PROCESS_NO_FILE      UINT32_MAX

struct kedge__process_thread {
	uint32_t id; /* in its own namespace */
	uint64_t registers[KEDGE__PROCESS_REGISTERS];
	struct kedge__process_blob xstate;
	uint64_t mask;
	uint64_t stack_at, stack_bytes, stack_flags; /* for signals */
	uint64_t robust_at, robust_bytes;
	uint64_t rseq_at, rseq_bytes, rseq_signature; /* 0 bytes: none */
	uint64_t clear_id;
	uint64_t nice; /* two's complement */
	struct kedge__process_blob cpus;    /* it may run on */
	struct kedge__process_blob pending; /* signals: siginfo, KEDGE__PROCESS_SIGINFO bytes each */
	char *name;
};

enum kedge__process_mapping_kind {
	KEDGE__MAPPING_ANONYMOUS,
	KEDGE__MAPPING_PRIVATE_FILE,
	KEDGE__MAPPING_SHARED_FILE,
	KEDGE__MAPPING_SHARED_ANONYMOUS, /* OFFSET within the memory that has FILE's number, which is no file */
	KEDGE__MAPPING_KERNEL,           /* vvar, vdso */
	KEDGE__MAPPING_KINDS
};

#define KEDGE__MAPPING_READ       1u
#define KEDGE__MAPPING_WRITE      2u
#define KEDGE__MAPPING_EXECUTE    4u
#define KEDGE__MAPPING_GROWS_DOWN 8u
#define KEDGE__MAPPING_NO_RESERVE 16u
#define KEDGE__MAPPING_NO_FORK    32u
#define KEDGE__MAPPING_WIPE       64u
#define KEDGE__MAPPING_NO_DUMP    128u
#define KEDGE__MAPPING_HUGE       256u
#define KEDGE__MAPPING_NO_HUGE    512u
#define KEDGE__MAPPING_MERGE      1024u
#define KEDGE__MAPPING_BITS       2047u

struct kedge__process_mapping {
	uint64_t start, end, offset;
	uint32_t kind, bits, file; /* KEDGE__PROCESS_NO_FILE */
	char *name;                /* as in /proc/PID/maps */
};

/* A file that is mapped. The first one is the executable. */
struct kedge__process_file {
	char *path;
	uint64_t bytes, mtime_ns;
	struct kedge__process_blob build_id; /* none: the file has none */
};

enum kedge__process_descriptor_kind {
	KEDGE__DESCRIPTOR_FILE,
	KEDGE__DESCRIPTOR_DIRECTORY,
	KEDGE__DESCRIPTOR_DEVICE,    /* one of those that remember nothing: null, zero, full, random, urandom */
	KEDGE__DESCRIPTOR_INHERITED, /* standard input, output or error of this process, by OBJECT's number */
	KEDGE__DESCRIPTOR_PIPE,      /* both ends are in the process; OBJECT joins them, DATA is what is in it */
	KEDGE__DESCRIPTOR_EVENT,     /* OBJECT is the count */
	KEDGE__DESCRIPTOR_EPOLL,     /* DATA: number, events, data of each, 8 bytes each */
	KEDGE__DESCRIPTOR_SIGNALS,   /* OBJECT: the signals that it gives */
	KEDGE__DESCRIPTOR_TIMER,     /* OBJECT: its clock; OFFSET: expirations; DATA: seconds and ns that are left, and of its interval */
	KEDGE__DESCRIPTOR_KINDS
};

struct kedge__process_descriptor {
	uint32_t number, kind;
	uint32_t flags; /* as in fcntl(2), O_CLOEXEC among them */
	uint32_t same;  /* the number of an earlier one that shares the open file, or its own */
	uint64_t object, offset, bytes, mtime_ns;
	uint32_t contents; /* of a file: 1: they are a region */
	char *path;
	struct kedge__process_blob data;
};

struct kedge__process_action {
	uint64_t signal, handler, flags, restorer, mask;
};

struct kedge__process_image {
	/* who and where */
	char *boot, *release, *cwd;
	uint64_t uid, pid, started; /* clock ticks since boot */
	uint64_t monotonic_ns;
	struct kedge__process_blob command; /* the words, each with a NUL */
	/* the machine */
	uint64_t xcr0;
	uint64_t features[KEDGE__PROCESS_FEATURES];
	struct kedge__process_blob vdso;
	/* the process */
	uint64_t umask, personality;
	uint64_t limits[2 * KEDGE__PROCESS_LIMITS];
	uint64_t timers[12]; /* interval and value of ITIMER_REAL, VIRTUAL, PROF */
	uint64_t mm[KEDGE__PROCESS_MM];
	struct kedge__process_blob auxv, pending;
	KEDGE__ARRAY(struct kedge__process_action) actions;
	KEDGE__ARRAY(struct kedge__process_thread) threads; /* the first one is the leader */
	KEDGE__ARRAY(struct kedge__process_file) files;
	KEDGE__ARRAY(struct kedge__process_mapping) mappings;       /* ascending */
	KEDGE__ARRAY(struct kedge__process_descriptor) descriptors; /* ascending */
};

/* *OUT: kedge__free(). */
int kedge__process_image_encode(const struct kedge__process_image *image, uint8_t **out, size_t *bytes,
				struct kedge__error *err);
/* Whatever is wrong with the bytes: KEDGE_E_DAMAGED, or KEDGE_E_FORMAT if a newer version wrote them. */
int kedge__process_image_decode(const void *data, size_t bytes, struct kedge__process_image *out,
				struct kedge__error *err);
void kedge__process_image_done(struct kedge__process_image *image);

/* ------------------------------------------------------------------ mirror.c: the pages */

/* A copy of the pages of a process, each at a place that it keeps as long as it exists (FORMAT.md, "Page images"). */
struct kedge__process_mirror {
	uint64_t *index; /* the region `pages.index` */
	uint8_t *pages;  /* the region `pages` */
	size_t places, room;
	struct kedge__process_place {
		uint64_t address;
		size_t place;
	} *sorted; /* by address */
	size_t count;
};

size_t kedge__process_mirror_index_bytes(const struct kedge__process_mirror *m);
/* From now on it has these pages, ascending; those that are new have no contents yet. A page that goes away leaves zeros. */
int kedge__process_mirror_arrange(struct kedge__process_mirror *m, const struct kedge__range *runs, size_t n,
				  struct kedge__error *err);
/* Room for the regions of a version of that many bytes; then, when they are filled, it is what they say. */
int kedge__process_mirror_prepare(struct kedge__process_mirror *m, uint64_t index_bytes, uint64_t page_bytes,
				  struct kedge__error *err);
int kedge__process_mirror_adopt(struct kedge__process_mirror *m, struct kedge__error *err);
void kedge__process_mirror_done(struct kedge__process_mirror *m);

/* ------------------------------------------------------------------ tracker.c */

/*
 * What lasts from one capture of a process to the next: the pages that were written since are the only ones to be copied
 * while it stands still. It belongs to one mirror. A process that it does not know is captured as the first time.
 */
struct kedge__process_tracker;
struct kedge__process_tracker *kedge__process_tracker_new(void); /* NULL: no memory */
void kedge__process_tracker_free(struct kedge__process_tracker *k);
/* Why pages are not tracked, or NULL. It lasts as long as the tracker. */
const char *kedge__process_tracker_why_not(const struct kedge__process_tracker *k);

/* ------------------------------------------------------------------ capture.c */

enum kedge__process_files { KEDGE__FILES_NONE, KEDGE__FILES_WRITTEN, KEDGE__FILES_ALL }; /* whose contents are kept */

struct kedge__process_content { /* of a file */
	char *path;
	uint8_t *data; /* kedge__map_free() */
	size_t bytes;
};

struct kedge__process_contents {
	struct kedge__process_content *at;
	size_t count, room;
};

void kedge__process_contents_done(struct kedge__process_contents *list);

enum kedge__process_way { /* how the memory was copied */
	KEDGE__WAY_AUTO,      /* (to be chosen) */
	KEDGE__WAY_FULL,      /* all of it, while the target stood still */
	KEDGE__WAY_INCREMENT, /* what had been written, most of it before the target was stopped */
	KEDGE__WAY_STILL,     /* what had been written, from a still after the target went on */
};

struct kedge__process_capture {
	pid_t pid;                       /* a child of this process */
	pid_t init;                      /* 0, or the process whose namespaces it lives in */
	enum kedge__process_files files;
	struct kedge__process_mirror *mirror;
	struct kedge__process_tracker *tracker; /* NULL: all pages are copied while it stands still */
	enum kedge__process_way way;            /* KEDGE__WAY_AUTO, or what the caller wants, where it can be had; then the result: */
	struct kedge__process_image image;       /* kedge__process_image_done() */
	struct kedge__process_contents contents; /* kedge__process_contents_done() */
	double stop_seconds;
	size_t pages_before, pages_stopped; /* that were copied while it ran, and while it stood still or by a still */
	bool ended; /* the target ended meanwhile; STATUS as from waitpid(), which does not give it again */
	int status;
};

/*
 * Stop the target, copy what it is, and let it go on. KEDGE_E_STATE: it has something that cannot be captured, or has it
 * now, which the text names; it goes on as if nothing had happened.
 */
int kedge__process_capture(struct kedge__process_capture *c, struct kedge__error *err);

/* Why no process can be captured here, or NULL. */
const char *kedge__process_unsupported(void);

/* ------------------------------------------------------------------ restart.c */

struct kedge__process_restart {
	const struct kedge__process_image *image;
	const struct kedge__process_mirror *mirror;
	const struct kedge__process_contents *contents;
	pid_t group;      /* to join; 0: one of its own */
	bool new_ids;     /* if its ids cannot be kept, others will do */
	/* the result */
	pid_t pid;  /* a child of this process */
	pid_t init; /* 0, or the first process of its namespaces, a child of this one, to be ended after it */
	int init_link; /* -1, or what keeps INIT waiting */
};

/* Whether this machine, its programs and files are still those of the image: nothing is changed. */
int kedge__process_check(const struct kedge__process_image *image, struct kedge__error *err);
/* After kedge__process_check(). On failure there is no process; files may have been put back. */
int kedge__process_restart(struct kedge__process_restart *r, struct kedge__error *err);

/* ------------------------------------------------------------------ proc.c */

/* When PID was started, in clock ticks since boot; 0: there is no such process. */
uint64_t kedge__process_started(pid_t pid);
/* The id of this boot of the kernel. kedge__free(); NULL: no memory. */
char *kedge__process_boot(void);

/* ------------------------------------------------------------------ criu.c: page maps of CRIU's images, pagemap-PID.img */

struct kedge__criu_run {
	uint64_t address, pages;
	bool in_parent; /* the pages are those of the images before */
	uint64_t first; /* otherwise: how many pages are in the file before them */
};

struct kedge__criu_pagemap {
	uint32_t pages_id;                         /* the data is in pages-ID.img */
	KEDGE__ARRAY(struct kedge__criu_run) runs; /* ascending; none overlap */
	uint64_t present;                          /* pages in the file */
	bool needs_parent;
};

#define KEDGE__CRIU_HEAD 8 /* bytes that say what it is */

bool kedge__criu_pagemap_is(const void *data, size_t bytes);
/* Whatever is wrong is KEDGE_E_ARG, with the number of the record. */
int kedge__criu_pagemap_decode(const void *data, size_t bytes, struct kedge__criu_pagemap *out, struct kedge__error *err);
void kedge__criu_pagemap_done(struct kedge__criu_pagemap *map);
/* The run that has the page at ADDRESS, or NULL. */
const struct kedge__criu_run *kedge__criu_pagemap_find(const struct kedge__criu_pagemap *map, uint64_t address);

#endif
