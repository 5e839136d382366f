/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes of variables, and the order of literals by each scheme: every byte stays where the map says that it is. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "aggregate/aggregate.h"

#include <stdio.h>
#include <stdlib.h>

#define FILES 5
#define BYTES 40000

/* ------------------------------------------------------------------ classes */

static void class_is(const struct kedge__class_rules *rules, const char *name, const char *class)
{
	const struct kedge__variable v = {.name = (char *)name, .type = KEDGE_F32, .ndims = 3};
	char *made = kedge__class_name(rules, &v);

	assert_string_equal(made, class);
	kedge__free(made);
}

static void test_names_of_classes(void **state)
{
	const struct kedge__variable packed = {.name = (char *)"g1/x2", .filtered = true},
				     one = {.name = (char *)"t", .type = KEDGE_F64, .scalar = true};
	char *name;

	(void)state;
	class_is(NULL, "Grid00000012/Density", "Grid/Density_f32_Array3D");
	class_is(NULL, "Grid00000013/Density", "Grid/Density_f32_Array3D");
	class_is(NULL, "a1b/2/x1", "ab//x1_f32_Array3D");
	class_is(NULL, "x1", "x1_f32_Array3D");
	name = kedge__class_name(NULL, &packed);
	assert_string_equal(name, "g/x2_filtered");
	kedge__free(name);
	name = kedge__class_name(NULL, &one);
	assert_string_equal(name, "t_f64_Atomic");
	kedge__free(name);
}

static int rules_of(const char *text, struct kedge__class_rules **rules, struct kedge__error *err)
{
	char dir[FILES_PATH], path[FILES_PATH + 8];
	int rc;

	scratch_make(dir, sizeof(dir), "rules");
	text_make(path, sizeof(path), "%s/rules", dir);
	file_write(path, text, strlen(text));
	rc = kedge__class_rules_read(path, rules, err);
	assert_int_equal(scratch_remove(dir), 0);
	return rc;
}

static void test_rules_of_the_user(void **state)
{
	struct kedge__class_rules *rules = NULL;

	(void)state;
	assert_int_equal(
	    rules_of("# comment\n\n^Grid[0-9]+/(.*)-velocity$  velocity\n(H|He)I+_(.*) \\2_of_\\1\\9\n", &rules, NULL),
	    0);
	class_is(rules, "Grid7/x-velocity", "velocity_f32_Array3D");
	class_is(rules, "Grid7/y-velocity", "velocity_f32_Array3D");
	class_is(rules, "g/HeII_Density", "Density_of_He_f32_Array3D");
	class_is(rules, "g4/Density", "g/Density_f32_Array3D");
	kedge__class_rules_free(rules);
}

static void test_rules_that_are_wrong(void **state)
{
	static const char *const texts[] = {"onlyone\n", "a b c\n", "(a name\n", "x y\n[ z\n"};
	static const char *const says[] = {":1: a line is", ":1: a line is", ":1: (a: ", ":2: [: "};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(texts); i++) {
		struct kedge__class_rules *rules = NULL;
		struct kedge__error err = KEDGE__ERROR_INIT;

		assert_int_equal(rules_of(texts[i], &rules, &err), KEDGE_E_CONFIG);
		assert_non_null(strstr(kedge__error_text(&err), says[i]));
		assert_null(rules);
		kedge__error_done(&err);
	}
	assert_int_equal(kedge__class_rules_read("/nowhere/at/all", &(struct kedge__class_rules *){NULL}, NULL),
			 KEDGE_E_CONFIG);
}

/* ------------------------------------------------------------------ orders */

struct world {
	bool *echoes; /* asked for; what is answered */
	uint8_t data[FILES][BYTES];
	struct kedge__aggregate_file files[FILES];
	struct kedge__reduction red;
	uint64_t literal_bytes;
};

static void variable_add(struct kedge__layout *l, const char *name, enum kedge_type type)
{
	struct kedge__variable v = {.name = kedge__strdup(name), .type = type, .ndims = 1, .dims = {100}};

	assert_true(kedge__array_push(&l->variables, v));
}

