/* SPDX-License-Identifier: BSD-3-Clause */
/* Where files keep their variables: of those that make_files.py wrote, and of others that are damaged. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "aggregate/aggregate.h"

#include <stdio.h>
#include <stdlib.h>

struct text { /* a file in memory, on which reads may fail */
	uint8_t *at;
	size_t bytes;
	int reads; /* that are left; negative: all */
};

static int text_get(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	struct text *t = ctx;

	(void)err;
	assert_true(offset <= t->bytes && bytes <= t->bytes - offset);
	if (!t->reads)
		return KEDGE_E_IO;
	t->reads--;
	memcpy(to, t->at + offset, bytes);
	return 0;
}

static struct text text_of(const char *name)
{
	char path[FILES_PATH];
	struct text t = {.reads = -1};

	path_make(path, "%s/%s", FILES_DIR, name);
	t.at = file_read(path, &t.bytes);
	assert_non_null(t.at);
	return t;
}

static void look(struct text *t, struct kedge__layout *out)
{
	const struct kedge__contents c = {t->bytes, text_get, t};
	uint64_t end = 0;

	assert_int_equal(kedge__layout_read(&c, out, NULL), 0);
	for (size_t i = 0; i < out->runs.count; i++) {
		const struct kedge__layout_run *run = &out->runs.at[i];

		assert_true(run->bytes && run->offset >= end && run->bytes <= t->bytes - run->offset);
		assert_true(run->variable < out->variables.count);
		end = run->offset + run->bytes;
	}
}

/* ------------------------------------------------------------------ numbers */

static double number_at(const uint8_t *at, bool big, bool is_float, unsigned width)
{
	uint64_t v = 0;
	float single;
	double twice;
	uint32_t half;

	for (unsigned i = 0; i < width; i++)
		v |= (uint64_t)at[big ? width - 1 - i : i] << 8 * i;
	if (!is_float)
		return (double)v;
	half = (uint32_t)v;
	memcpy(&single, &half, 4);
	memcpy(&twice, &v, 8);
	return width == 4 ? (double)single : twice;
}

/* A variable called N_M_BKW_... has the numbers from N on. */
static bool numbers_are(const struct text *t, const struct kedge__layout *l, uint32_t variable)
{
	const struct kedge__variable *v = &l->variables.at[variable];
	const char *name = strrchr(v->name, '/') ? strrchr(v->name, '/') + 1 : v->name;
	uint8_t *bytes = malloc(v->bytes + 1);
	unsigned first, count, width;
	uint64_t used = 0;
	char order, kind;

	if (sscanf(name, "%u_%u_%c%c%u_", &first, &count, &order, &kind, &width) != 5) {
		free(bytes);
		return false;
	}
	for (size_t i = 0; i < l->runs.count; i++) {
		if (l->runs.at[i].variable != variable)
			continue;
		assert_int_equal(l->runs.at[i].at, used);
		memcpy(bytes + used, t->at + l->runs.at[i].offset, l->runs.at[i].bytes);
		used += l->runs.at[i].bytes;
	}
	assert_true(used >= (uint64_t)count * width);
	for (unsigned i = 0; i < count && width > 1; i++)
		assert_true(number_at(bytes + (size_t)i * width, order == 'b', kind == 'f', width) == first + i);
	assert_int_equal(kedge_type_size(v->type), width);
	assert_int_equal(v->type == KEDGE_F32 || v->type == KEDGE_F64, kind == 'f' && order == 'l');
	free(bytes);
	return true;
}

static const struct {
	const char *name;
	enum kedge__file_format format;
	size_t variables, numbers; /* that it has, and of them those with numbers */
} files[] = {
    {"old.h5", KEDGE__FILE_HDF5, 11, 9},
    {"new.h5", KEDGE__FILE_HDF5, 11, 9},
    {"old_odd.h5", KEDGE__FILE_HDF5, 10, 1},
    {"new_odd.h5", KEDGE__FILE_HDF5, 10, 1},
    {"many_old.h5", KEDGE__FILE_HDF5, 20, 20},
    {"many_new.h5", KEDGE__FILE_HDF5, 20, 20},
    {"user.h5", KEDGE__FILE_HDF5, 1, 1},
    {"one.nc", KEDGE__FILE_NETCDF, 4, 4},
    {"one_one.nc", KEDGE__FILE_NETCDF, 1, 1},
    {"two.nc", KEDGE__FILE_NETCDF, 4, 4},
    {"two_one.nc", KEDGE__FILE_NETCDF, 1, 1},
    {"five.nc", KEDGE__FILE_NETCDF, 4, 4},
    {"five_one.nc", KEDGE__FILE_NETCDF, 1, 1},
    {"four.nc", KEDGE__FILE_HDF5, 4, 4},
    {"four_one.nc", KEDGE__FILE_HDF5, 1, 1},
    {"restart.raw", KEDGE__FILE_RAW, 2, 0},
    /* Of messages that are shared, only what has them first is understood; the rest is opaque. */
    {"shared_old.h5", KEDGE__FILE_HDF5, 1, 1},
    {"shared_new.h5", KEDGE__FILE_HDF5, 1, 1},
};

