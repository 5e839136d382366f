/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "capture/capture.h"

#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)9 << 20) /* more than two slabs, the last one short */

static uint8_t *memory_new(void)
{
	uint8_t *m = kedge__malloc(BYTES);

	assert_non_null(m);
	for (size_t i = 0; i < BYTES; i++)
		m[i] = (uint8_t)(i * 31 + (i >> 12));
	return m;
}

static const size_t sizes[] = {1, 7, 4096, 0, (size_t)5 << 20, 3};

static void literals_cut(struct kedge__literal_list *list, const uint8_t *m)
{
	size_t at = 0;

	for (size_t i = 0; i < KEDGE__COUNT(sizes); i++) {
		struct kedge__literal l = {m + at, sizes[i], 0, 0};

		assert_true(kedge__array_push(list, l));
		at += sizes[i] + 5;
	}
	struct kedge__literal rest = {m + at, BYTES - at, 0, 0};
	assert_true(kedge__array_push(list, rest));
}

/* Literals where they are. */
static int fill(void *ctx, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err)
{
	const struct kedge__literal_list *list = ctx;
	uint8_t *to = buf;

	(void)worker, (void)err;
	for (size_t i = 0; len; position -= KEDGE__MIN(position, list->at[i].bytes), i++) {
		size_t n = list->at[i].bytes > position ? KEDGE__MIN(list->at[i].bytes - position, len) : 0;

		if (n)
			memcpy(to, (const uint8_t *)list->at[i].data + position, n);
		to += n;
		len -= n;
	}
	return 0;
}

/* Nothing has changed, but for a stretch with byte *CTX of it. */
static _Atomic uint64_t seen;
static uint64_t bad;

static int check(void *ctx, uint64_t position, const void *buf, size_t len, struct kedge__error *err)
{
	(void)ctx, (void)buf;
	seen += len;
	if (bad < position || bad - position >= len)
		return 0;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "it changed");
}

static void take_and_compare(int threads)
{
	struct kedge__literal_list list = {0}, was = {0};
	struct kedge__reserve s = {0};
	struct kedge__literal_source source = {.fill = fill, .check = check, .ctx = &was};
	struct kedge__pool *pool = NULL;
	uint8_t *m = memory_new(), *copy = kedge__malloc(BYTES);

	assert_non_null(copy);
	memcpy(copy, m, BYTES);
	literals_cut(&list, m);
	literals_cut(&was, copy);
	assert_int_equal(kedge__pool_new(threads, &pool, NULL), 0);
	for (bad = BYTES / 2, seen = 0; bad; bad = bad > BYTES ? 0 : UINT64_MAX) {
		int rc = kedge__snapshot_take(&s, pool, &list, &source, BYTES, NULL);

		assert_int_equal(rc, bad < BYTES ? KEDGE_E_STATE : 0);
		if (rc) /* then all is as it was */
			assert_ptr_equal(list.at[0].data, m);
		if (rc)
			seen = 0;
	}
	assert_int_equal(seen, BYTES - (KEDGE__COUNT(sizes) * 5));
	memset(m, 0xee, BYTES);
	for (size_t i = 0; i < list.count; i++) {
		assert_int_equal(list.at[i].bytes, was.at[i].bytes);
		if (list.at[i].bytes)
			assert_memory_equal(list.at[i].data, was.at[i].data, list.at[i].bytes);
	}
	kedge__reserve_done(&s);
	kedge__pool_free(pool);
	kedge__array_done(&list);
	kedge__array_done(&was);
	kedge__free(copy);
	kedge__free(m);
}

static void test_take(void **state)
{
	(void)state;
	take_and_compare(1);
	take_and_compare(3);
}

static void test_limit_and_nothing(void **state)
{
	struct kedge__literal_list list = {0};
	struct kedge__reserve s = {0};
	uint8_t bytes[100] = {0};
	struct kedge__literal l = {bytes, 100, 0, 0};
	struct kedge__literal_source source = {.fill = fill, .ctx = &list};

	(void)state;
	assert_int_equal(kedge__snapshot_take(&s, NULL, &list, &source, 0, NULL), 0);
	kedge__reserve_done(&s);
	assert_true(kedge__array_push(&list, l));
	assert_int_equal(kedge__snapshot_take(&s, NULL, &list, &source, 99, NULL), KEDGE_E_LIMIT);
	assert_ptr_equal(list.at[0].data, bytes);
	assert_int_equal(kedge__snapshot_take(&s, NULL, &list, &source, 100, NULL), 0);
	assert_ptr_not_equal(list.at[0].data, bytes);
	kedge__reserve_done(&s);
	kedge__array_done(&list);
}

/* Bytes of the reserve that are in memory. */
static size_t resident(const struct kedge__reserve *s)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (s->bytes + page - 1) / page, n = 0;
	unsigned char *present = kedge__malloc(pages);

	assert_non_null(present);
	assert_int_equal(mincore(s->memory, s->bytes, present), 0);
	for (size_t i = 0; i < pages; i++)
		n += (present[i] & 1) * page;
	kedge__free(present);
	return n;
}

static void ask(struct kedge__reserve *s, size_t bytes)
{
	void *memory = kedge__reserve_get(s, bytes, bytes);

	assert_non_null(memory);
	memset(memory, 1, bytes);
}

/* A pool that was large once does not stay so; one that is needed as it is stays. */
static void test_reserve_shrinks(void **state)
{
	struct kedge__reserve s = {0};

	(void)state;
	ask(&s, BYTES);
	assert_int_equal(resident(&s), BYTES);
	for (int i = 0; i < 20; i++)
		ask(&s, i % 4 == 3 ? BYTES : BYTES / 16);
	assert_int_equal(resident(&s), BYTES);
	for (int i = 0; i < 16; i++)
		ask(&s, BYTES / 16);
	assert_in_range(resident(&s), BYTES / 16, BYTES / 16 + ((size_t)2 << 20)); /* or up to a huge page */
	ask(&s, BYTES);
	assert_int_equal(resident(&s), BYTES);
	assert_int_equal(s.bytes, BYTES);
	kedge__reserve_done(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_take), cmocka_unit_test(test_limit_and_nothing),
					   cmocka_unit_test(test_reserve_shrinks)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
