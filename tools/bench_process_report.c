/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_process_report: what was measured, for people and for programs. */
#include "bench_process.h"

static double median(const double *v, size_t n)
{
	double copy[KEDGE__BENCH_TURNS];

	memcpy(copy, v, n * sizeof(*v));
	return n ? kedge__bench_median(copy, n) : 0;
}

/* Of the stop, over the copy in the same turn: the median, and both ends. */
static void ratios(const struct kedge__bench_process_row *r, double out[3])
{
	double v[KEDGE__BENCH_TURNS];

	for (size_t i = 0; i < r->turns; i++)
		v[i] = r->seconds[KEDGE__PROCESS_STOP][i] / r->seconds[KEDGE__PROCESS_MEMCPY][i];
	out[0] = kedge__bench_median(v, r->turns);
	out[1] = v[0];
	out[2] = v[r->turns - 1];
}

static double figure(const struct kedge__bench_process_row *r, enum kedge__bench_process_figure f)
{
	return median(r->seconds[f], r->turns);
}

/* ------------------------------------------------------------------ JSON */

static json_t *row_json(const struct kedge__bench_process_row *r)
{
	json_t *o = kedge__json_object();
	uint64_t bytes = r->pages * KEDGE__PAGE_BYTES;
	double over[3];

	ratios(r, over);
	if (r->percent >= 0)
		kedge__json_real(o, "dirty_percent", r->percent);
	kedge__json_uint(o, "dirty_bytes", bytes);
	kedge__json_real(o, "stop_seconds", figure(r, KEDGE__PROCESS_STOP));
	kedge__json_real(o, "stall_seconds", figure(r, KEDGE__PROCESS_STALL));
	kedge__json_real(o, "total_seconds", figure(r, KEDGE__PROCESS_TOTAL));
	kedge__json_real(o, "memcpy_seconds", figure(r, KEDGE__PROCESS_MEMCPY));
	kedge__json_real(o, "stop_over_memcpy", over[0]);
	kedge__json_real(o, "stop_over_memcpy_lowest", over[1]);
	kedge__json_real(o, "stop_over_memcpy_highest", over[2]);
	kedge__json_text(o, "how", r->how);
	kedge__json_uint(o, "stored_bytes", r->stored);
	kedge__json_real(o, "ratio", (double)bytes / (double)KEDGE__MAX(r->stored, 1));
	kedge__json_real(o, "bytes_per_second", (double)bytes / figure(r, KEDGE__PROCESS_TOTAL));
	return o;
}

static json_t *peer_json(const struct kedge__bench_process_peer *p)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "name", p->name);
	if (p->missing) {
		kedge__json_text(o, "missing", p->missing);
		return o;
	}
	kedge__json_real(o, "stall_seconds", p->stall);
	kedge__json_real(o, "total_seconds", p->total);
	kedge__json_uint(o, "stored_bytes", p->stored);
	return o;
}

static json_t *start_json(const struct kedge__bench_process_start *s)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "name", s->name);
	if (s->missing) {
		kedge__json_text(o, "missing", s->missing);
		return o;
	}
	kedge__json_real(o, "stop_seconds", median(s->stop, s->turns));
	kedge__json_real(o, "cold_start_seconds", median(s->cold, s->turns));
	kedge__json_real(o, "restart_seconds", median(s->restart, s->turns));
	kedge__json_uint(o, "stored_bytes", s->stored);
	return o;
}

void kedge__bench_process_json(const struct kedge__bench_process *b)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array(), *peers = kedge__json_array(),
	       *starts = kedge__json_array();

	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->repeat);
	for (size_t i = 1; i < b->rows.count; i++)
		kedge__json_add(rows, row_json(&b->rows.at[i]));
	for (size_t i = 0; i < KEDGE__PEERS; i++)
		kedge__json_add(peers, peer_json(&b->peers[i]));
	for (size_t i = 0; i < KEDGE__STARTS; i++)
		kedge__json_add(starts, start_json(&b->starts[i]));
	kedge__json_set(o, "first", row_json(&b->rows.at[0]));
	kedge__json_set(o, "captures", rows);
	kedge__json_set(o, "peers", peers);
	kedge__json_set(o, "starts", starts);
	kedge__json_print(o);
}