static void run_add(struct kedge__layout *l, uint32_t variable, uint64_t offset, uint64_t bytes)
{
	struct kedge__layout_run run = {offset, bytes, variable, l->variables.at[variable].bytes};

	l->variables.at[variable].bytes += bytes;
	assert_true(kedge__array_push(&l->runs, run));
}

/* Files 0 to 2 have two variables, in pieces and at odd places; 3 is opaque and small, 4 opaque and of another type. */
static void world_make(struct world *w, uint64_t seed)
{
	uint64_t position = 0;

	memset(w, 0, sizeof(*w));
	for (uint32_t f = 0; f < FILES; f++) {
		struct kedge__layout *l = &w->files[f].layout;

		fill_random(w->data[f], BYTES, seed + f);
		w->files[f].region = 2 * f;
		w->files[f].data = w->data[f];
		w->files[f].bytes = BYTES;
		if (f > 2)
			continue;
		variable_add(l, "g1/a", KEDGE_F64);
		variable_add(l, "g2/b", KEDGE_I32);
		variable_add(l, "g2/tiny", KEDGE_I32);
		run_add(l, 0, 801 + f, 8000);
		run_add(l, 1, 9000, 10004);
		run_add(l, 2, 19100, 12);
		run_add(l, 0, 20001, 7000);
	}
	for (uint32_t f = 0; f < FILES; f++) {
		for (uint64_t at = 256 * draw_below(&seed, 4), n; at < BYTES; at += n + 256) {
			struct kedge__literal literal = {w->data[f] + at, 0, 2 * f, 0};
			struct kedge__extent e = {.addr = 2 * f * KEDGE__SLOT_BYTES + at, .src = position};

			n = 256 * (1 + draw_below(&seed, 60));
			n = KEDGE__MIN(n, BYTES - at);
			literal.bytes = e.len = n;
			assert_true(kedge__array_push(&w->red.literals, literal));
			assert_int_equal(kedge__extent_tape_append(&w->red.map, e, false, NULL), 0);
			position += n;
		}
	}
	w->literal_bytes = position;
}

static void world_done(struct world *w)
{
	for (size_t f = 0; f < FILES; f++)
		kedge__layout_done(&w->files[f].layout);
	kedge__reduction_done(&w->red);
}

/* The literals, in their order, are what the map says that they are. */
static void map_holds(const struct world *w)
{
	uint8_t *literals = malloc(w->literal_bytes);
	struct kedge__extent_reader map = kedge__extents_of_tape(&w->red.map);
	uint64_t used = 0, mapped = 0, end = 0;
	struct kedge__extent e;

	for (size_t i = 0; i < w->red.literals.count; i++) {
		memcpy(literals + used, w->red.literals.at[i].data, w->red.literals.at[i].bytes);
		used += w->red.literals.at[i].bytes;
	}
	assert_int_equal(used, w->literal_bytes);
	while (kedge__extent_next(&map, &e)) {
		const uint8_t *is = w->data[(e.addr >> KEDGE__SLOT_SHIFT) / 2] + (e.addr & (KEDGE__SLOT_BYTES - 1));

		assert_true(e.addr >= end);
		end = e.addr + e.len;
		assert_memory_equal(literals + e.src, is, e.len);
		mapped += e.len;
	}
	assert_int_equal(mapped, w->literal_bytes);
	free(literals);
}

/* Classes ascend, and each has literals. */
static void classes_hold(const struct world *w)
{
	uint32_t last = 0;

	for (size_t i = 0; i < w->red.literals.count; i++) {
		assert_true(w->red.literals.at[i].class == last || w->red.literals.at[i].class == last + 1);
		last = w->red.literals.at[i].class;
	}
	assert_int_equal(last, w->red.classes.count);
	for (size_t i = 0; i < w->red.classes.count; i++)
		assert_true(w->red.classes.at[i].pieces > 0);
}

