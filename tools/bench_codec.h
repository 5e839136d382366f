/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_codec: what codecs do on the user's data, for the tables and the plot. */
#ifndef KEDGE_TOOLS_BENCH_CODEC_H
#define KEDGE_TOOLS_BENCH_CODEC_H

#include "tool.h"

struct kedge__codec_result {
	const char *name;
	uint64_t raw_bytes, packed_bytes;
	double encode, decode;                   /* bytes a second */
	bool automatic, smallest;                /* auto, max */
	bool best;                               /* none is both smaller and faster */
	char chosen[4 * KEDGE__CODEC_NAME_ROOM]; /* by auto and max, for the files in turn */
};

static inline double kedge__codec_result_ratio(const struct kedge__codec_result *r)
{
	return (double)r->raw_bytes / (double)KEDGE__MAX(r->packed_bytes, 1);
}

/* ---- bench_codec_measure.c */

struct kedge__codec_file {
	char *path;
	enum kedge_type type;
	uint8_t *data, *base; /* NULL: there is none */
	size_t bytes;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
};

struct kedge__codec_bench {
	uint64_t block, repeat;
	double target, storage;
	struct kedge__text_list codecs; /* empty: those that suit the type */
	const struct kedge__codec_file *files;
	size_t count;
};

/* "NAME:50x50", or with BY_NAME "NAME.50x50.f32"; the file of the same name in BASES, unless NULL, is the version before. */
int kedge__codec_file_load(struct kedge__codec_file *f, const char *name, enum kedge_type type, bool by_name,
			   const char *bases, struct kedge__error *err);
void kedge__codec_file_done(struct kedge__codec_file *f);
size_t kedge__codec_bench_room(const struct kedge__codec_bench *b); /* results */
/* Pack all of the files with each codec. */
int kedge__codec_bench_run(const struct kedge__codec_bench *b, struct kedge__codec_result *r, size_t *n,
			   struct kedge__error *err);

/* ---- bench_codec_report.c */

/* Which single codec is the smallest of those that pack at least as fast as LEAST; NULL: none does. */
const struct kedge__codec_result *kedge__codec_result_best(const struct kedge__codec_result *r, size_t n, double least);
void kedge__codec_report_table(const struct kedge__codec_bench *b, const struct kedge__codec_result *r, size_t n);
json_t *kedge__codec_report_json(const struct kedge__codec_bench *b, const struct kedge__codec_result *r, size_t n);
/* One row for each file: how far auto and max are from the best single codec. ADD first with NULL, for the heading. */
void kedge__codec_report_add(struct kedge__table *t, const struct kedge__codec_bench *b,
			     const struct kedge__codec_result *r, size_t n);

/* ---- bench_codec.c, bench_codec_svg.c */

int kedge__bench_codec(int argc, char **argv);
/* Ratio over speed of packing; the best joined by a line. */
struct kedge__codec_plot {
	const struct kedge__codec_result *results;
	size_t count;
	const char *title;
};
void kedge__bench_codec_svg(FILE *out, const void *plot); /* for kedge__tool_picture() */

#endif
