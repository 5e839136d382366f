/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracker_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#define WRITERS 3

struct writer {
	pthread_t thread;
	unsigned char *memory;
	size_t bytes, writes, lane;
	uint64_t seed;
};

/* Every eighth byte, from its lane on, is one writer's own. */
static void *writer_main(void *ctx)
{
	struct writer *w = ctx;

	for (size_t i = 0; i < w->writes; i++)
		w->memory[draw(&w->seed) % (w->bytes / 8) * 8 + w->lane]++;
	return NULL;
}

static struct kedge__cow *begin(const struct kedge__cow_range *ranges, size_t count, const struct kedge__cow_options *o)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__cow *c = NULL;

	if (kedge__cow_begin(ranges, count, o, &c, &err))
		fail_msg("%s", kedge__error_text(&err));
	return c;
}

static void end(struct kedge__cow *c, struct kedge__cow_stats *stats)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__cow_end(c, stats, &err))
		fail_msg("%s", kedge__error_text(&err));
}

/* All of it through next(), into TO. */
static void save(struct kedge__cow *c, unsigned char *const *to, size_t room)
{
	unsigned char *buffer = malloc(room);
	size_t range, bytes, last = 0;
	uint64_t offset;

	for (;;) {
		assert_int_equal(kedge__cow_next(c, buffer, room, &range, &offset, &bytes, NULL), 0);
		if (!bytes)
			break;
		assert_true(range >= last && bytes <= room);
		last = range;
		memcpy(to[range] + offset, buffer, bytes);
	}
	free(buffer);
}

struct hammered {
	unsigned char *memory, *before, *saved;
	size_t bytes;
	struct writer writers[WRITERS];
};

static void hammered_new(struct hammered *h, size_t pages, bool huge)
{
	h->bytes = pages * page_size();
	h->memory = huge ? kedge__map_alloc(h->bytes) : memory_new(pages);
	for (size_t i = 0; i < h->bytes; i++)
		h->memory[i] = (unsigned char)(i * 31 + i / page_size());
	h->before = malloc(h->bytes);
	h->saved = calloc(1, h->bytes);
	memcpy(h->before, h->memory, h->bytes);
}

static void hammered_start(struct hammered *h, size_t writes)
{
	for (size_t i = 0; i < WRITERS; i++) {
		h->writers[i] = (struct writer){
		    .memory = h->memory, .bytes = h->bytes, .writes = writes, .lane = i, .seed = i + 77};
		assert_int_equal(pthread_create(&h->writers[i].thread, NULL, writer_main, &h->writers[i]), 0);
	}
}

static void hammered_join(struct hammered *h)
{
	for (int i = 0; i < WRITERS; i++)
		pthread_join(h->writers[i].thread, NULL);
}

static void hammered_done(struct hammered *h)
{
	munmap(h->memory, h->bytes);
	free(h->before);
	free(h->saved);
}

/* What is saved is the memory at begin(), and what was written is in memory. */
static void hammer(size_t pages, uint64_t aside, bool huge, bool finish_first)
{
	struct kedge__cow_options options = {.aside_bytes = aside};
	struct kedge__cow_stats stats;
	struct kedge__cow_range range;
	struct hammered h;
	struct kedge__cow *c;

	hammered_new(&h, pages, huge);
	range = (struct kedge__cow_range){h.memory, h.bytes};
	c = begin(&range, 1, &options);
	hammered_start(&h, 4000);
	/* With room for all, writers need nobody. */
	if (finish_first)
		hammered_join(&h);
	save(c, &h.saved, 7 * page_size());
	end(c, &stats);
	if (!finish_first)
		hammered_join(&h);
	else
		assert_int_equal(stats.waits, 0);
	assert_memory_equal(h.saved, h.before, h.bytes);
	assert_memory_not_equal(h.memory, h.before, h.bytes);
	hammered_done(&h);
}

static void saved_is_what_was(void **state)
{
	(void)state;
	hammer(512, 0, false, false);
	hammer(512, 0, false, true);
}

static void huge_pages(void **state)
{
	(void)state;
	hammer(2048, 0, true, false);
}

static void writers_wait_for_room(void **state)
{
	(void)state;
	hammer(256, 3 * page_size(), false, false);
	hammer(256, 1, false, false);
}

