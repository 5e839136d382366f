/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast storage is taken to be, and what that means for the codec: by figures alone. */
#include "job/handle.h"
#include "support.h"

#define MB 1000000

static void test_measured(void **state)
{
	struct kedge__pace p = {0};

	(void)state;
	assert_true(kedge__pace_storage(&p, 0, 1) == 0);
	kedge__pace_wrote(&p, 1000, 0.5, 1); /* latency, not speed */
	assert_true(kedge__pace_storage(&p, 0, 1) == 0);
	kedge__pace_wrote(&p, 100 * MB, 0.5, 2);
	assert_true(kedge__pace_storage(&p, 0, 1) == 200e6);
	kedge__pace_wrote(&p, 100 * MB, 1, 3);
	assert_true(kedge__pace_storage(&p, 0, 1) == 150e6);
	kedge__pace_wrote(&p, 100 * MB, 0, 4);
	assert_true(kedge__pace_storage(&p, 0, 1) == 150e6);
}

static void test_throttle(void **state)
{
	struct kedge__pace p = {0};

	(void)state;
	kedge__pace_wrote(&p, 100 * MB, 0.5, 10);
	/* When the next version comes is not known yet. */
	assert_true(kedge__pace_storage(&p, 10e6, 1) == 200e6);
	kedge__pace_wrote(&p, 100 * MB, 0.5, 30);
	/* 10 s of copying every 20 s: L2 waits for us. 20 s of it and more: we wait for L2. */
	assert_true(kedge__pace_storage(&p, 10e6, 1) == 200e6);
	assert_true(kedge__pace_storage(&p, 4e6, 1) == 4e6);
	assert_true(kedge__pace_storage(&p, 4e6, 3) == 200e6);
	assert_true(kedge__pace_storage(&p, 1e6, 3) == 3e6);
	assert_true(kedge__pace_storage(&p, 0, 1) == 200e6);
	p.l1 = 0;
	assert_true(kedge__pace_storage(&p, 4e6, 1) == 4e6);
}

static double data[200000];

static void data_make(uint64_t step)
{
	uint64_t seed = 1;

	for (size_t i = 0; i < KEDGE__COUNT(data); i++)
		data[i] = (double)(i / 64) + (double)draw_below(&seed, 4096) / 4096 + (double)(step * (i % 3)) / 1024;
}

/* What a checkpoint takes if L1 was measured to store L1_SPEED bytes a second. */
static uint64_t stored_at(const struct place *p, const char *rate, double l1_speed)
{
	kedge_t *k = job_open(p, false, MORE("codec=auto", "threads=1", "reducer=full", rate));
	static uint64_t version;
	struct kedge_stats stats;

	data_make(0);
	k->codec.pace = kedge__codec_pace_built_in;
	k->pace.l1 = l1_speed;
	assert_ok(k, kedge_protect(k, "x", data, KEDGE__COUNT(data), KEDGE_F64));
	assert_ok(k, kedge_checkpoint(k, ++version));
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_ok(k, kedge_close(k));
	return stats.stored_bytes;
}

/* A slow storage earns a stronger codec, a fast one none. */
static void test_weighed(void **state)
{
	uint64_t slow = stored_at(*state, "codec_rate=0", 1e6), fast = stored_at(*state, "codec_rate=0", 1e11);

	assert_true(fast > sizeof(data));
	assert_true(slow < fast / 2);
	/* With a rate it is not storage that counts: what no codec reaches is stored as it is. */
	assert_true(stored_at(*state, "codec_rate=1M", 1e11) <= slow);
	assert_true(stored_at(*state, "codec_rate=100G", 1e6) > sizeof(data));
}

/* Regions whose names differ in numbers only are packed as one of them, at which was looked. */
static void test_kinds(void **state)
{
	enum { COUNT = 12, EACH = 16384 };
	const struct place *p = *state;
	kedge_t *k = job_open(p, false, MORE("codec=auto", "threads=1", "reducer=full"));
	struct kedge__segment *seg;
	char name[4096];
	size_t borrowed = 0;

	data_make(0);
	k->codec.pace = kedge__codec_pace_built_in;
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), i < COUNT / 2 ? "level2/grid%d/density" : "level2/grid%d/energy", i);
		assert_ok(k, kedge_protect(k, name, data + i * EACH, EACH, KEDGE_F64));
	}
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_close(k));
	segment_path(p->l1, 1, 0, name, sizeof(name));
	assert_int_equal(kedge__segment_open(NULL, name, NULL, &seg, NULL), 0);
	assert_int_equal(seg->packing_count, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		borrowed += seg->packing[i].reason == KEDGE__CODEC_BORROWED;
	kedge__segment_close(seg);
	assert_int_equal(borrowed, COUNT - 2);
}

/* ------------------------------------------------------------------ packed against the version before */

static void check_restart(const struct place *p, bool l2, uint64_t version)
{
	static double got[KEDGE__COUNT(data)];
	kedge_t *k = job_open(p, l2, NULL);

	memset(data, 0xee, sizeof(data));
	assert_ok(k, kedge_protect(k, "x", data, KEDGE__COUNT(data), KEDGE_F64));
	assert_ok(k, kedge_restart(k, version, NULL));
	assert_ok(k, kedge_close(k));
	memcpy(got, data, sizeof(data));
	data_make(version);
	assert_memory_equal(got, data, sizeof(data));
}

static void test_base(void **state)
{
	const struct place *p = *state;
	kedge_t *k = job_open(p, true, MORE("codec=xor+shuffle+zstd", "reducer=full", "keep=3"));
	uint64_t first = 0, based = 0;
	struct kedge_stats stats;

	assert_ok(k, kedge_protect(k, "x", data, KEDGE__COUNT(data), KEDGE_F64));
	for (uint64_t version = 1; version <= 10; version++) {
		data_make(version);
		assert_ok(k, kedge_checkpoint(k, version));
		assert_ok(k, kedge_stats_get(k, &stats));
		if (version == 1)
			first = stats.stored_bytes;
		based += stats.stored_bytes < first * 9 / 10;
	}
	assert_true(based >= 6);
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_close(k));
	for (uint64_t version = 8; version <= 10; version++)
		check_restart(p, false, version);
	tree_remove(p->l1);
	for (uint64_t version = 1; version <= 10; version += 3)
		check_restart(p, true, version);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_measured),
	    cmocka_unit_test(test_throttle),
	    cmocka_unit_test_setup_teardown(test_weighed, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_kinds, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_base, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