static void test_all_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text t = text_of(files[i].name);
		struct kedge__layout l;
		size_t numbers = 0;

		look(&t, &l);
		assert_int_equal(l.format, files[i].format);
		assert_int_equal(l.variables.count, files[i].variables);
		for (uint32_t k = 0; k < l.variables.count; k++)
			numbers += numbers_are(&t, &l, k);
		assert_int_equal(numbers, files[i].numbers);
		kedge__layout_done(&l);
		free(t.at);
	}
}

/* A file of somebody else: all of it, that make_files.py wrote, is found. For test_aggregate.sh. */
static void test_given_file(void **state)
{
	const char *path = getenv("KEDGE_TEST_LAYOUT");
	struct text t = {.reads = -1};
	struct kedge__layout l;
	size_t numbers = 0;

	(void)state;
	if (!path)
		skip();
	t.at = file_read(path, &t.bytes);
	assert_non_null(t.at);
	look(&t, &l);
	for (uint32_t k = 0; k < l.variables.count; k++)
		numbers += numbers_are(&t, &l, k);
	assert_int_equal(numbers, strtoul(getenv("KEDGE_TEST_NUMBERS"), NULL, 10));
	kedge__layout_done(&l);
	free(t.at);
}

/* ------------------------------------------------------------------ what they are */

static const struct kedge__variable *variable(const struct kedge__layout *l, const char *name)
{
	for (size_t i = 0; i < l->variables.count; i++)
		if (strcmp(l->variables.at[i].name, name) == 0)
			return &l->variables.at[i];
	fail_msg("there is no %s", name);
	return NULL;
}

static void test_types_and_shapes(void **state)
{
	static const char *const names[] = {"old.h5", "new.h5"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct text t = text_of(names[i]);
		const struct kedge__variable *v;
		struct kedge__layout l;

		look(&t, &l);
		v = variable(&l, "100_600_lf8_contiguous");
		assert_true(v->type == KEDGE_F64 && v->ndims == 2 && v->dims[0] == 20 && v->dims[1] == 30);
		v = variable(&l, "800_640_li8_two"); /* a chunk */
		assert_true(v->type == KEDGE_I64 && v->ndims == 2 && v->dims[0] == 4 && v->dims[1] == 16);
		v = variable(&l, "400_400_bf4_big");
		assert_true(v->type == KEDGE_U32);
		v = variable(&l, "packed");
		assert_true(v->filtered && v->type == KEDGE_BYTES);
		v = variable(&l, "900_500_lf4_sums");
		assert_true(!v->filtered && v->bytes == 2004);
		kedge__layout_done(&l);
		free(t.at);
	}
}

static void test_others_are_opaque(void **state)
{
	static const char *const texts[] = {
	    "", "C", "CDF", "CDF\3", "CDF\1", "\x89HDF\r\n\x1a\n", "\x89HDF\r\n\x1a\n\7", "text"};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(texts); i++) {
		struct text t = {(uint8_t *)texts[i], strlen(texts[i]), -1};
		struct kedge__layout l;

		look(&t, &l);
		assert_int_equal(l.runs.count, 0);
		kedge__layout_done(&l);
	}
}

/* ------------------------------------------------------------------ raw arrays */

#define RAW_BYTES ((size_t)400000)

struct array { /* numbers that make_array() writes */
	unsigned width;
	bool is_float, big;
	size_t header;  /* bytes of text before it */
	size_t records; /* numbers between markers of Fortran; 0: there are none */
	enum kedge_type type;
};

