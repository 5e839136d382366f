/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data as applications have it, one set of each kind, drawn from a seed: for the tests of the choice of codecs and,
 * written to files by make_sets, for `kedge bench codec --each`. None of it is compressed better by a codec than the
 * data it stands for would be, as far as the sets that are at hand show.
 */
#ifndef KEDGE_TESTS_CODEC_SETS_H
#define KEDGE_TESTS_CODEC_SETS_H

#include "../lib/draw.h"
#include "codec/codec.h"

#include <stdio.h>

struct set {
	const char *name;
	enum kedge_type type;
	void (*fill)(uint8_t *p, size_t n, uint64_t seed);
	/* The next version of P, in place; NULL: it is filled from another seed. */
	void (*change)(uint8_t *p, size_t n, uint64_t seed);
	int ndims;
	uint64_t dims[2]; /* of one array; a set has as many as fit */
};

static inline double draw_unit(uint64_t *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

/* Nearly normal, by the sum of uniform ones: the same on every machine. */
static inline double draw_normal(uint64_t *state)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += draw_unit(state);
	return sum - 6;
}

static inline void put_f64(uint8_t *p, double v)
{
	memcpy(p, &v, 8);
}

static inline void put_f32(uint8_t *p, double v)
{
	float f = (float)v;

	memcpy(p, &f, 4);
}

static inline double get_f32(const uint8_t *p)
{
	float f;

	memcpy(&f, p, 4);
	return (double)f;
}

/* ---- records */

/* An atom of a restart file of molecular dynamics: length, place, number, type, mask, image, velocity. */
static inline void record_88(uint8_t *p, size_t i, uint64_t *s)
{
	put_f64(p, 11);
	for (size_t d = 0; d < 3; d++)
		put_f64(p + 8 + 8 * d, (double)(i / (d ? d * 40 : 1) % 40) * 1.6796 + draw_normal(s) * 0.08);
	kedge__put64(p + 32, i + 1 + draw(s) % 300);
	kedge__put64(p + 40, 1 + draw(s) % 2);
	kedge__put64(p + 48, 1);
	kedge__put64(p + 56, (UINT64_C(512) << 20 | UINT64_C(512) << 10 | 512) + (draw(s) % 50 == 0));
	for (size_t d = 0; d < 3; d++)
		put_f64(p + 64 + 8 * d, draw_normal(s) * 1.2);
}

static inline void record_24(uint8_t *p, size_t i, uint64_t *s)
{
	kedge__put64(p, UINT64_C(0x00007f3a40000000) + draw(s) % (1 << 22) * 16);
	kedge__put32(p + 8, (uint32_t)i);
	put_f32(p + 12, draw_unit(s));
	kedge__put64(p + 16, draw(s) % 5);
}

static inline void record_56(uint8_t *p, size_t i, uint64_t *s)
{
	for (size_t d = 0; d < 3; d++)
		put_f32(p + 4 * d, draw_unit(s) * 100);
	for (size_t d = 3; d < 6; d++)
		put_f32(p + 4 * d, draw_normal(s));
	kedge__put64(p + 24, i);
	put_f64(p + 32, 1.5);
	kedge__put64(p + 40, draw(s) % 1000);
	kedge__put64(p + 48, 0);
}

static inline void record_100(uint8_t *p, size_t i, uint64_t *s)
{
	kedge__put32(p, (uint32_t)(1000000 + i));
	for (size_t k = 1; k < 9; k++)
		put_f32(p + 4 * k, (double)k * 10 + draw_unit(s));
	for (size_t k = 9; k < 25; k++)
		kedge__put32(p + 4 * k, (uint32_t)(draw(s) % (k < 17 ? 60000 : 3)));
}

#define RECORDS(size)                                                                                                  \
	static inline void fill_records_##size(uint8_t *p, size_t n, uint64_t seed)                                    \
	{                                                                                                              \
		for (size_t i = 0; (i + 1) * (size) <= n; i++)                                                         \
			record_##size(p + i * (size), i, &seed);                                                       \
		memset(p + n / (size) * (size), 0, n % (size));                                                        \
	}

RECORDS(24)
RECORDS(56)
RECORDS(88)
RECORDS(100)

/* A few steps later: all atoms are somewhere else, at about the same speed. */
static inline void move_records_88(uint8_t *p, size_t n, uint64_t seed)
{
	for (uint8_t *at = p; at + 88 <= p + n; at += 88) {
		for (size_t d = 0; d < 3; d++) {
			double place, speed;

			memcpy(&place, at + 8 + 8 * d, 8);
			memcpy(&speed, at + 64 + 8 * d, 8);
			put_f64(at + 8 + 8 * d, place + speed * 1e-4);
			put_f64(at + 64 + 8 * d, speed + draw_normal(&seed) * 1e-4);
		}
	}
}

