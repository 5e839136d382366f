/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_codec.h"

const struct kedge__codec_result *kedge__codec_result_best(const struct kedge__codec_result *r, size_t n, double least)
{
	const struct kedge__codec_result *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (!r[i].automatic && r[i].encode >= least && (!best || r[i].packed_bytes < best->packed_bytes))
			best = &r[i];
	return best;
}

/* The best that AUTO or max could have been: of what is as fast, and for max, of all. */
static const struct kedge__codec_result *rival(const struct kedge__codec_result *of,
					       const struct kedge__codec_result *r, size_t n)
{
	return of ? kedge__codec_result_best(r, n, of->smallest ? 0 : of->encode) : NULL;
}

/* Per cent that OF is larger than BEST. */
static double excess(const struct kedge__codec_result *of, const struct kedge__codec_result *best)
{
	return ((double)of->packed_bytes / (double)KEDGE__MAX(best->packed_bytes, 1) - 1) * 100;
}

static const struct kedge__codec_result *find(const struct kedge__codec_result *r, size_t n, bool smallest)
{
	for (size_t i = 0; i < n; i++)
		if (r[i].automatic && r[i].smallest == smallest)
			return &r[i];
	return NULL;
}

/* ---- every codec */

static json_t *rival_json(const struct kedge__codec_result *of, const struct kedge__codec_result *best)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "codec", best->name);
	kedge__json_real(o, "larger_percent", excess(of, best));
	return o;
}

json_t *kedge__codec_report_json(const struct kedge__codec_bench *b, const struct kedge__codec_result *r, size_t n)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array();
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		json_t *row = kedge__json_object();
		const struct kedge__codec_result *best = r[i].automatic ? rival(&r[i], r, n) : NULL;

		kedge__json_text(row, "codec", r[i].name);
		kedge__json_uint(row, "packed_bytes", r[i].packed_bytes);
		kedge__json_real(row, "ratio", kedge__codec_result_ratio(&r[i]));
		kedge__json_real(row, "encode_megabytes_per_second", r[i].encode * 1e-6);
		kedge__json_real(row, "decode_megabytes_per_second", r[i].decode * 1e-6);
		kedge__json_bool(row, "best", r[i].best);
		if (r[i].chosen[0])
			kedge__json_text(row, "chosen", r[i].chosen);
		if (best)
			kedge__json_set(row, "beside", rival_json(&r[i], best));
		kedge__json_add(rows, row);
	}
	for (size_t i = 0; i < b->count; i++)
		bytes += b->files[i].bytes;
	if (b->count == 1)
		kedge__json_text(o, "file", b->files[0].path);
	kedge__json_text(o, "type", kedge__type_name(b->files[0].type));
	kedge__json_uint(o, "block", b->block);
	kedge__json_uint(o, "raw_bytes", bytes);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_set(o, "results", rows);
	return o;
}

void kedge__codec_report_table(const struct kedge__codec_bench *b, const struct kedge__codec_result *r, size_t n)
{
	char bytes[KEDGE__TEXT_ROOM], block[KEDGE__TEXT_ROOM];
	struct kedge__table t;
	uint64_t sum = 0;

	for (size_t i = 0; i < b->count; i++)
		sum += b->files[i].bytes;
	printf("%s of %s in blocks of %s, one thread; *: none is both smaller and faster\n\n",
	       kedge__text_bytes(sum, bytes), kedge__type_name(b->files[0].type), kedge__text_bytes(b->block, block));
	kedge__table_init(&t, "lrrrll");
	kedge__table_add(&t, "codec");
	kedge__table_add(&t, "ratio");
	kedge__table_add(&t, "pack MB/s");
	kedge__table_add(&t, "unpack MB/s");
	kedge__table_add(&t, "best");
	kedge__table_add(&t, "chosen");
	for (size_t i = 0; i < n; i++) {
		kedge__table_add(&t, "%s", r[i].name);
		kedge__table_add(&t, "%.3f", kedge__codec_result_ratio(&r[i]));
		kedge__table_add(&t, "%.0f", r[i].encode * 1e-6);
		kedge__table_add(&t, "%.0f", r[i].decode * 1e-6);
		kedge__table_add(&t, "%s", r[i].best ? "*" : "");
		kedge__table_add(&t, "%s", r[i].chosen);
	}
	kedge__table_print(&t, stdout);
}

/* ---- auto and max beside the best */

static void add_heading(struct kedge__table *t)
{
	static const char *const words[] = {"file",       "MB",  "auto",         "ratio", "pack MB/s",
					    "larger by %", "than", "max, ratio", "larger by %", "than"};

	kedge__table_init(t, "lrlrrrlrrl");
	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		kedge__table_add(t, "%s", words[i]);
}

static void add_rival(struct kedge__table *t, const struct kedge__codec_result *of,
		      const struct kedge__codec_result *r, size_t n)
{
	const struct kedge__codec_result *best = rival(of, r, n);

	if (best)
		kedge__table_add(t, "%.1f", excess(of, best));
	else
		kedge__table_add(t, "-");
	kedge__table_add(t, "%s", best ? best->name : "-");
}

void kedge__codec_report_add(struct kedge__table *t, const struct kedge__codec_bench *b,
			     const struct kedge__codec_result *r, size_t n)
{
	const struct kedge__codec_result *quick = find(r, n, false), *small = find(r, n, true);
	const char *slash;

	if (!b) {
		add_heading(t);
		return;
	}
	slash = strrchr(b->files[0].path, '/');
	kedge__table_add(t, "%s", slash ? slash + 1 : b->files[0].path);
	kedge__table_add(t, "%.2f", (double)b->files[0].bytes * 1e-6);
	kedge__table_add(t, "%s", quick ? quick->chosen : "-");
	kedge__table_add(t, "%.3f", quick ? kedge__codec_result_ratio(quick) : 0.0);
	kedge__table_add(t, "%.0f", quick ? quick->encode * 1e-6 : 0.0);
	add_rival(t, quick, r, n);
	kedge__table_add(t, "%.3f", small ? kedge__codec_result_ratio(small) : 0.0);
	add_rival(t, small, r, n);
}