static void put_number(uint8_t *to, const struct array *a, double v)
{
	float single = (float)v;
	int64_t whole = (int64_t)(v * (a->width == 2 ? 1000 : 1e6));
	uint8_t bytes[8];

	if (!a->is_float)
		memcpy(bytes, &whole, 8);
	else if (a->width == 8)
		memcpy(bytes, &v, 8);
	else
		memcpy(bytes, &single, 4);
	for (unsigned i = 0; i < a->width; i++)
		to[i] = bytes[a->big ? a->width - 1 - i : i];
}

/* A wave with a little noise, behind a text. */
static size_t make_array(uint8_t *to, size_t room, const struct array *a, uint64_t seed)
{
	size_t at = 0, n = 0;

	while (at < a->header)
		at += (size_t)snprintf((char *)to + at, room - at, "line %llu of it\n",
				       (unsigned long long)draw_below(&seed, 90));
	at = a->header;
	for (; at + 16 + a->width <= room; n++) {
		if (a->records && n % a->records == 0) {
			kedge__put64(to + at, a->records * a->width << 32 | a->records * a->width);
			at += 8;
		}
		put_number(to + at, a,
			   5 + (double)(n % 500) * (double)(n % 500) * 1e-5 + (double)draw_below(&seed, 100) * 1e-7);
		at += a->width;
	}
	return at;
}

static void test_raw_arrays(void **state)
{
	static const struct array arrays[] = {
	    {8, true, false, 0, 0, KEDGE_F64},    {8, true, false, 6558, 0, KEDGE_F64},
	    {8, true, false, 4, 1000, KEDGE_F64}, {8, true, true, 1003, 0, KEDGE_U64},
	    {4, true, false, 80, 0, KEDGE_F32},   {4, true, true, 70001, 0, KEDGE_U32},
	    {4, false, false, 21, 0, KEDGE_I32},  {2, false, false, 5, 0, KEDGE_I16},
	    {2, false, true, 1, 0, KEDGE_U16},    {4, true, false, 41, 2000, KEDGE_F32}};
	uint8_t *data = malloc(RAW_BYTES);

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(arrays); i++) {
		const struct array *a = &arrays[i];
		struct text t = {data, make_array(data, RAW_BYTES, a, i + 1), -1};
		struct kedge__layout l;

		look(&t, &l);
		assert_int_equal(l.format, KEDGE__FILE_RAW);
		assert_int_equal(l.runs.count, 1);
		assert_int_equal(l.variables.at[0].type, a->type);
		assert_int_equal(l.runs.at[0].offset % a->width, a->header % a->width);
		assert_true(l.runs.at[0].offset + 4096 > a->header &&
			    l.runs.at[0].offset < a->header + 4096 + a->width);
		assert_true(l.runs.at[0].offset + l.runs.at[0].bytes > t.bytes - 16);
		kedge__layout_done(&l);
	}
	free(data);
}

/* Several, of different widths and with a text between them. */
static void test_raw_arrays_in_one_file(void **state)
{
	const struct array first = {8, true, false, 1001, 0, KEDGE_F64},
			   second = {4, false, false, 60003, 0, KEDGE_I32};
	uint8_t *data = malloc(2 * RAW_BYTES);
	size_t middle = make_array(data, RAW_BYTES, &first, 3);
	struct text t = {data, middle + make_array(data + middle, RAW_BYTES, &second, 4), -1};
	struct kedge__layout l;

	(void)state;
	look(&t, &l);
	assert_int_equal(l.runs.count, 2);
	assert_int_equal(l.variables.at[l.runs.at[0].variable].type, KEDGE_F64);
	assert_int_equal(l.variables.at[l.runs.at[1].variable].type, KEDGE_I32);
	assert_int_equal(l.runs.at[0].offset % 8, 1001 % 8);
	assert_int_equal(l.runs.at[1].offset % 4, (middle + 60003) % 4);
	assert_in_range(l.runs.at[0].offset + l.runs.at[0].bytes, middle - 4096, middle + 4096);
	assert_in_range(l.runs.at[1].offset, middle + 60003 - 4096, middle + 60003 + 4096);
	kedge__layout_done(&l);
	free(data);
}

