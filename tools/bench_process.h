/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_process: whole processes, captured as `kedge run --transparent` captures them. */
#ifndef KEDGE_TOOLS_BENCH_PROCESS_H
#define KEDGE_TOOLS_BENCH_PROCESS_H

#include "run_transparent.h"
#include "tool_bench.h"

int kedge__bench_process(int argc, char **argv);

#define KEDGE__BENCH_TURNS 64 /* at most */

/* What is measured once a turn, in seconds. */
enum kedge__bench_process_figure {
	KEDGE__PROCESS_STOP,   /* as the capture measures it */
	KEDGE__PROCESS_STALL,  /* the longest time in which the program did nothing, as it sees it */
	KEDGE__PROCESS_TOTAL,  /* until the version is complete */
	KEDGE__PROCESS_MEMCPY, /* of as many pages, by the program, in the same turn */
	KEDGE__PROCESS_FIGURES
};

/* Captures of the large program, PAGES of which it changed since the one before. */
struct kedge__bench_process_row {
	double percent; /* negative: the first capture, of everything */
	uint64_t pages, stored; /* STORED: of the last turn */
	size_t turns;
	char how[KEDGE_NOTE_MAX + 1]; /* the last one was taken, in words */
	double seconds[KEDGE__PROCESS_FIGURES][KEDGE__BENCH_TURNS];
};

struct kedge__bench_process_peer { /* another program that writes the process to files */
	const char *name;
	char *missing; /* why there are no figures; kedge__free() */
	double stall, total;
	uint64_t stored;
};

struct kedge__bench_process_start {
	const char *name;
	char *missing;
	size_t turns;
	uint64_t stored;
	double cold[KEDGE__BENCH_TURNS], restart[KEDGE__BENCH_TURNS], stop[KEDGE__BENCH_TURNS];
};

enum { KEDGE__PEER_GCORE, KEDGE__PEER_CRIU, KEDGE__PEERS };
enum { KEDGE__START_SMALL, KEDGE__START_PYTHON, KEDGE__START_LARGE, KEDGE__STARTS };

struct kedge__bench_process {
	struct kedge__usage usage;
	uint64_t size, repeat;
	struct kedge__text_list dirty, sets;
	const char *parent, *dir;
	bool json, writes;
	KEDGE__ARRAY(struct kedge__bench_process_row) rows; /* the first one is the first capture */
	struct kedge__bench_process_peer peers[KEDGE__PEERS];
	struct kedge__bench_process_start starts[KEDGE__STARTS];
	char self[4096]; /* this program */
};

/* bench_process_run.c: all figures. DIR is ours. */
int kedge__bench_process_measure(void *bench, const char *dir, struct kedge__error *err);
/* bench_process_program.c: the program that is captured: it does as standard input says. */
int kedge__bench_process_program(uint64_t bytes);
/* bench_process_report.c */
void kedge__bench_process_json(const struct kedge__bench_process *b);
void kedge__bench_process_text(const struct kedge__bench_process *b);

#endif
