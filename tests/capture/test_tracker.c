/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracker_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

#define PAGES 600

static void first_all_then_written(const char *kind)
{
	unsigned char *p = memory_new(PAGES), written[PAGES] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t id = add(t, p, PAGES * page_size(), 0);
	uint64_t bytes;

	assert_string_equal(kedge__tracker_name(t), kind);
	collect(t);
	assert_int_equal(dirty_bytes(t, id), PAGES * page_size());
	collect(t);
	assert_dirty_pages(t, id, written, PAGES);
	written[0] = written[7] = written[8] = written[PAGES - 1] = 1;
	for (size_t i = 0; i < PAGES; i++) {
		if (written[i])
			p[i * page_size() + i]++;
	}
	for (int again = 0; again < 2; again++) {
		assert_int_equal(kedge__tracker_count(t, &bytes, NULL), 0);
		assert_int_equal(bytes, (is_kind(t, "none") ? PAGES : 4) * page_size());
	}
	collect(t);
	assert_dirty_pages(t, id, written, PAGES);
	memset(written, 0, sizeof(written));
	collect(t);
	assert_dirty_pages(t, id, written, PAGES);
	kedge__tracker_close(t);
	p[0]++;
	memory_free(p, PAGES);
}

static void finds_what_was_written(void **state)
{
	(void)state;
	each_kind(first_all_then_written);
}

/* Ranges that begin and end within pages, and share them. */
static void odd_ranges(const char *kind)
{
	unsigned char *p = memory_new(8);
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size();
	size_t a = add(t, p + 100, 3 * page, 0);        /* pages 0..3 */
	size_t b = add(t, p + 3 * page + 100, page, 0); /* pages 3..4 */
	size_t c = add(t, p + 3 * page + 200, 50, 0);   /* within page 3 */
	bool all = is_kind(t, "none"), edges = is_kind(t, "mprotect");
	uint64_t left = edges ? page - 100 : 0;

	collect(t);
	assert_int_equal(dirty_bytes(t, a), 3 * page);
	assert_int_equal(dirty_bytes(t, b), page);
	assert_int_equal(dirty_bytes(t, c), 50);
	collect(t);
	assert_int_equal(dirty_bytes(t, a), all ? 3 * page : left + (edges ? 100 : 0));
	p[3 * page + 50]++;
	p[page]++;
	collect(t);
	assert_true(is_dirty(t, a, 3 * page - 50));
	assert_true(is_dirty(t, a, page - 100));
	assert_int_equal(is_dirty(t, a, 2 * page), all);
	assert_int_equal(dirty_bytes(t, a), all ? 3 * page : left + page + 100);
	assert_int_equal(dirty_bytes(t, b), all || edges ? page : page - 100);
	assert_int_equal(dirty_bytes(t, c), 50);
	kedge__tracker_remove(t, b);
	p[3 * page]++;
	collect(t);
	assert_true(is_dirty(t, a, 3 * page - 1));
	assert_int_equal(dirty_bytes(t, c), 50);
	assert_int_equal(kedge__tracker_dirty(t, b, &(struct kedge__range_list){0}, NULL), KEDGE_E_NOTFOUND);
	kedge__tracker_remove(t, a);
	collect(t);
	assert_int_equal(dirty_bytes(t, c), all || edges ? 50 : 0);
	kedge__tracker_close(t);
	memory_free(p, 8);
}

static void pages_in_part(void **state)
{
	(void)state;
	each_kind(odd_ranges);
}

static void overlap(const char *kind)
{
	unsigned char *p = memory_new(16), wide[16] = {0}, narrow[4] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size();
	size_t b = add(t, p + 4 * page, 4 * page, 0), a = add(t, p, 16 * page, 0);

	collect(t);
	wide[5] = narrow[1] = wide[12] = 1;
	p[5 * page]++;
	p[12 * page]++;
	collect(t);
	assert_dirty_pages(t, a, wide, 16);
	assert_dirty_pages(t, b, narrow, 4);
	/* What is new to one range is not to another. */
	kedge__tracker_remove(t, a);
	a = add(t, p, 16 * page, 0);
	assert_int_equal(dirty_bytes(t, a), 16 * page);
	collect(t);
	assert_int_equal(dirty_bytes(t, a), 16 * page);
	memset(narrow, 0, sizeof(narrow));
	assert_dirty_pages(t, b, narrow, 4);
	kedge__tracker_remove(t, a);
	p[4 * page]++;
	p[15 * page]++;
	narrow[0] = 1;
	narrow[1] = 0;
	collect(t);
	assert_dirty_pages(t, b, narrow, 4);
	kedge__tracker_close(t);
	memory_free(p, 16);
}