/* What has no numbers is left alone: text, a table of it, noise, zeros; and so is what is short. */
static void test_no_raw_arrays(void **state)
{
	uint8_t *data = malloc(RAW_BYTES);
	struct kedge__layout l;

	(void)state;
	for (int kind = 0; kind < 5; kind++) {
		struct array a = {8, true, false, kind == 0 ? RAW_BYTES - 20 : 0, 0, KEDGE_F64};
		struct text t = {data, RAW_BYTES, -1};

		t.bytes = kind == 2 ? 10000 : t.bytes;
		if (kind == 1)
			fill_random(data, t.bytes, 5);
		else if (kind == 3)
			memset(data, 0, t.bytes);
		else if (kind == 4)
			for (size_t i = 0; i + 9 <= t.bytes; i += 8)
				snprintf((char *)data + i, 9, "%07zu\n", i % 5000);
		else
			make_array(data, t.bytes, &a, 1);
		look(&t, &l);
		assert_int_equal(l.runs.count, 0);
		kedge__layout_done(&l);
	}
	free(data);
}

/* ------------------------------------------------------------------ bad input */

static void test_truncated(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text t = text_of(files[i].name);
		size_t all = t.bytes;

		for (size_t k = 0; k < 100; k++) {
			struct text part = {malloc(all * k / 100 + 1), all * k / 100, -1};
			struct kedge__layout l;

			memcpy(part.at, t.at, part.bytes);
			look(&part, &l);
			kedge__layout_done(&l);
			free(part.at);
		}
		free(t.at);
	}
}

static void test_reads_that_fail(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text t = text_of(files[i].name);

		for (int reads = 0; reads < 12; reads++) {
			struct kedge__layout l;

			t.reads = reads;
			look(&t, &l);
			kedge__layout_done(&l);
		}
		free(t.at);
	}
}

/* Any byte of the first kilobytes, where the metadata is, may be anything; so may several. */
static void test_damaged(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text t = text_of(files[i].name);

		for (int turn = 0; turn < 300; turn++) {
			size_t at[4];
			uint8_t was[4];
			struct kedge__layout l;

			for (size_t k = 0; k < 4; k++) {
				at[k] = (size_t)draw_below(&seed, KEDGE__MIN(t.bytes, 4096));
				was[k] = t.at[at[k]];
				t.at[at[k]] = draw_below(&seed, 2) ? 0xff : (uint8_t)draw(&seed);
			}
			look(&t, &l);
			kedge__layout_done(&l);
			for (size_t k = 4; k-- > 0;)
				t.at[at[k]] = was[k];
		}
		free(t.at);
	}
}

/* A group that is its own member, and a tree whose nodes are each other's children, end. */
static void test_loops_end(void **state)
{
	struct text t = text_of("old.h5");
	uint8_t *node = t.at;
	struct kedge__layout l;

	(void)state;
	for (size_t at = 0; at + 64 < t.bytes; at++) {
		if (memcmp(t.at + at, "TREE", 4) != 0)
			continue;
		node = t.at + at;
		node[5] = 200;               /* its level, */
		node[6] = node[7] = 0xff;    /* entries, */
		kedge__put64(node + 32, at); /* and the first of them */
	}
	look(&t, &l);
	kedge__layout_done(&l);
	free(t.at);
}

/* Every allocation fails in turn: no memory, or all that there is. */
static void no_memory(const char *name, size_t variables)
{
	struct text t = text_of(name);
	const struct kedge__contents c = {t.bytes, text_get, &t};
	struct kedge__layout l = {0};
	int rc = KEDGE_E_NOMEM;

	for (int fail = 1; rc; fail++) {
		char fault[32];

		snprintf(fault, sizeof(fault), "alloc@%d", fail);
		kedge__fault_set(fault, NULL);
		rc = kedge__layout_read(&c, &l, NULL);
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
	}
	assert_int_equal(l.variables.count, variables);
	kedge__layout_done(&l);
	free(t.at);
}

static void test_no_memory(void **state)
{
	(void)state;
	no_memory("new.h5", 11);
	no_memory("restart.raw", 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_is_found),     cmocka_unit_test(test_given_file),
	    cmocka_unit_test(test_types_and_shapes), cmocka_unit_test(test_others_are_opaque),
	    cmocka_unit_test(test_truncated),        cmocka_unit_test(test_reads_that_fail),
	    cmocka_unit_test(test_damaged),          cmocka_unit_test(test_loops_end),
	    cmocka_unit_test(test_no_memory),        cmocka_unit_test(test_raw_arrays),
	    cmocka_unit_test(test_no_raw_arrays),    cmocka_unit_test(test_raw_arrays_in_one_file),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
