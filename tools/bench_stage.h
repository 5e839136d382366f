/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_stage: the parts of `kedge bench stage`. */
#ifndef KEDGE_TOOLS_BENCH_STAGE_H
#define KEDGE_TOOLS_BENCH_STAGE_H

#include "stage/stage.h"
#include "tool_bench.h"

struct kedge__bench_stage {
	struct kedge__usage usage;
	const char *provider;
	uint64_t size, repeat, seconds, piece;
	bool json, no_alpha;
	char *dir, *store, *auth; /* auth: key:FILE */
	struct kedge__store_id id;
	uint8_t *data;            /* a piece, which is sent again and again */
};

int kedge__bench_stage(int argc, char **argv);

/* bench_stage_raw.c: the limits, in bytes per second. */
int kedge__bench_raw_write(struct kedge__bench_stage *b, double *rate, struct kedge__error *err); /* in order, synced */
/* Of another process's memory; CPU: what that costs the other one, in seconds per 10^9 bytes. */
int kedge__bench_raw_read(struct kedge__bench_stage *b, double *rate, double *cpu, struct kedge__error *err);

/* bench_stage_run.c: a server and clients in processes of their own. */
struct kedge__bench_server {
	pid_t pid;
	char address[KEDGE__ADDRESS_TEXT];
};
int kedge__bench_server_start(struct kedge__bench_stage *b, unsigned writers, struct kedge__bench_server *s, struct kedge__error *err);
void kedge__bench_server_end(struct kedge__bench_server *s);
int kedge__bench_client(struct kedge__bench_stage *b, const struct kedge__bench_server *s, struct kedge__stage_client **out, struct kedge__error *err);
/* RATE: bytes per second of all clients together; CPU: seconds of the clients' processors per 10^9 bytes. */
int kedge__bench_stage_run(struct kedge__bench_stage *b, unsigned clients, unsigned writers, double *rate, double *cpu, struct kedge__error *err);
double kedge__bench_cpu(void); /* seconds of this process */
bool kedge__bench_write_all(int fd, const void *data, size_t bytes);
bool kedge__bench_read_all(int fd, void *data, size_t bytes);

/* bench_stage_alpha.c: how much a stencil slows down while checkpoints drain. */
#define KEDGE__BENCH_RATES 6
struct kedge__bench_alpha {
	double wanted[KEDGE__BENCH_RATES], rate[KEDGE__BENCH_RATES]; /* bytes per second: asked for, and reached */
	double alpha[KEDGE__BENCH_RATES];                            /* time over time without, less one */
	size_t count;
	double slope;                                                /* c in alpha = c x, x in bytes per second */
	double mflops;                                               /* of the stencil alone */
};
int kedge__bench_alpha(struct kedge__bench_stage *b, struct kedge__bench_alpha *a, struct kedge__error *err);

#endif