static void odd_ranges(void **state)
{
	enum { count = 4 };
	size_t page = page_size();
	unsigned char *p = memory_new(32), *before = malloc(32 * page), *saved[count];
	struct kedge__cow_range ranges[count] = {
	    {p + 20 * page + 7, 5 * page}, {p + 5, 3 * page}, {p + 10 * page + 1, 100}, {p + 11 * page, 2 * page}};
	struct kedge__cow_options options = {0};
	struct kedge__cow *c;

	(void)state;
	for (size_t i = 0; i < 32 * page; i++)
		p[i] = (unsigned char)(i / 3);
	memcpy(before, p, 32 * page);
	for (size_t i = 0; i < count; i++)
		saved[i] = calloc(1, ranges[i].bytes);
	c = begin(ranges, count, &options);
	memset(p, 0, 32 * page);
	save(c, saved, page);
	end(c, NULL);
	for (size_t i = 0; i < count; i++) {
		assert_memory_equal(saved[i], before + ((unsigned char *)ranges[i].data - p), ranges[i].bytes);
		free(saved[i]);
	}
	free(before);
	memory_free(p, 32);
}

static void reading_is_repeatable_until_released(void **state)
{
	size_t page = page_size();
	unsigned char *p = memory_new(16), out[100];
	struct kedge__cow_range range = {p + 50, 15 * page};
	struct kedge__cow_options options = {0};
	struct kedge__cow *c = begin(&range, 1, &options);

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (size_t at = 0; at + 100 <= 15 * page; at += 997) {
			assert_int_equal(kedge__cow_read(c, 0, at, out, 100, NULL), 0);
			for (size_t i = 0; i < 100; i++)
				assert_int_equal(out[i], 1);
		}
		memset(p, 9, 16 * page);
	}
	assert_int_equal(kedge__cow_release(c, 0, 0, 4 * page + 3, NULL), 0);
	assert_int_equal(kedge__cow_read(c, 0, 3 * page, out, 100, NULL), KEDGE_E_STATE);
	assert_int_equal(kedge__cow_read(c, 0, 4 * page, out, 100, NULL), 0);
	assert_int_equal(out[0], 1);
	assert_int_equal(kedge__cow_read(c, 0, 15 * page - 10, out, 11, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge__cow_read(c, 1, 0, out, 1, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge__cow_release(c, 0, 1, 15 * page, NULL), KEDGE_E_ARG);
	end(c, NULL); /* what was not read is let go */
	memset(p, 10, 16 * page);
	memory_free(p, 16);
}

/* ---- together with a tracker */

static void copy_dirty(struct kedge__tracker *t, size_t id, const unsigned char *from, unsigned char *to)
{
	struct kedge__range_list list = {0};

	assert_int_equal(kedge__tracker_dirty(t, id, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++)
		memcpy(to + list.at[i].start, from + list.at[i].start, list.at[i].len);
	kedge__array_done(&list);
}

/* Writes before, during and after the session: a copy kept up by what the tracker reports must stay equal. */
static void tracked(const char *kind)
{
	struct kedge__tracker *t = open_kind(kind);
	struct kedge__cow_options options = {.tracker = t, .aside_bytes = 8 * page_size()};
	struct kedge__cow_range range;
	struct hammered h;
	struct kedge__cow *c;
	unsigned char *copy;
	size_t id;

	if (is_kind(t, "softdirty")) {
		kedge__tracker_close(t);
		return;
	}
	hammered_new(&h, 300, false);
	copy = malloc(h.bytes);
	id = add(t, h.memory, h.bytes, 0);
	range = (struct kedge__cow_range){h.memory, h.bytes};
	for (int round = 0; round < 4; round++) {
		collect(t);
		copy_dirty(t, id, h.memory, copy);
		assert_memory_equal(copy, h.memory, h.bytes);
		memcpy(h.before, h.memory, h.bytes);
		c = begin(&range, 1, &options);
		hammered_start(&h, 200);
		save(c, &h.saved, 16 * page_size());
		assert_memory_equal(h.saved, h.before, h.bytes);
		end(c, NULL);
		hammered_join(&h);
		h.memory[round * page_size()]++;
	}
	collect(t);
	copy_dirty(t, id, h.memory, copy);
	assert_memory_equal(copy, h.memory, h.bytes);
	kedge__tracker_close(t);
	free(copy);
	hammered_done(&h);
}

static void tracker_misses_nothing(void **state)
{
	(void)state;
	each_kind(tracked);
}

/* And reports no more than it has to. */
static void precise(const char *kind)
{
	unsigned char *p = memory_new(1200), *saved = malloc(1200 * page_size()), written[1200] = {0};
	struct kedge__tracker *t = open_kind(kind);
	struct kedge__cow_options options = {.tracker = t};
	struct kedge__cow_range range = {p, 1200 * page_size()};
	size_t page = page_size(), id = add(t, p, 1200 * page, 0);
	struct kedge__cow *c;

	collect(t);
	collect(t);
	c = begin(&range, 1, &options);
	p[3 * page]++;
	p[600 * page]++;
	if (!is_kind(t, "none")) {
		/* While the session has the pages, the tracker vouches for none of them. */
		uint64_t bytes;

		assert_int_equal(kedge__tracker_count(t, &bytes, NULL), 0);
		assert_true(bytes >= 2 * page);
	}
	save(c, &saved, 64 * page);
	p[700 * page]++;
	end(c, NULL);
	p[1000 * page]++;
	written[3] = written[600] = written[700] = written[1000] = 1;
	collect(t);
	assert_dirty_pages(t, id, written, 1200);
	kedge__tracker_close(t);
	free(saved);
	memory_free(p, 1200);
}

static void tracker_stays_precise(void **state)
{
	(void)state;
	each_kind(precise);
}

/* Memory that nobody watched before goes to the session first, and to the tracker from there. */
static void session_first(const char *kind)
{
	size_t page = page_size(), id, beside;
	unsigned char *p = memory_new(1200), *saved = malloc(1000 * page);
	struct kedge__tracker *t = open_kind(kind);
	struct kedge__cow_options options = {.tracker = t};
	struct kedge__cow_range range = {p + 100, 1000 * page};
	struct kedge__cow *c;

	id = add(t, p + 100, 1000 * page, 0);
	beside = add(t, p + 1100 * page, 100 * page, 0);
	assert_int_equal(kedge__tracker_collect_first(t, NULL), 0);
	assert_int_equal(dirty_bytes(t, id), 1000 * page);
	c = begin(&range, 1, &options);
	kedge__tracker_arm(t);
	p[3 * page]++;
	save(c, &saved, 64 * page);
	p[700 * page]++;
	end(c, NULL);
	p[900 * page]++;
	p[1105 * page]++;
	collect(t);
	if (!is_kind(t, "none")) {
		assert_int_equal(dirty_bytes(t, beside), page);
		assert_false(is_dirty(t, id, 500 * page));
	}
	assert_true(is_dirty(t, id, 3 * page - 100));
	assert_true(is_dirty(t, id, 700 * page - 100));
	assert_true(is_dirty(t, id, 900 * page - 100));
	p[100]++; /* around what was lent */
	p[1000 * page + 50]++;
	collect(t);
	assert_true(is_dirty(t, id, 0));
	assert_true(is_dirty(t, id, 1000 * page - 60));
	kedge__tracker_close(t);
	free(saved);
	memory_free(p, 1200);
}

static void session_may_come_first(void **state)
{
	(void)state;
	each_kind(session_first);
}

/* A checkpoint that begins while the last is still being saved. */
static void collect_during(const char *kind)
{
	unsigned char *p = memory_new(64);
	struct kedge__tracker *t = open_kind(kind);
	struct kedge__cow_options options = {.tracker = t};
	size_t page = page_size(), id = add(t, p, 64 * page, 0);
	struct kedge__cow_range range = {p + 8 * page, 16 * page};
	struct kedge__cow *c;
	unsigned char out[8];

	collect(t);
	c = begin(&range, 1, &options);
	p[9 * page]++;
	p[40 * page]++;
	collect(t);
	assert_true(is_dirty(t, id, 9 * page));
	assert_true(is_dirty(t, id, 40 * page));
	p[10 * page]++;
	assert_int_equal(kedge__cow_read(c, 0, 2 * page, out, 8, NULL), 0);
	assert_int_equal(out[0], 1);
	end(c, NULL);
	collect(t);
	assert_true(is_dirty(t, id, 10 * page));
	kedge__tracker_close(t);
	p[0]++;
	memory_free(p, 64);
}

static void tracker_collects_during_a_session(void **state)
{
	(void)state;
	each_kind(collect_during);
}

/* ---- kernel, fork, errors */

static void read_into(void)
{
	size_t page = page_size();
	unsigned char *p = memory_new(8), *saved = malloc(8 * page);
	struct kedge__cow_range range = {p, 8 * page};
	struct kedge__cow_options options = {0};
	int fd = open("/dev/zero", O_RDONLY);
	struct kedge__cow *c;
	bool kernel_writes;

	assert_int_equal(kedge__cow_probe(&kernel_writes, NULL), 0);
	c = begin(&range, 1, &options);
	if (kernel_writes)
		assert_int_equal(read(fd, p + page, 3 * page), 3 * page);
	else
		assert_int_equal(read(fd, p + page, 3 * page), -1);
	save(c, &saved, 8 * page);
	end(c, NULL);
	for (size_t i = 0; i < 8 * page; i++)
		assert_int_equal(saved[i], 1);
	assert_int_equal(read(fd, p, 8 * page), 8 * page);
	close(fd);
	free(saved);
	memory_free(p, 8);
}

static void system_calls_may_write(void **state)
{
	(void)state;
	read_into();
}

static void ordinary(void)
{
	hammer(128, 0, false, false);
	hammer(128, 4 * page_size(), false, false);
	read_into();
}

static void works_as_an_ordinary_user(void **state)
{
	(void)state;
	as_nobody(ordinary);
}

static void child_may_write_what_it_likes(void **state)
{
	size_t page = page_size();
	unsigned char *p = memory_new(8), *saved = malloc(8 * page);
	struct kedge__cow_range range = {p, 8 * page};
	struct kedge__cow_options options = {0};
	struct kedge__cow *c = begin(&range, 1, &options);
	int status;
	pid_t child;

	(void)state;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		memset(p, 5, 8 * page);
		_exit(p[8 * page - 1] == 5 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	p[0] = 6;
	save(c, &saved, 8 * page);
	end(c, NULL);
	assert_int_equal(saved[0], 1);
	assert_int_equal(p[0], 6);
	assert_int_equal(p[page], 1);
	free(saved);
	memory_free(p, 8);
}

static void never_touched_pages(void **state)
{
	size_t page = page_size();
	unsigned char *p = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *saved = malloc(64 * page);
	struct kedge__cow_range range = {p, 64 * page};
	struct kedge__cow_options options = {0};
	struct kedge__cow *c;

	(void)state;
	c = begin(&range, 1, &options);
	memset(p, 3, 64 * page);
	save(c, &saved, 8 * page);
	end(c, NULL);
	for (size_t i = 0; i < 64 * page; i++)
		assert_int_equal(saved[i], 0);
	free(saved);
	munmap(p, 64 * page);
}

static void refused(void **state)
{
	size_t page = page_size();
	unsigned char *p = memory_new(8);
	struct kedge__cow_range overlap[2] = {{p, 3 * page}, {p + 2 * page, page}},
				gone[2] = {{p, page}, {p + 4 * page, page}};
	struct kedge__cow_options options = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__cow *c = NULL;
	char buffer[16];
	uint64_t offset;
	size_t range, bytes;

	(void)state;
	assert_int_equal(kedge__cow_begin(overlap, 2, &options, &c, &err), KEDGE_E_ARG);
	munmap(p + 4 * page, page);
	assert_int_equal(kedge__cow_begin(gone, 2, &options, &c, &err), KEDGE_E_STATE);
	assert_null(c);
	p[0]++; /* nothing is left protected */
	c = begin(gone, 0, &options);
	assert_int_equal(kedge__cow_next(c, buffer, sizeof(buffer), &range, &offset, &bytes, &err), KEDGE_E_ARG);
	end(c, NULL);
	assert_int_equal(kedge__cow_end(NULL, NULL, NULL), 0);
	kedge__error_done(&err);
	memory_free(p, 8);
}

static void memory_runs_out(void **state)
{
	unsigned char *p = memory_new(8);
	struct kedge__tracker *t = open_kind(NULL);
	struct kedge__cow_range range = {p, 8 * page_size()};
	struct kedge__cow_options options = {.tracker = t};
	size_t id = add(t, p, 8 * page_size(), 0);
	int failures = 0, rc;

	(void)state;
	for (int n = 1;; n++) {
		struct kedge__cow *c = NULL;
		char spec[32];

		collect(t);
		snprintf(spec, sizeof(spec), "alloc@%d", n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		rc = kedge__cow_begin(&range, 1, &options, &c, NULL);
		kedge__fault_set(NULL, NULL);
		if (rc == 0) {
			end(c, NULL);
			break;
		}
		assert_int_equal(rc, KEDGE_E_NOMEM);
		p[page_size()]++;
		collect(t);
		assert_true(is_dirty(t, id, page_size()));
		failures++;
	}
	assert_true(failures >= 5);
	kedge__tracker_close(t);
	memory_free(p, 8);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(saved_is_what_was),
	    cmocka_unit_test(huge_pages),
	    cmocka_unit_test(writers_wait_for_room),
	    cmocka_unit_test(works_as_an_ordinary_user),
	    cmocka_unit_test(odd_ranges),
	    cmocka_unit_test(reading_is_repeatable_until_released),
	    cmocka_unit_test(tracker_misses_nothing),
	    cmocka_unit_test(tracker_stays_precise),
	    cmocka_unit_test(session_may_come_first),
	    cmocka_unit_test(tracker_collects_during_a_session),
	    cmocka_unit_test(system_calls_may_write),
	    cmocka_unit_test(child_may_write_what_it_likes),
	    cmocka_unit_test(never_touched_pages),
	    cmocka_unit_test(refused),
	    cmocka_unit_test(memory_runs_out),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, has_sessions);
}