/* ---- arrays of numbers */

/* Places of particles, a few in each cell, cell after cell. */
static inline void fill_particles(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		put_f64(p + i, ((double)(i / 64 % 512) + draw_unit(&seed)) / 512);
}

static inline void move_particles(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		double v;

		memcpy(&v, p + i, 8);
		put_f64(p + i, v + draw_normal(&seed) * 1e-9);
	}
}

/* Counts by vertex: mostly small, in neighbourhoods of about the same. */
static inline void fill_counters(uint8_t *p, size_t n, uint64_t seed)
{
	uint64_t level = 1;

	for (size_t i = 0; i + 4 <= n; i += 4) {
		if (draw(&seed) % 200 == 0)
			level = UINT64_C(1) << draw(&seed) % 14;
		kedge__put32(p + i, (uint32_t)(draw(&seed) % 4 ? level - 1 : draw(&seed) % level));
	}
}

static inline void count_on(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		if (draw(&seed) % 16 == 0)
			kedge__put32(p + i, kedge__get32(p + i) + 1 + (uint32_t)(draw(&seed) % 3));
}

/* Zero but for islands, where it is smooth. */
static inline void fill_sparse(uint8_t *p, size_t n, uint64_t seed)
{
	memset(p, 0, n);
	for (size_t i = draw(&seed) % 2000, m = n / 8; i < m; i += 400 + draw(&seed) % 4000)
		for (size_t k = i, end = i + 50 + draw(&seed) % 200; k < end && k < m; k++)
			put_f64(p + k * 8, (double)((k - i) * (end - k)) * 1e-3 + draw_unit(&seed) * 1e-8);
}

/* A wave behind which gas is at rest: smooth here, constant there, with the noise of single precision. */
static inline void fill_gas(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4) {
		size_t x = i / 4 % 400, y = i / 1600 % 400;
		double r = (double)(x * x + y * y) / 160000;

		put_f32(p + i, r > 1 ? 1 : 0.125 + r * r * 0.8 + draw_normal(&seed) * 2e-6);
	}
}

/* The gas a little later. */
static inline void move_gas(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		if (get_f32(p + i) < 1)
			put_f32(p + i, get_f32(p + i) * (1.0001 + draw_normal(&seed) * 1e-7));
}

/* White noise that the next cells on all sides have some of, in rows of 256: little is to be predicted. */
static inline void fill_rough(uint8_t *p, size_t n, uint64_t seed)
{
	static const double share[] = {0.13, 0.36, 0.13, 0.36, 1, 0.36, 0.13, 0.36, 0.13};

	for (size_t i = 0; i + 4 <= n; i += 4) {
		double sum = 0;

		for (size_t k = 0; k < 9; k++) {
			uint64_t at = seed + (i / 4 + k / 3 * 256 + k % 3) * UINT64_C(0x9e3779b97f4a7c15);

			sum += share[k] * (draw_unit(&at) + draw_unit(&at) - 1);
		}
		put_f32(p + i, sum);
	}
}

/* A path that nobody foresees, and a little later, when all of it has moved by its thousandth part. */
static inline void fill_walk(uint8_t *p, size_t n, uint64_t seed)
{
	double v = 0;

	for (size_t i = 0; i + 8 <= n; i += 8)
		put_f64(p + i, v += draw_normal(&seed) * 0.02);
}

static inline void move_walk(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		double v;

		memcpy(&v, p + i, 8);
		put_f64(p + i, v * (1 + draw_normal(&seed) * 1e-3));
	}
}

static inline void fill_weights32(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		put_f32(p + i, draw_normal(&seed) * 0.02);
}

/* Steps of an optimizer: a little everywhere. */
static inline void train_weights32(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		put_f32(p + i, get_f32(p + i) + draw_normal(&seed) * 1e-6);
}

static inline void put_bf16(uint8_t *p, double v)
{
	float f = (float)v;
	uint32_t bits;

	memcpy(&bits, &f, 4);
	kedge__put16(p, (uint16_t)((bits + 0x8000) >> 16));
}

static inline void fill_weights16(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 2 <= n; i += 2)
		put_bf16(p + i, draw_normal(&seed) * 0.02);
}