static const struct kedge__literal_class *class_find(const struct world *w, const char *name)
{
	for (size_t i = 0; i < w->red.classes.count; i++)
		if (strcmp(w->red.classes.at[i].name, name) == 0)
			return &w->red.classes.at[i];
	return NULL;
}

static void test_every_scheme_keeps_all_bytes(void **state)
{
	struct world *w = malloc(sizeof(*w));

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		for (uint32_t s = KEDGE__AGGREGATE_AGNOSTIC; s <= KEDGE__AGGREGATE_AWARE_BLOCK; s++) {
			struct kedge__aggregate_options o = {
			    .scheme = (enum kedge__aggregate_scheme)s, .block = 1000, .least = 100, .unit = 256};

			world_make(w, seed);
			assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, NULL, NULL), 0);
			map_holds(w);
			classes_hold(w);
			assert_int_equal(w->red.classes.scheme, s);
			assert_int_equal(w->red.classes.reason, KEDGE__AGGREGATE_SET);
			world_done(w);
		}
	}
	free(w);
}

static void test_classes_of_aware(void **state)
{
	struct kedge__aggregate_options o = {
	    .scheme = KEDGE__AGGREGATE_AWARE, .block = 1000, .least = 100, .unit = 256};
	struct world *w = malloc(sizeof(*w));

	(void)state;
	world_make(w, 3);
	assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, NULL, NULL), 0);
	assert_int_equal(class_find(w, "g/a_f64_Array1D")->type, KEDGE_F64);
	assert_int_equal(class_find(w, "g/b_i32_Array1D")->type, KEDGE_I32);
	assert_int_equal(class_find(w, "(rest)")->type, KEDGE_BYTES);
	assert_non_null(class_find(w, "(all)")); /* small files that nobody understands */
	assert_null(class_find(w, "g/tiny_i32_Array1D"));
	world_done(w);
	free(w);
}

/* Whatever is missing between them, literals of a class of numbers have all bytes of each, in their order. */
static void test_numbers_stay_whole(void **state)
{
	struct kedge__aggregate_options o = {.block = 1000, .least = 100, .unit = 256};
	struct world *w = malloc(sizeof(*w));
	size_t whole = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		const struct kedge__literal_class *class;
		uint64_t at = 0;

		o.scheme = seed % 2 ? KEDGE__AGGREGATE_AWARE : KEDGE__AGGREGATE_AWARE_BLOCK;
		world_make(w, seed);
		assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, NULL, NULL), 0);
		class = class_find(w, "g/a_f64_Array1D");
		for (size_t i = 0; i < w->red.literals.count; i++) {
			const struct kedge__literal *l = &w->red.literals.at[i];
			uint64_t offset = (uint64_t)((const uint8_t *)l->data - w->data[l->region / 2]);

			if (!l->class || &w->red.classes.at[l->class - 1] != class)
				continue;
			/* 8000 bytes of the variable are in its first run. */
			offset = offset < 20001 ? offset - 801 - l->region / 2 : offset - 20001 + 8000;
			assert_int_equal(offset % 8, at % 8);
			at += l->bytes;
			whole++;
		}
		assert_true(at > 10000);
		assert_int_equal(at % 8, 0);
		world_done(w);
	}
	assert_true(whole > 20);
	free(w);
}

/* With a limit on memory, fewer variables are apart; with a small one, none is. */
static void test_memory_for_seams_is_bounded(void **state)
{
	struct kedge__aggregate_options o = {
	    .scheme = KEDGE__AGGREGATE_AWARE, .block = 1000, .least = 100, .unit = 256, .seam_bytes = 1};
	struct world *w = malloc(sizeof(*w));

	(void)state;
	world_make(w, 4);
	assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, NULL, NULL), 0);
	map_holds(w);
	assert_null(class_find(w, "g/a_f64_Array1D"));
	world_done(w);
	free(w);
}

/* ------------------------------------------------------------------ auto */

static int sample_read(void *ctx, uint32_t region, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct world *w = ctx;

	(void)err;
	assert_true(offset <= BYTES && bytes <= BYTES - offset);
	memcpy(to, w->data[region / 2] + offset, bytes);
	return 0;
}