static void ranges_may_overlap(void **state)
{
	(void)state;
	each_kind(overlap);
}

/* ---- threads */

#define WRITERS 3

struct writer {
	pthread_t thread;
	unsigned char *memory, *written; /* written: one byte a page, of this writer alone */
	size_t pages;
	uint64_t seed;
};

static void *write_some(void *ctx)
{
	struct writer *w = ctx;

	for (int i = 0; i < 40; i++) {
		size_t page = draw(&w->seed) % w->pages;

		/* A byte of the writer's own in each page, so that threads do not race. */
		w->memory[page * page_size() + (w->seed % 64) * 64 + (size_t)(w->written[w->pages])]++;
		w->written[page] = 1;
	}
	return NULL;
}

static void oracle(const char *kind)
{
	unsigned char *p = memory_new(PAGES), written[WRITERS][PAGES + 1];
	struct kedge__tracker *t = open_kind(kind);
	size_t id = add(t, p, PAGES * page_size(), 0);
	struct writer writers[WRITERS];

	collect(t);
	for (int round = 0; round < 25; round++) {
		unsigned char any[PAGES] = {0};

		memset(written, 0, sizeof(written));
		for (int i = 0; i < WRITERS; i++) {
			writers[i] = (struct writer){.memory = p,
						     .written = written[i],
						     .pages = PAGES,
						     .seed = (uint64_t)(round * WRITERS + i + 1)};
			written[i][PAGES] = (unsigned char)i;
			assert_int_equal(pthread_create(&writers[i].thread, NULL, write_some, &writers[i]), 0);
		}
		for (int i = 0; i < WRITERS; i++)
			pthread_join(writers[i].thread, NULL);
		for (size_t i = 0; i < PAGES; i++)
			any[i] = written[0][i] | written[1][i] | written[2][i];
		collect(t);
		assert_dirty_pages(t, id, any, PAGES);
	}
	kedge__tracker_close(t);
	memory_free(p, PAGES);
}

static void random_writers_against_oracle(void **state)
{
	(void)state;
	each_kind(oracle);
}

struct hammer {
	pthread_t thread;
	_Atomic uint64_t *words;
	size_t pages;
	uint64_t seed;
	atomic_bool *stop;
};

static void *hammer_main(void *ctx)
{
	struct hammer *h = ctx;

	while (!atomic_load(h->stop)) {
		size_t word = draw(&h->seed) % (h->pages * page_size() / 8);

		atomic_fetch_add_explicit(&h->words[word], 1, memory_order_relaxed);
	}
	return NULL;
}

static void copy_dirty(struct kedge__tracker *t, size_t id, const _Atomic uint64_t *from, uint64_t *to)
{
	struct kedge__range_list list = {0};

	assert_int_equal(kedge__tracker_dirty(t, id, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++) {
		for (uint64_t w = list.at[i].start / 8; w < (list.at[i].start + list.at[i].len) / 8; w++)
			to[w] = atomic_load_explicit(&from[w], memory_order_relaxed);
	}
	kedge__array_done(&list);
}

/* A copy kept up by what is reported alone must end up equal: had a single write been lost, it would not. */
static void racing(const char *kind)
{
	enum { pages = 64 };
	_Atomic uint64_t *p = (void *)memory_new(pages);
	uint64_t *copy = calloc(pages, page_size());
	struct kedge__tracker *t = open_kind(kind);
	size_t id = add(t, p, pages * page_size(), 0);
	struct hammer hammers[WRITERS];
	atomic_bool stop = false;

	if (!kedge__tracker_live(t)) {
		print_message("skipped: %s is not for memory that is written meanwhile\n", kind);
		goto out;
	}
	for (int i = 0; i < WRITERS; i++) {
		hammers[i] = (struct hammer){.words = p, .pages = pages, .seed = (uint64_t)i + 1, .stop = &stop};
		assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]), 0);
	}
	for (int round = 0; round < 200; round++) {
		collect(t);
		copy_dirty(t, id, p, copy);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(hammers[i].thread, NULL);
	collect(t);
	copy_dirty(t, id, p, copy);
	assert_memory_equal((void *)p, copy, pages * page_size());
out:
	kedge__tracker_close(t);
	free(copy);
	memory_free((void *)p, pages);
}

