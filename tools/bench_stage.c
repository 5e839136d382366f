/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench stage: how fast a staging server takes what clients send, beside what the network and the storage give by
 * themselves, in turns; what it costs the clients' processors; and how much a program slows down meanwhile.
 */
#include "bench_stage.h"

#include <stdlib.h>
#include <sys/stat.h>

#define TURNS_MAX 32

static const struct crowd {
	unsigned clients, writers;
} crowds[] = {{1, 4}, {2, 4}, {4, 4}, {8, 4}, {16, 4}, {32, 4}, {8, 1}, {8, 2}, {8, 8}, {8, 16}};

#define CROWDS KEDGE__COUNT(crowds)

struct figures {
	double read[TURNS_MAX], read_cpu[TURNS_MAX], write[TURNS_MAX];
	double rate[CROWDS][TURNS_MAX], limit[CROWDS][TURNS_MAX], cpu[CROWDS][TURNS_MAX];
	struct kedge__bench_alpha alpha;
};

static int turn(struct kedge__bench_stage *b, struct figures *f, uint64_t n, struct kedge__error *err)
{
	int rc = kedge__bench_raw_read(b, &f->read[n], &f->read_cpu[n], err);

	if (!rc)
		rc = kedge__bench_raw_write(b, &f->write[n], err);
	for (size_t i = 0; i < CROWDS && !rc; i++) {
		rc =
		    kedge__bench_stage_run(b, crowds[i].clients, crowds[i].writers, &f->rate[i][n], &f->cpu[i][n], err);
		f->limit[i][n] = rc ? 0 : f->rate[i][n] / KEDGE__MIN(f->read[n], f->write[n]);
	}
	return rc;
}

/* ------------------------------------------------------------------ results */

static double median(const double *v, uint64_t n)
{
	double copy[TURNS_MAX];

	memcpy(copy, v, n * sizeof(*v));
	return kedge__bench_median(copy, n);
}

static json_t *alpha_json(const struct kedge__bench_alpha *a)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();

	for (size_t i = 0; i < a->count; i++) {
		json_t *point = kedge__json_object();

		kedge__json_real(point, "wanted_rate", a->wanted[i]);
		kedge__json_real(point, "rate", a->rate[i]);
		kedge__json_real(point, "alpha", a->alpha[i]);
		kedge__json_add(list, point);
	}
	kedge__json_set(o, "points", list);
	kedge__json_real(o, "c_per_byte_per_second", a->slope);
	kedge__json_real(o, "stencil_mflops", a->mflops);
	return o;
}

static void print_json(const struct kedge__bench_stage *b, const struct figures *f)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();

	kedge__json_text(o, "provider", b->provider);
	kedge__json_text(o, "libfabric", kedge__fabric_version());
	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_real(o, "raw_read_rate", median(f->read, b->repeat));
	kedge__json_real(o, "raw_read_cpu_seconds_per_gb", median(f->read_cpu, b->repeat));
	kedge__json_real(o, "raw_write_rate", median(f->write, b->repeat));
	for (size_t i = 0; i < CROWDS; i++) {
		json_t *one = kedge__json_object();

		kedge__json_uint(one, "clients", crowds[i].clients);
		kedge__json_uint(one, "writers", crowds[i].writers);
		kedge__json_real(one, "rate", median(f->rate[i], b->repeat));
		kedge__json_real(one, "of_slower_raw", median(f->limit[i], b->repeat));
		kedge__json_real(one, "client_cpu_seconds_per_gb", median(f->cpu[i], b->repeat));
		kedge__json_add(list, one);
	}
	kedge__json_set(o, "staging", list);
	if (!b->no_alpha)
		kedge__json_set(o, "alpha", alpha_json(&f->alpha));
	kedge__json_print(o);
}

static void print_alpha(const struct kedge__bench_alpha *a)
{
	struct kedge__table t;

	kedge__table_init(&t, "rrr");
	kedge__table_add(&t, "drained, MB/s");
	kedge__table_add(&t, "reached, MB/s");
	kedge__table_add(&t, "alpha");
	for (size_t i = 0; i < a->count; i++) {
		kedge__table_add(&t, "%.0f", a->wanted[i] * 1e-6);
		kedge__table_add(&t, "%.0f", a->rate[i] * 1e-6);
		kedge__table_add(&t, "%.3f", a->alpha[i]);
	}
	printf("\na stencil code of one thread (%.0f MFLOPS alone) takes 1 + alpha times as long while a checkpoint "
	       "drains\n\n",
	       a->mflops);
	kedge__table_print(&t, stdout);
	printf("\nfitted: alpha = %.3g x, with x in GB/s\n", a->slope * 1e9);
}