/* As if numbers packed to half, or bytes did. */
static size_t numbers_pack(void *ctx, enum kedge_type type, int ndims, const uint64_t *dims, const void *data,
			   size_t bytes)
{
	(void)ctx, (void)ndims, (void)dims, (void)data;
	return type == KEDGE_BYTES ? bytes : bytes / 2;
}

static size_t bytes_pack(void *ctx, enum kedge_type type, int ndims, const uint64_t *dims, const void *data,
			 size_t bytes)
{
	(void)ctx, (void)ndims, (void)dims, (void)data;
	return type == KEDGE_BYTES ? bytes / 4 : bytes;
}

static void test_auto(void **state)
{
	struct kedge__aggregate_options o = {.scheme = KEDGE__AGGREGATE_AUTO, .block = 1000, .least = 100, .unit = 256};
	struct world *w = malloc(sizeof(*w));
	struct kedge__aggregate_sample sample = {sample_read, numbers_pack, w, NULL};
	struct kedge__aggregate_memory memory = {.scheme = KEDGE__AGGREGATE_AWARE_BLOCK, .age = 3};

	(void)state;
	/* Too little for a sample. */
	world_make(w, 5);
	assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, &sample, NULL), 0);
	assert_int_equal(w->red.classes.scheme, KEDGE__AGGREGATE_AWARE);
	assert_int_equal(w->red.classes.reason, KEDGE__AGGREGATE_LITTLE);
	world_done(w);
	/* Remembered, and for how long. */
	world_make(w, 5);
	assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, &memory, &sample, NULL), 0);
	assert_int_equal(w->red.classes.scheme, KEDGE__AGGREGATE_AWARE_BLOCK);
	assert_int_equal(w->red.classes.reason, KEDGE__AGGREGATE_REMEMBERED);
	assert_int_equal(w->red.classes.age, 4);
	map_holds(w);
	world_done(w);
	memory.age = 15;
	world_make(w, 5);
	assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, &memory, &sample, NULL), 0);
	assert_int_equal(w->red.classes.reason, KEDGE__AGGREGATE_LITTLE);
	world_done(w);
	/* Nothing is understood: everything stays as it is. */
	world_make(w, 5);
	assert_int_equal(kedge__aggregate(&w->red, w->files + 3, 2, &o, NULL, &sample, NULL), 0);
	assert_int_equal(w->red.classes.count, 0);
	map_holds(w);
	world_done(w);
	free(w);
}

static void test_samples_decide(void **state)
{
	struct kedge__aggregate_options o = {.scheme = KEDGE__AGGREGATE_AUTO, .block = 1000, .least = 100, .unit = 256};
	struct world *w = malloc(sizeof(*w));

	(void)state;
	for (int bytes = 0; bytes < 2; bytes++) {
		struct kedge__aggregate_sample sample = {sample_read, bytes ? bytes_pack : numbers_pack, w, NULL};

		o.sample_least = 1;
		world_make(w, 6);
		assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, &sample, NULL), 0);
		assert_int_equal(w->red.classes.scheme, bytes ? KEDGE__AGGREGATE_AGNOSTIC : KEDGE__AGGREGATE_AWARE);
		assert_int_equal(w->red.classes.reason, KEDGE__AGGREGATE_SMALLEST);
		assert_true(w->red.classes.sizes[KEDGE__AGGREGATE_AWARE - 1] > 0);
		map_holds(w);
		world_done(w);
	}
	free(w);
}

static size_t all_pack_alike(void *ctx, enum kedge_type type, int ndims, const uint64_t *dims, const void *data,
			     size_t bytes)
{
	(void)ctx, (void)type, (void)ndims, (void)dims, (void)data;
	return bytes / 2;
}