static void no_write_is_lost_to_a_race(void **state)
{
	(void)state;
	each_kind(racing);
}

/* ---- calls into the kernel, users, choice */

static void reading(const char *kind)
{
	unsigned char *p = memory_new(4), written[4] = {0, 1, 1, 0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 4 * page, 0);
	int fd = open("/dev/zero", O_RDONLY);

	collect(t);
	if (is_kind(t, "mprotect")) {
		assert_int_equal(read(fd, p + page, 2 * page), -1);
		kedge__tracker_touch(t, p + page, 2 * page);
	}
	assert_int_equal(read(fd, p + page, 2 * page), 2 * page);
	assert_int_equal(p[page] | p[3 * page - 1], 0);
	collect(t);
	assert_dirty_pages(t, id, written, 4);
	close(fd);
	kedge__tracker_close(t);
	memory_free(p, 4);
}

static void system_calls_may_write(void **state)
{
	(void)state;
	each_kind(reading);
}

/* The kernel gathers what it finds 512 runs at a time, and we 2048: with more, and less, each page counts once. */
static void scattered(const char *kind)
{
	static const size_t runs[] = {1, 511, 512, 513, 1639, 2047, 2048, 2049, 3000};
	size_t pages = 2 * 3000, page = page_size();
	unsigned char *p = memory_new(pages), *written = calloc(1, pages);
	struct kedge__tracker *t = open_kind(kind);
	size_t id = add(t, p, pages * page, 0);

	collect(t);
	for (size_t r = 0; r < KEDGE__COUNT(runs); r++) {
		uint64_t bytes;

		memset(written, 0, pages);
		for (size_t i = 0; i < runs[r]; i++) {
			p[2 * i * page]++;
			written[2 * i] = 1;
		}
		assert_int_equal(kedge__tracker_count(t, &bytes, NULL), 0);
		assert_int_equal(bytes, (is_kind(t, "none") ? pages : runs[r]) * page);
		collect(t);
		if (!is_kind(t, "none"))
			assert_int_equal(dirty_bytes(t, id), runs[r] * page);
	}
	assert_dirty_pages(t, id, written, pages);
	kedge__tracker_close(t);
	free(written);
	memory_free(p, pages);
}

static void many_runs_are_counted_once(void **state)
{
	(void)state;
	each_kind(scattered);
}

/*
 * What a debugger does: the kernel writes whatever the protection is. The guide says which kinds see that, and which
 * does not.
 */
static void forced(const char *kind)
{
	unsigned char *p = memory_new(4), bytes[2] = {7, 8};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 4 * page, 0);
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	struct iovec here = {bytes, 2}, there = {p + 3 * page - 1, 2};

	assert_true(fd >= 0 || access("/proc/self", F_OK) != 0);
	collect(t);
	collect(t);
	if (pwrite(fd, bytes, 1, (off_t)(uintptr_t)(p + page)) != 1) {
		print_message("%s: writes cannot be forced here\n", kind);
	} else {
		assert_int_equal(p[page], 7);
		collect(t);
		assert_int_equal(is_dirty(t, id, page), !is_kind(t, "mprotect"));
	}
	if (is_kind(t, "mprotect")) {
		assert_int_equal(process_vm_writev(getpid(), &here, 1, &there, 1, 0), -1);
	} else {
		assert_int_equal(process_vm_writev(getpid(), &here, 1, &there, 1, 0), 2);
		collect(t);
		assert_true(is_dirty(t, id, 2 * page) && is_dirty(t, id, 3 * page));
	}
	if (fd >= 0)
		close(fd);
	kedge__tracker_close(t);
	memory_free(p, 4);
}

static void forced_writes_are_seen_or_known_not_to_be(void **state)
{
	(void)state;
	each_kind(forced);
}