static inline void train_weights16(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 2 <= n; i += 2)
		if (draw(&seed) % 8 == 0)
			kedge__put16(p + i, (uint16_t)(kedge__get16(p + i) + draw(&seed) % 3 - 1));
}

/* The second moments of an optimizer: squares, over many orders of magnitude. */
static inline void fill_moments(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4) {
		double g = draw_normal(&seed) * 1e-4;

		put_f32(p + i, g * g);
	}
}

static inline void decay_moments(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		put_f32(p + i, get_f32(p + i) * 0.999 + draw_unit(&seed) * 1e-13);
}

/* Prices that go up and down, with two decimal places. */
static inline void fill_decimals(uint8_t *p, size_t n, uint64_t seed)
{
	double v = 40;

	for (size_t i = 0; i + 8 <= n; i += 8) {
		v += draw_normal(&seed) * 0.5;
		put_f64(p + i, (double)(int64_t)(v * 100) / 100);
	}
}

/* What a solver has of a sparse matrix, nine of ten are zero, and after a step. */
static inline void fill_solver(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		put_f64(p + i, draw(&seed) % 10 ? 0 : draw_normal(&seed));
}

static inline void step_solver(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		double v;

		memcpy(&v, p + i, 8);
		put_f64(p + i, v * (1 + draw_normal(&seed) * 1e-6));
	}
}

/* ---- bytes */

/* Which of ten kinds each of many things is: a byte for each kind. */
static inline void fill_kinds(uint8_t *p, size_t n, uint64_t seed)
{
	memset(p, 0, n);
	for (size_t i = 0; i + 10 <= n; i += 10)
		p[i + draw(&seed) % 10] = 1;
}

static inline void fill_text(uint8_t *p, size_t n, uint64_t seed)
{
	static const char *const words[] = {"the",    "region", "of",         "version", "is",      "packed",
					    "and",    "kept",   "in",         "a",       "segment", "which",
					    "reader", "that",   "checkpoint", "with",    "no",      "time",
					    "step",   "energy", "total",      "rank",    "from",    "file"};
	size_t at = 0;

	while (at < n) {
		char word[32];
		int len = draw(&seed) % 12 == 0
			      ? snprintf(word, sizeof(word), "%.4f\n", draw_unit(&seed) * 100)
			      : snprintf(word, sizeof(word), "%s ",
					 words[draw(&seed) % KEDGE__COUNT(words) * (draw(&seed) % 3 + 1) / 3]);
		size_t part = KEDGE__MIN((size_t)len, n - at);

		memcpy(p + at, word, part);
		at += part;
	}
}

static inline void edit_bytes(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = draw(&seed) % 500; i + 8 < n; i += 1 + draw(&seed) % 1000)
		p[i] = (uint8_t)(p[i] + 1);
}

static inline void fill_heap(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		kedge__put64(p + i, draw(&seed) % 3 == 0 ? UINT64_C(0x000055d0c8000000) + draw(&seed) % 65536 * 32
							 : draw(&seed) % 200);
}

/* Memory of a process: pages of zeros, of pointers, of doubles, of text, in runs. */
static inline void fill_pages(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n;) {
		size_t run = (1 + draw(&seed) % 24) * 4096;

		run = KEDGE__MIN(run, n - i);
		switch (draw(&seed) % 4) {
		case 0:
			memset(p + i, 0, run);
			break;
		case 1:
			fill_heap(p + i, run, draw(&seed));
			break;
		case 2:
			fill_particles(p + i, run, draw(&seed));
			break;
		default:
			fill_text(p + i, run, draw(&seed));
		}
		i += run;
	}
}

/* Arrays one after the other, as a file of a mesh has them: corners as records, then which of them make triangles. */
static inline void fill_mesh(uint8_t *p, size_t n, uint64_t seed)
{
	size_t corners = n / 2 / 32 * 32;
	double step = 0.001 + draw_unit(&seed) * 0.001;

	memset(p, 0, n);
	for (size_t i = 0; i < corners; i += 32) {
		double x = (double)(i / 32) * step;

		put_f32(p + i, x);
		put_f32(p + i + 4, x * x / 64);
		put_f32(p + i + 8, 1 / (1 + x));
		put_f32(p + i + 20, 1);
		put_f32(p + i + 24, x / 64);
	}
	for (size_t i = corners; i + 4 <= n; i += 4) {
		static const uint32_t way[] = {0, 1, 2, 2, 3, 0};
		size_t k = (i - corners) / 4;

		kedge__put32(p + i, (uint32_t)(k / 6 * 4) + way[k % 6]);
	}
}

