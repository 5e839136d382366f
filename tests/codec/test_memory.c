/* SPDX-License-Identifier: BSD-3-Clause */
/* What is remembered of choices, and when it is doubted: by figures alone. */
#include "support.h"

static struct kedge__codec_subject subject(uint32_t id, enum kedge_type type, uint64_t bytes)
{
	return (struct kedge__codec_subject){.id = id, .kind = id, .type = type, .bytes = bytes, .packing = bytes};
}

struct lab {
	struct kedge__codec_memory *memory;
	struct kedge__codec_choice wanted, got;
	struct kedge__codec_why why;
	struct kedge__codec_subject region;
};

/* A region of 10 MB that zstd:3 packs to a half. */
static void lab_open(struct lab *l)
{
	struct kedge__codec_choice zstd;
	const struct kedge__codec_why why = {.reason = KEDGE__CODEC_FASTEST, .size = 0.5, .tried = 7};

	*l = (struct lab){.region = subject(4, KEDGE_F64, 10000000)};
	assert_true(choice_of("zstd:3", &zstd) && choice_of("auto", &l->wanted));
	l->wanted.storage = 100e6;
	assert_int_equal(kedge__codec_memory_new(&l->memory, NULL), 0);
	assert_int_equal(kedge__codec_memory_keep(l->memory, &l->region, &l->wanted, &zstd, &why, NULL), 0);
}

static void lab_close(struct lab *l)
{
	kedge__codec_memory_free(l->memory);
}

static enum kedge__codec_look ask(struct lab *l)
{
	return kedge__codec_memory_ask(l->memory, &l->region, &l->wanted, &l->got, &l->why);
}

static void test_remembers(void **state)
{
	struct lab l;
	char text[KEDGE__CODEC_NAME_ROOM];
	unsigned age = 0;

	(void)state;
	lab_open(&l);
	/* A few samples a version, and a close look now and then. */
	while (ask(&l) == KEDGE__LOOK_CHECK) {
		assert_string_equal(kedge__codec_choice_describe(&l.got, text), "zstd:3");
		assert_int_equal(l.why.age, ++age);
		assert_int_equal(kedge__codec_memory_keep(l.memory, &l.region, &l.wanted, &l.got, &l.why, NULL), 0);
		assert_true(age < 100);
	}
	assert_int_equal(ask(&l), KEDGE__LOOK_CLOSE);
	assert_int_equal(age, 15);
	/* Of others, only what is known of their kind. */
	l.region.id = 3;
	assert_int_equal(ask(&l), KEDGE__LOOK_CHECK);
	assert_int_equal(l.why.reason, KEDGE__CODEC_BORROWED);
	l.region.kind = 3;
	assert_int_equal(ask(&l), KEDGE__LOOK_CLOSE);
	lab_close(&l);
}

static void test_doubts(void **state)
{
	struct lab l, changed;

	(void)state;
	lab_open(&l);
#define DOUBTED(change)                                                                                                \
	do {                                                                                                           \
		changed = l;                                                                                           \
		changed.change;                                                                                        \
		assert_int_equal(ask(&changed), KEDGE__LOOK_CLOSE);                                                    \
	} while (0)
	DOUBTED(region.type = KEDGE_F32);
	DOUBTED(region.bytes = 30000000);
	DOUBTED(region.bytes = 4000000);
	DOUBTED(region.base = true);
	DOUBTED(wanted.row = 100);
	DOUBTED(wanted.storage = 10e6);
	DOUBTED(wanted.storage = 1e9);
	DOUBTED(wanted.target = 200e6);
	DOUBTED(wanted.bus = KEDGE__CODEC_BUS);
	DOUBTED(wanted.smallest = true);
	changed = l;
	changed.region.bytes = 12000000;
	changed.wanted.storage = 150e6;
	assert_int_equal(ask(&changed), KEDGE__LOOK_CHECK);
	/* Little of it is new: not even samples. */
	changed.region.packing = 4096;
	assert_int_equal(ask(&changed), KEDGE__LOOK_NOT);
	lab_close(&l);
}

static void test_drift(void **state)
{
	struct lab l;

	(void)state;
	lab_open(&l);
	assert_int_equal(ask(&l), KEDGE__LOOK_CHECK);
	assert_true(kedge__codec_memory_fits(&l.why, 0.5));
	assert_true(kedge__codec_memory_fits(&l.why, 0.6));
	assert_false(kedge__codec_memory_fits(&l.why, 0.9));
	assert_false(kedge__codec_memory_fits(&l.why, 0.2));
	kedge__codec_memory_seen(l.memory, &l.region, 1000000, 480000);
	kedge__codec_memory_seen(l.memory, &l.region, 1000000, 510000);
	assert_int_equal(ask(&l), KEDGE__LOOK_CHECK);
	kedge__codec_memory_seen(l.memory, &l.region, 100, 100); /* too little to tell anything */
	assert_int_equal(ask(&l), KEDGE__LOOK_CHECK);
	kedge__codec_memory_seen(l.memory, &l.region, 1000000, 700000);
	assert_int_equal(ask(&l), KEDGE__LOOK_CLOSE);
	{
		const struct kedge__codec_subject unknown = subject(77, KEDGE_F64, 1000000);

		kedge__codec_memory_seen(l.memory, &unknown, 1000000, 700000);
	}
	lab_close(&l);
}

static void test_tiny(void **state)
{
	struct lab l;
	char text[KEDGE__CODEC_NAME_ROOM];

	(void)state;
	lab_open(&l);
	l.region = subject(9, KEDGE_F64, 800);
	l.wanted.row = 10;
	assert_int_equal(ask(&l), KEDGE__LOOK_NOT);
	assert_string_equal(kedge__codec_choice_describe(&l.got, text), "zstd:3");
	assert_int_equal(l.got.row, 10);
	assert_int_equal(l.why.reason, KEDGE__CODEC_BORROWED);
	/* There is no region of this type, or none that was packed for the same wish. */
	l.region.type = KEDGE_I32;
	assert_int_equal(ask(&l), KEDGE__LOOK_CLOSE);
	l.region.type = KEDGE_F64;
	l.wanted.storage = 1e9;
	assert_int_equal(ask(&l), KEDGE__LOOK_CLOSE);
	lab_close(&l);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_remembers),
	    cmocka_unit_test(test_doubts),
	    cmocka_unit_test(test_drift),
	    cmocka_unit_test(test_tiny),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