static void all_as_this_user(void)
{
	each_kind(first_all_then_written);
	each_kind(racing);
	each_kind(reading);
}

static void works_as_an_ordinary_user(void **state)
{
	(void)state;
	as_nobody(all_as_this_user);
}

static void kind_is_chosen_or_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__tracker *t = NULL;
	size_t id;

	(void)state;
	assert_int_equal(kedge__tracker_open("magic", &t, &err), KEDGE_E_CONFIG);
	assert_non_null(strstr(kedge__error_text(&err), "magic"));
	assert_null(t);
	if (kedge__tracker_probe("softdirty", &err) != 0) {
		assert_int_equal(kedge__tracker_open("softdirty", &t, &err), KEDGE_E_STATE);
		assert_non_null(strstr(kedge__error_text(&err), "softdirty"));
	}
	t = open_kind(NULL);
	assert_string_not_equal(kedge__tracker_name(t), "mprotect");
	if (kedge__tracker_probe("uffd", NULL) == 0)
		assert_string_equal(kedge__tracker_name(t), "uffd");
	assert_int_equal(kedge__tracker_add(t, NULL, 1, 0, &id, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge__tracker_add(t, &id, 0, 0, &id, NULL), KEDGE_E_ARG);
	kedge__tracker_close(t);
	kedge__tracker_close(NULL);
	kedge__error_done(&err);
}

static void told_by_others(const char *kind)
{
	unsigned char *p = memory_new(4), marked[4] = {0, 0, 1, 0}, all[4] = {1, 1, 1, 1}, none[4] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 4 * page, 0);

	collect(t);
	kedge__tracker_mark(t, p + 2 * page + 5, 10);
	collect(t);
	assert_dirty_pages(t, id, marked, 4);
	collect(t);
	assert_dirty_pages(t, id, none, 4);
	kedge__tracker_taint(t);
	collect(t);
	assert_dirty_pages(t, id, all, 4);
	collect(t);
	assert_dirty_pages(t, id, none, 4);
	kedge__tracker_close(t);
	memory_free(p, 4);
}

static void marks_and_taint(void **state)
{
	(void)state;
	each_kind(told_by_others);
}

/* Whichever allocation fails: an error, and then everything is dirty, or it is as if nothing had happened. */
static void short_of_memory(const char *kind)
{
	unsigned char *p = memory_new(32);
	size_t page = page_size(), id;
	uint64_t allocations = 1;

	for (uint64_t n = 1; n <= allocations; n++) {
		struct kedge__tracker *t = open_kind(kind);
		char spec[32];
		int rc;

		assert_int_equal(kedge__tracker_add(t, p, 32 * page, 0, &id, NULL), 0);
		collect(t);
		for (size_t i = 0; i < 32; i += 2)
			p[i * page]++;
		snprintf(spec, sizeof(spec), "alloc@%llu", (unsigned long long)n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		rc = kedge__tracker_collect(t, NULL);
		allocations = KEDGE__MAX(allocations, kedge__fault_alloc_count());
		kedge__fault_set(NULL, NULL);
		if (rc) {
			assert_int_equal(rc, KEDGE_E_NOMEM);
			collect(t);
			assert_int_equal(dirty_bytes(t, id), 32 * page);
		} else {
			assert_true(dirty_bytes(t, id) >= 16 * page);
		}
		kedge__tracker_close(t);
	}
	memory_free(p, 32);
}

static void memory_runs_out(void **state)
{
	(void)state;
	each_kind(short_of_memory);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_what_was_written),
	    cmocka_unit_test(pages_in_part),
	    cmocka_unit_test(ranges_may_overlap),
	    cmocka_unit_test(random_writers_against_oracle),
	    cmocka_unit_test(no_write_is_lost_to_a_race),
	    cmocka_unit_test(system_calls_may_write),
	    cmocka_unit_test(many_runs_are_counted_once),
	    cmocka_unit_test(forced_writes_are_seen_or_known_not_to_be),
	    cmocka_unit_test(works_as_an_ordinary_user),
	    cmocka_unit_test(kind_is_chosen_or_refused),
	    cmocka_unit_test(marks_and_taint),
	    cmocka_unit_test(memory_runs_out),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