/* Lines that are about as long as each other. */
static inline void fill_rows(uint8_t *p, size_t n, uint64_t seed)
{
	char line[160];
	size_t bytes;

	for (size_t i = 0, row = 0; i < n; i += bytes, row++) {
		bytes = (size_t)snprintf(
		    line, sizeof(line),
		    "<particle id=\"%zu\"><pos x=\"%.5f\" y=\"%.5f\" z=\"%.5f\"/><type>%c</type></particle>\n", row,
		    draw_unit(&seed), draw_unit(&seed), draw_unit(&seed), "HONC"[draw(&seed) % 4]);
		bytes = KEDGE__MIN(bytes, n - i);
		memcpy(p + i, line, bytes);
	}
}

static inline void fill_noise(uint8_t *p, size_t n, uint64_t seed)
{
	draw_bytes(&seed, p, n);
}

/* Arrays that the numbers are copies of: what is alike is further away than a sample is long, and not at a multiple of
 * a chunk of a reducer, which would have found it. */
static inline void fill_tiles(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = i < 40000 ? (uint8_t)draw(&seed) : p[i - 40000];
}

static inline void fill_copies(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += 4) {
		if (i < 28004)
			put_f32(p + i, draw_normal(&seed));
		else
			memcpy(p + i, p + i - 28004, 4);
	}
}

/* Text of 4,000 words, of which some are frequent, in two bytes a letter. */
static inline void fill_wide_text(uint8_t *p, size_t n, uint64_t seed)
{
	uint64_t word = 0, letters = 0;

	for (size_t i = 0; i + 2 <= n; i += 2) {
		if (!letters--) {
			double u = draw_unit(&seed);

			word = (uint64_t)(4000 * u * u * u * u);
			letters = 2 + word * 7919 % 8;
			kedge__put16(p + i, ' ');
			continue;
		}
		kedge__put16(p + i, (uint16_t)('a' + draw(&word) % 26));
	}
}

static const struct set sets[] = {
    {"records24", KEDGE_BYTES, fill_records_24, edit_bytes, 0, {0}},
    {"records56", KEDGE_BYTES, fill_records_56, edit_bytes, 0, {0}},
    {"records88", KEDGE_BYTES, fill_records_88, edit_bytes, 0, {0}},
    {"records100", KEDGE_BYTES, fill_records_100, edit_bytes, 0, {0}},
    {"atoms", KEDGE_F64, fill_records_88, NULL, 0, {0}},
    {"particles", KEDGE_F64, fill_particles, move_particles, 0, {0}},
    {"counters", KEDGE_U32, fill_counters, count_on, 0, {0}},
    {"sparse", KEDGE_F64, fill_sparse, NULL, 0, {0}},
    {"gas", KEDGE_F32, fill_gas, move_gas, 2, {400, 400}},
    {"rough", KEDGE_F32, fill_rough, NULL, 2, {256, 256}},
    {"walk", KEDGE_F64, fill_walk, move_walk, 0, {0}},
    {"decimals", KEDGE_F64, fill_decimals, NULL, 0, {0}},
    {"solver", KEDGE_F64, fill_solver, step_solver, 0, {0}},
    {"kinds", KEDGE_U8, fill_kinds, NULL, 0, {0}},
    {"weights32", KEDGE_F32, fill_weights32, train_weights32, 0, {0}},
    {"weights16", KEDGE_BF16, fill_weights16, train_weights16, 0, {0}},
    {"moments", KEDGE_F32, fill_moments, decay_moments, 0, {0}},
    {"text", KEDGE_BYTES, fill_text, edit_bytes, 0, {0}},
    {"heap", KEDGE_U64, fill_heap, NULL, 0, {0}},
    {"pages", KEDGE_BYTES, fill_pages, edit_bytes, 0, {0}},
    {"noise", KEDGE_BYTES, fill_noise, NULL, 0, {0}},
    {"moved88", KEDGE_BYTES, fill_records_88, move_records_88, 0, {0}},
    {"mesh", KEDGE_BYTES, fill_mesh, edit_bytes, 0, {0}},
    {"rows", KEDGE_BYTES, fill_rows, edit_bytes, 0, {0}},
    {"tiles", KEDGE_BYTES, fill_tiles, NULL, 0, {0}},
    {"copies", KEDGE_F32, fill_copies, NULL, 0, {0}},
    {"wide text", KEDGE_BYTES, fill_wide_text, NULL, 0, {0}},
};

#endif
