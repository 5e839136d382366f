/* SPDX-License-Identifier: BSD-3-Clause */
/* test_keep.c: which versions stay: what people write, what restic answers to the same question, and what fits. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "store/store.h"

#include <string.h>

#include "restic_answers.inc"

#define MOST 1000

static struct kedge__keep_item items[MOST];
static struct kedge__bytes said;

static struct kedge__keep rule(const char *text)
{
	struct kedge__keep k;

	assert_int_equal(kedge__keep_parse(text, &k, NULL), 0);
	return k;
}

static void items_clear(void)
{
	memset(items, 0, sizeof(items));
}

/* ------------------------------------------------------------------ as it is written */

static void test_text(void **state)
{
	static const char *const same[][2] = {
	    {"", ""},
	    {"0", ""},
	    {"3", "3"},
	    {"last:3", "3"},
	    {" 3,hourly:24  daily:7 ", "3 hourly:24 daily:7"},
	    {"yearly:1 monthly:2 weekly:3", "weekly:3 monthly:2 yearly:1"},
	    {"bytes:2k", "bytes:2048"},
	};
	static const char *const bad[] = {
	    "x",      "-1",      "3x",      "hourly",      "hourly:",     "daily:x",     "hourly:-1",
	    "bytes:", "bytes:x", "often:3", "3 4 monkeys", "hourly:1e99", "12345678901", ":3"};
	char text[KEDGE__KEEP_ROOM];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(same); i++) {
		struct kedge__keep k = rule(same[i][0]), again;

		assert_string_equal(kedge__keep_text(&k, text), same[i][1]);
		again = rule(text);
		assert_memory_equal(&k, &again, sizeof(k));
	}
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		struct kedge__keep k = {.last = 77};

		assert_int_equal(kedge__keep_parse(bad[i], &k, &err), KEDGE_E_CONFIG);
		assert_int_equal(k.last, 77);
		assert_non_null(strstr(kedge__error_text(&err), "hourly:N"));
		kedge__error_done(&err);
	}
}

/* ------------------------------------------------------------------ times */

static void times_load(void)
{
	items_clear();
	for (size_t i = 0; i < KEDGE__COUNT(restic_times); i++) {
		items[i].version = 10 + i;
		items[i].time_ns = (uint64_t)restic_times[i] * UINT64_C(1000000000) + 999999999;
	}
}

static void assert_stay(size_t count, const char *stay, const char *what)
{
	for (size_t i = 0; i < count; i++) {
		if ((items[i].why != 0) != (stay[i] == '1'))
			fail_msg("keep = %s: version %llu, of %lld, %s", what, (unsigned long long)items[i].version,
				 (long long)(items[i].time_ns / 1000000000), items[i].why ? "stays" : "goes");
	}
}

static void test_as_restic(void **state)
{
	(void)state;
	assert_true(KEDGE__COUNT(restic_times) < MOST);
	for (size_t a = 0; a < KEDGE__COUNT(restic_answers); a++) {
		struct kedge__keep k = rule(restic_answers[a].keep);

		times_load();
		assert_int_equal(strlen(restic_answers[a].stay), KEDGE__COUNT(restic_times));
		kedge__keep_choose(&k, items, KEDGE__COUNT(restic_times));
		assert_stay(KEDGE__COUNT(restic_times), restic_answers[a].stay, restic_answers[a].keep);
	}
}

static size_t remove_others(size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (items[i].why)
			items[n++] = items[i];
	return n;
}

/* Asked after each version, with what is left, it is the same in the end as asked once. */
static void test_again_and_again(void **state)
{
	(void)state;
	for (size_t a = 0; a < KEDGE__COUNT(restic_answers); a++) {
		struct kedge__keep k = rule(restic_answers[a].keep);
		size_t n = 0, wanted = 0;

		items_clear();
		for (size_t i = 0; i < KEDGE__COUNT(restic_times); i++) {
			items[n++] = (struct kedge__keep_item){
			    .version = 10 + i, .time_ns = (uint64_t)restic_times[i] * UINT64_C(1000000000)};
			kedge__keep_choose(&k, items, n);
			assert_true(items[n - 1].why != 0); /* the newest always does */
			n = remove_others(n);
		}
		for (size_t i = 0; i < KEDGE__COUNT(restic_times); i++) {
			if (restic_answers[a].stay[i] != '1')
				continue;
			assert_true(wanted < n);
			assert_int_equal(items[wanted++].version, 10 + i);
		}
		assert_int_equal(wanted, n);
	}
}

