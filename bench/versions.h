/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of `kedge-bench versions`. A cell is a number of ranks with or without L2. In a cell the store grows from count to
 * count; at each count everything but checkpoints is measured first, because checkpoints add versions.
 */
#ifndef KEDGE_BENCH_VERSIONS_H
#define KEDGE_BENCH_VERSIONS_H

#include "bench.h"
#include "group.h"

#define KEDGE__VERSIONS_TURNS  64
#define KEDGE__VERSIONS_COUNTS 16
#define KEDGE__VERSIONS_NAME   "bench"

/* Figure, name in JSON, text, whether it is also given per version. */
#define KEDGE__VERSIONS_FIGURES(X)                                                                    \
	X(BARE, "bare", "write, fsync, rename, fsync", false)                                         \
	X(BLOCKED, "checkpoint", "kedge_checkpoint()", false)                                         \
	X(COMPLETE, "checkpoint_complete", "checkpoint until kedge_wait()", false)                    \
	X(OPEN, "open", "kedge_open()", true)                                                         \
	X(CLOSE, "close", "kedge_close()", false)                                                     \
	X(LIST, "versions_call", "kedge_versions()", true)                                            \
	X(LS, "ls", "kedge ls", true)                                                                 \
	X(NEWEST, "restart_newest", "kedge_restart() of the newest", false)                           \
	X(OLDEST, "restart_oldest", "kedge_restart() of the oldest", false)                           \
	X(GC, "gc", "kedge gc, nothing to remove", false)

enum kedge__versions_figure {
#define KEDGE__X(id, name, text, each) KEDGE__VERSIONS_##id,
	KEDGE__VERSIONS_FIGURES(KEDGE__X)
#undef KEDGE__X
	KEDGE__VERSIONS_FIGURE_COUNT
};

/* In memory that all ranks share. */
struct kedge__versions_shared {
	struct kedge__bench_meeting front, back, bench;
	struct kedge__versions_time {
		double wall, cpu; /* seconds; cpu: of all threads of the process */
	} times[KEDGE__VERSIONS_FIGURE_COUNT][KEDGE__VERSIONS_TURNS][KEDGE__BENCH_RANKS];
};

struct kedge__versions_value {
	double median, lowest, highest; /* seconds */
	double cpu;                     /* median, of all ranks together */
};

/* What was measured at one count. */
struct kedge__versions_row {
	uint64_t count;
	double fill;    /* seconds that it took to get there from the count before */
	double to_bare; /* median, over turns, of kedge_checkpoint() over the bare write of the same turn */
	struct kedge__versions_value value[KEDGE__VERSIONS_FIGURE_COUNT];
};

struct kedge__versions_bench {
	struct kedge__usage usage;
	uint64_t size, changed_percent, checkpoints, repeat;
	uint64_t counts[KEDGE__VERSIONS_COUNTS];
	size_t count_count;
	struct kedge__text_list ranks_texts, level_texts, sets;
	const char *dir, *l2_dir, *counts_text;
	bool no_sync, json;

	struct kedge__versions_shared *shared;
	struct kedge__bar bar;
	json_t *results; /* with --json */

	/* The cell that is being measured. */
	int ranks;
	bool l2;
	char *places[2], *stores[2]; /* directories of this run, and the stores in them */
	uint64_t stored, target;     /* versions: how many there are, and how many there shall be */
};

/* versions_rank.c: processes, one per rank. Each phase opens the job, and closes it. */
int kedge__versions_fill(void *bench, int rank);    /* from .stored to .target versions, without syncing */
int kedge__versions_reopen(void *bench, int rank);  /* open, list, restart, close; .repeat times */
int kedge__versions_extend(void *bench, int rank);  /* bare writes and checkpoints in turns: one, and .checkpoints more */
int kedge__versions_command(void *bench, int rank); /* kedge ls and kedge gc */

/* versions_report.c */
void kedge__versions_collect(const struct kedge__versions_bench *b, struct kedge__versions_row *row);
/* Print a table, or add to .results. */
void kedge__versions_report(struct kedge__versions_bench *b, const struct kedge__versions_row *rows, size_t n);

#endif