/* Where nothing is gained by it, files are arranged by what they say that they are, but not by guesses. */
static void test_guesses_have_to_be_worth_it(void **state)
{
	struct kedge__aggregate_options o = {
	    .scheme = KEDGE__AGGREGATE_AUTO, .block = 1000, .least = 100, .unit = 256, .sample_least = 1};
	struct world *w = malloc(sizeof(*w));
	struct kedge__aggregate_sample sample = {sample_read, all_pack_alike, w, NULL};

	(void)state;
	for (int known = 0; known < 2; known++) {
		world_make(w, 6);
		for (size_t f = 0; f < 3; f++)
			w->files[f].layout.format = known && f == 1 ? KEDGE__FILE_HDF5 : KEDGE__FILE_RAW;
		assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, &sample, NULL), 0);
		assert_int_equal(w->red.classes.scheme, known ? KEDGE__AGGREGATE_AWARE : KEDGE__AGGREGATE_AGNOSTIC);
		map_holds(w);
		world_done(w);
	}
	free(w);
}

/* Numbers, and nothing but numbers of one class, and as many as were asked for. */
static bool windows_echo(void *ctx, enum kedge_type type, const void *windows, size_t bytes)
{
	bool *echoes = ((struct world *)ctx)->echoes;

	(void)windows;
	assert_true(type == KEDGE_F64 || type == KEDGE_F32);
	assert_true(bytes > 0 && bytes % kedge_type_size(type) == 0);
	echoes[0] = true;
	return echoes[1];
}

/* Where numbers of a class repeat themselves they have to come together, whatever samples of single places say. */
static void test_echoes(void **state)
{
	struct kedge__aggregate_options o = {
	    .scheme = KEDGE__AGGREGATE_AUTO, .block = 1000, .least = 100, .unit = 256, .sample_least = 1};
	struct world *w = malloc(sizeof(*w));
	struct kedge__aggregate_sample sample = {sample_read, bytes_pack, w, windows_echo};

	(void)state;
	for (int there = 0; there < 2; there++) {
		bool echoes[2] = {false, there};

		world_make(w, 6);
		w->echoes = echoes;
		assert_int_equal(kedge__aggregate(&w->red, w->files, FILES, &o, NULL, &sample, NULL), 0);
		assert_true(echoes[0]);
		assert_int_equal(w->red.classes.scheme, there ? KEDGE__AGGREGATE_AWARE : KEDGE__AGGREGATE_AGNOSTIC);
		assert_int_equal(w->red.classes.reason, there ? KEDGE__AGGREGATE_ECHOES : KEDGE__AGGREGATE_SMALLEST);
		map_holds(w);
		world_done(w);
	}
	free(w);
}

/* No memory at any point: nothing is changed. */
static void test_no_memory(void **state)
{
	struct kedge__aggregate_options o = {
	    .scheme = KEDGE__AGGREGATE_AWARE, .block = 1000, .least = 100, .unit = 256};
	struct world *w = malloc(sizeof(*w));
	int rc = KEDGE_E_NOMEM;

	(void)state;
	world_make(w, 7);
	for (int fail = 1; rc; fail++) {
		char fault[32];

		snprintf(fault, sizeof(fault), "alloc@%d", fail);
		kedge__fault_set(fault, NULL);
		rc = kedge__aggregate(&w->red, w->files, FILES, &o, NULL, NULL, NULL);
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || (rc == KEDGE_E_NOMEM && !w->red.classes.count));
		map_holds(w);
	}
	classes_hold(w);
	world_done(w);
	free(w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names_of_classes),
	    cmocka_unit_test(test_rules_of_the_user),
	    cmocka_unit_test(test_rules_that_are_wrong),
	    cmocka_unit_test(test_every_scheme_keeps_all_bytes),
	    cmocka_unit_test(test_classes_of_aware),
	    cmocka_unit_test(test_numbers_stay_whole),
	    cmocka_unit_test(test_memory_for_seams_is_bounded),
	    cmocka_unit_test(test_auto),
	    cmocka_unit_test(test_samples_decide),
	    cmocka_unit_test(test_guesses_have_to_be_worth_it),
	    cmocka_unit_test(test_echoes),
	    cmocka_unit_test(test_no_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