/* ------------------------------------------------------------------ labels, damage, abandoned versions */

static void test_others(void **state)
{
	struct kedge__keep two = rule("2"), days = rule("daily:2"), all = rule("0");

	(void)state;
	items_clear();
	for (size_t i = 0; i < 8; i++)
		items[i] = (struct kedge__keep_item){.version = i, .time_ns = i * UINT64_C(86400000000000)};
	items[1].labelled = true;
	items[7].unfit = true;   /* newer than what counts: may be all that is left of something */
	items[6].outside = true; /* of a run that was left: goes, with a label or without */
	items[6].labelled = true;
	items[2].unfit = true;
	kedge__keep_choose(&two, items, 8);
	assert_stay(8, "01001101", "2");
	assert_int_equal(items[7].why, KEDGE__STAYS_UNFIT);
	assert_int_equal(items[1].why, KEDGE__STAYS_LABEL);
	kedge__keep_choose(&days, items, 8);
	assert_stay(8, "01001101", "daily:2");
	kedge__keep_choose(&all, items, 8);
	assert_stay(8, "11111101", "0");
	kedge__keep_choose(&days, items, 8);
	kedge__keep_why(&items[5], &said);
	assert_string_equal((char *)said.at, "daily");
	kedge__keep_why(&items[3], &said);
	assert_string_equal((char *)said.at, "nothing asks for it");
	kedge__keep_why(&items[6], &said);
	assert_string_equal((char *)said.at, "abandoned by a later run");
}

/* ------------------------------------------------------------------ bytes */

/* What stays takes, with all that it needs. */
static uint64_t bytes_of_kept(size_t count, bool labelled_only)
{
	bool needed[MOST] = {false};
	uint64_t bytes = 0;

	for (size_t i = count; i-- > 0;) {
		needed[i] = needed[i] || (labelled_only ? items[i].labelled : items[i].why != 0);
		bytes += needed[i] ? items[i].bytes : 0;
		for (size_t n = 0; needed[i] && n < items[i].need_count; n++)
			needed[items[i].needs[n]] = true;
	}
	return bytes;
}

/* Drawn lineages: all that stays fits, unless it is the newest or has a label; and the next older one would not fit. */
static void test_bytes(void **state)
{
	static uint64_t needs[60][3];

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct kedge__keep k = {.bytes = 1 + seed * 13 % 4000, .last = seed % 3 ? 0 : 20};
		uint64_t s = seed;
		size_t count = 2 + draw_below(&s, 50), oldest = count - 1;
		bool one;

		items_clear();
		for (size_t i = 0; i < count; i++) {
			items[i] = (struct kedge__keep_item){.version = i,
							     .bytes = draw_below(&s, 200),
							     .labelled = draw_below(&s, 20) == 0,
							     .needs = needs[i]};
			items[i].need_count = i && draw_below(&s, 6) ? 1 + draw_below(&s, 3) : 0;
			for (size_t n = 0; n < items[i].need_count; n++)
				needs[i][n] = i - 1 - draw_below(&s, i < 4 ? i : 4);
		}
		kedge__keep_choose(&k, items, count);
		assert_true(items[count - 1].why != 0);
		for (size_t i = 0; i < count; i++)
			oldest = items[i].why && !items[i].labelled && i < oldest ? i : oldest;
		one = oldest == count - 1;
		assert_true(one || bytes_of_kept(count, false) <= k.bytes);
		for (size_t i = 0; i < count; i++)
			assert_true(i < oldest || items[i].why); /* no gaps */
		while (oldest-- > 0 && items[oldest].labelled)
			continue;
		if (oldest == SIZE_MAX || (k.last && count - oldest > k.last))
			continue;
		assert_true(items[oldest].over);
		items[oldest].why = items[oldest].over;
		assert_true(bytes_of_kept(count, false) > k.bytes || bytes_of_kept(count, true) > k.bytes);
	}
}

static int keep_done(void **state)
{
	(void)state;
	kedge__bytes_done(&said);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),   cmocka_unit_test(test_as_restic), cmocka_unit_test(test_again_and_again),
	    cmocka_unit_test(test_others), cmocka_unit_test(test_bytes),
	};

	return cases_run(argc, argv, tests, NULL, keep_done);
}