static void print_text(const struct kedge__bench_stage *b, const struct figures *f)
{
	char size[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	printf(
	    "%s by %s, median of %llu\n\nraw reads of remote memory   %6.0f MB/s, and %.3f s/GB of the processor that "
	    "is read from\nraw sequential write, synced %6.0f MB/s\n\n",
	    kedge__text_bytes(b->size, size), b->provider, (unsigned long long)b->repeat,
	    median(f->read, b->repeat) * 1e-6, median(f->read_cpu, b->repeat), median(f->write, b->repeat) * 1e-6);
	kedge__table_init(&t, "rrrrr");
	kedge__table_add(&t, "clients");
	kedge__table_add(&t, "writers");
	kedge__table_add(&t, "MB/s");
	kedge__table_add(&t, "of the slower raw rate");
	kedge__table_add(&t, "client CPU, s/GB");
	for (size_t i = 0; i < CROWDS; i++) {
		kedge__table_add(&t, "%u", crowds[i].clients);
		kedge__table_add(&t, "%u", crowds[i].writers);
		kedge__table_add(&t, "%.0f", median(f->rate[i], b->repeat) * 1e-6);
		kedge__table_add(&t, "%.2f", median(f->limit[i], b->repeat));
		kedge__table_add(&t, "%.3f", median(f->cpu[i], b->repeat));
	}
	kedge__table_print(&t, stdout);
	if (!b->no_alpha)
		print_alpha(&f->alpha);
}

/* ------------------------------------------------------------------ the run */

static int prepare(struct kedge__bench_stage *b, const char *dir, struct kedge__error *err)
{
	uint64_t seed = 1, words[8];
	int fd, rc;

	b->dir = kedge__strdup(dir);
	b->store = kedge__asprintf("%s/store", dir);
	b->auth = kedge__asprintf("key:%s/key", dir);
	b->data = kedge__map_alloc(b->piece);
	if (!b->dir || !b->store || !b->auth || !b->data)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < b->piece; i += 8)
		kedge__put64(b->data + i, kedge__bench_random(&seed));
	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		words[i] = kedge__bench_random(&seed);
	rc = kedge__fs_create(b->auth + 4, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_write(fd, words, sizeof(words), b->auth + 4, err);
	kedge__fs_close(fd);
	return rc;
}

static int measure(void *ctx, const char *dir, struct kedge__error *err)
{
	struct kedge__bench_stage *b = ctx;
	struct figures *f = calloc(1, sizeof(*f));
	int rc = f ? prepare(b, dir, err) : kedge__error_nomem(err);

	for (uint64_t n = 0; n < b->repeat && !rc; n++)
		rc = turn(b, f, n, err);
	if (!rc && !b->no_alpha)
		rc = kedge__bench_alpha(b, &f->alpha, err);
	if (!rc && b->json)
		print_json(b, f);
	else if (!rc)
		print_text(b, f);
	if (b->data)
		kedge__map_free(b->data, b->piece);
	kedge__free(b->dir);
	kedge__free(b->store);
	kedge__free(b->auth);
	free(f);
	return rc;
}

int kedge__bench_stage(int argc, char **argv)
{
	struct kedge__bench_stage b = {
	    .provider = "tcp", .size = UINT64_C(512) << 20, .repeat = 3, .seconds = 2, .piece = UINT64_C(1) << 20};
	const struct kedge__option options[] = {
	    {"provider", 'p', KEDGE__OPTION_TEXT, &b.provider, "NAME", "libfabric's provider (default: tcp)"},
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "sent in all, by all clients (default: 512MiB)"},
	    {"piece", 0, KEDGE__OPTION_SIZE, &b.piece, "BYTES", "read at once, as stage_buffer (default: 1MiB)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the medians are shown (default: 3)"},
	    {"seconds", 0, KEDGE__OPTION_UINT, &b.seconds, "N", "for which the stencil runs at each rate (default: 2)"},
	    {"no-alpha", 0, KEDGE__OPTION_FLAG, &b.no_alpha, NULL, "leave the stencil out"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench stage",
	    .operands = "[DIR]",
	    .about =
		"Measures a staging server and 1 to 32 clients on this machine, in directory DIR (default: the "
		"current one):\n"
		"throughput beside raw reads of remote memory and a raw write in the same turn, the processor time "
		"of the\n"
		"clients, and the slowdown of a stencil code while checkpoints drain.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench stage /lustre/me",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (argc - first > 1)
		return kedge__usage_error(&b.usage, "name one directory");
	if (!b.repeat || b.repeat > TURNS_MAX || b.size < (UINT64_C(32) << 20))
		return kedge__usage_error(&b.usage, "--repeat: from 1 to %d; --size: at least 32MiB", TURNS_MAX);
	if (b.piece < 4096 || b.piece > (UINT64_C(8) << 20) || b.piece & (b.piece - 1))
		return kedge__usage_error(&b.usage, "--piece is a power of two, from 4KiB to 8MiB");
	if (!kedge__stage_built())
		return kedge__usage_error(&b.usage, "this build has no staging: kedge info shows what it has");
	if (kedge__bench_dir_use(argc > first ? argv[first] : ".", measure, &b, &err))
		return kedge__tool_fail(b.usage.command, &err, "cannot measure");
	return KEDGE__EXIT_OK;
}