/* ------------------------------------------------------------------ text */

static void head(struct kedge__table *t, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kedge__table_add(t, "%s", names[i]);
}

static const char *label(const struct kedge__bench_process_row *r, char text[KEDGE__TEXT_ROOM])
{
	snprintf(text, KEDGE__TEXT_ROOM, r->percent < 0 ? "the first" : "%g %% dirty", r->percent);
	return text;
}

static void captures_text(const struct kedge__bench_process *b)
{
	static const char *const names[] = {"CAPTURE",   "STOP ms",     "STALL ms",        "TOTAL ms",
					    "MEMCPY ms", "STOP/MEMCPY", "LOWEST..HIGHEST", "STORED"};
	struct kedge__table t;
	char bytes[KEDGE__TEXT_ROOM], text[KEDGE__TEXT_ROOM];

	kedge__table_init(&t, "lrrrrrrr");
	head(&t, names, KEDGE__COUNT(names));
	for (size_t i = 0; i < b->rows.count; i++) {
		const struct kedge__bench_process_row *r = &b->rows.at[i];
		double over[3];

		ratios(r, over);
		kedge__table_add(&t, "%s", label(r, text));
		for (int f = 0; f < KEDGE__PROCESS_FIGURES; f++)
			kedge__table_add(&t, "%.2f", figure(r, f) * 1e3);
		kedge__table_add(&t, "%.2f", over[0]);
		kedge__table_add(&t, "%.2f..%.2f", over[1], over[2]);
		kedge__table_add(&t, "%s", kedge__text_bytes(r->stored, bytes));
	}
	for (size_t i = 0; i < KEDGE__PEERS; i++) {
		const struct kedge__bench_process_peer *p = &b->peers[i];

		if (p->missing)
			continue;
		kedge__table_add(&t, "%s", p->name);
		kedge__table_add(&t, "-");
		kedge__table_add(&t, "%.2f", p->stall * 1e3);
		kedge__table_add(&t, "%.2f", p->total * 1e3);
		for (int k = 0; k < 3; k++)
			kedge__table_add(&t, "-");
		kedge__table_add(&t, "%s", kedge__text_bytes(p->stored, bytes));
	}
	kedge__table_print(&t, stdout);
	for (size_t i = 0; i < b->rows.count; i++)
		printf("%s%s: %s\n", i ? "" : "\n", label(&b->rows.at[i], text), b->rows.at[i].how);
	for (size_t i = 0; i < KEDGE__PEERS; i++)
		if (b->peers[i].missing)
			printf("%s is left out: %s\n", b->peers[i].name, b->peers[i].missing);
}

void kedge__bench_process_text(const struct kedge__bench_process *b)
{
	static const char *const names[] = {"PROGRAM", "STOP ms", "COLD START ms", "RESTART ms"};
	struct kedge__table t;
	char bytes[KEDGE__TEXT_ROOM];

	printf("a program with %s of memory; medians of %llu\n\n", kedge__text_bytes(b->size, bytes),
	       (unsigned long long)b->repeat);
	captures_text(b);
	kedge__table_init(&t, "lrrr");
	head(&t, names, KEDGE__COUNT(names));
	for (size_t i = 0; i < KEDGE__STARTS; i++) {
		const struct kedge__bench_process_start *s = &b->starts[i];

		if (s->missing)
			continue;
		kedge__table_add(&t, "%s", s->name);
		kedge__table_add(&t, "%.2f", median(s->stop, s->turns) * 1e3);
		kedge__table_add(&t, "%.2f", median(s->cold, s->turns) * 1e3);
		kedge__table_add(&t, "%.2f", median(s->restart, s->turns) * 1e3);
	}
	printf("\n");
	kedge__table_print(&t, stdout);
	for (size_t i = 0; i < KEDGE__STARTS; i++)
		if (b->starts[i].missing)
			printf("%s is left out: %s\n", b->starts[i].name, b->starts[i].missing);
}
