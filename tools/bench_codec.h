/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_codec: what a codec did on the user's data, for the table and the plot. */
#ifndef KEDGE_TOOLS_BENCH_CODEC_H
#define KEDGE_TOOLS_BENCH_CODEC_H

#include "tool.h"

struct kedge__codec_result {
	const char *name;
	uint64_t raw_bytes, packed_bytes;
	double encode, decode;                   /* bytes a second */
	bool best;                               /* none is both smaller and faster */
	char chosen[4 * KEDGE__CODEC_NAME_ROOM]; /* by auto and max, for the files in turn */
};

static inline double kedge__codec_result_ratio(const struct kedge__codec_result *r)
{
	return (double)r->raw_bytes / (double)KEDGE__MAX(r->packed_bytes, 1);
}

int kedge__bench_codec(int argc, char **argv);
/* Ratio over speed of packing; the best joined by a line. */
void kedge__bench_codec_svg(FILE *out, const struct kedge__codec_result *r, size_t n, const char *title);

#endif
