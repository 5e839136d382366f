/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that goes away while a session has it: nothing crashes, what is left is read, what is gone is never made up.
 */
#include "tracker_support.h"

#include <fcntl.h>

#define PAGES 64

struct session {
	unsigned char *memory;
	struct kedge__cow_range range;
	struct kedge__cow_options options;
	struct kedge__cow *cow;
};

static void session_begin(struct session *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	s->memory = memory_new(PAGES);
	for (size_t i = 0; i < PAGES; i++)
		s->memory[i * page_size()] = (unsigned char)(i + 1);
	s->range = (struct kedge__cow_range){s->memory, PAGES * page_size()};
	if (kedge__cow_begin(&s->range, 1, &s->options, &s->cow, &err))
		fail_msg("%s", kedge__error_text(&err));
}

/* Pages [from, to) are unmapped already: who knows what is there now. */
static void session_end(struct session *s, size_t from, size_t to)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__cow_end(s->cow, NULL, &err))
		fail_msg("%s", kedge__error_text(&err));
	memory_free(s->memory, from);
	memory_free(s->memory + to * page_size(), PAGES - to);
}

/* Pages [from, to) read as they were. */
static void assert_kept(struct session *s, size_t from, size_t to)
{
	unsigned char page[3];

	for (size_t i = from; i < to; i++) {
		assert_int_equal(kedge__cow_read(s->cow, 0, i * page_size(), page, sizeof(page), NULL), 0);
		assert_int_equal(page[0], i + 1);
		assert_int_equal(page[1], 1);
	}
}

/* Pages [from, to) are gone, each and together with others. */
static void assert_gone(struct session *s, size_t from, size_t to)
{
	unsigned char *all = malloc(PAGES * page_size());
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t i = from; i < to; i++)
		assert_int_equal(kedge__cow_read(s->cow, 0, i * page_size() + 5, all, 9, NULL), KEDGE_E_STATE);
	assert_int_equal(kedge__cow_read(s->cow, 0, 0, all, PAGES * page_size(), &err), KEDGE_E_STATE);
	assert_non_null(strstr(kedge__error_text(&err), "unmapped, moved or discarded"));
	kedge__error_done(&err);
	free(all);
}

static void unmap(void)
{
	struct session s = {0};
	size_t page = page_size();

	session_begin(&s);
	s.memory[12 * page] = 0; /* copied before it goes */
	munmap(s.memory + 10 * page, 10 * page);
	s.memory[30 * page] = 0;
	assert_kept(&s, 0, 10);
	assert_kept(&s, 12, 13);
	assert_kept(&s, 20, PAGES);
	assert_gone(&s, 10, 12);
	assert_gone(&s, 13, 20);
	/* It is released around the hole, and may be written to. */
	assert_int_equal(kedge__cow_release(s.cow, 0, 0, PAGES * page, NULL), 0);
	memset(s.memory + 20 * page, 3, (PAGES - 20) * page);
	session_end(&s, 10, 20);
}

static void map_anew(void)
{
	struct session s = {0};
	size_t page = page_size();

	session_begin(&s);
	assert_ptr_equal(mmap(s.memory + 10 * page, 10 * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 s.memory + 10 * page);
	assert_gone(&s, 10, 20);
	memset(s.memory + 10 * page, 9, 10 * page);
	memset(s.memory + 25 * page, 9, page);
	assert_gone(&s, 10, 20);
	assert_kept(&s, 0, 10);
	assert_kept(&s, 20, PAGES);
	session_end(&s, PAGES, PAGES);
}

static void discard(void)
{
	struct session s = {0};
	size_t page = page_size();

	session_begin(&s);
	madvise(s.memory + 40 * page, 3 * page, MADV_DONTNEED);
	/* One page after the other: pages ahead of a writer are copied too. */
	memset(s.memory + 30 * page, 8, 20 * page);
	assert_gone(&s, 40, 43);
	assert_kept(&s, 0, 40);
	assert_kept(&s, 43, PAGES);
	session_end(&s, PAGES, PAGES);
}

static void move(void)
{
	struct session s = {0};
	size_t page = page_size();
	unsigned char *place;

	session_begin(&s);
	place = mremap(s.memory + 20 * page, 4 * page, 8 * page, MREMAP_MAYMOVE);
	assert_true(place != MAP_FAILED);
	memset(place, 8, 8 * page); /* nobody waits there */
	assert_gone(&s, 20, 24);
	assert_kept(&s, 0, 20);
	assert_kept(&s, 24, PAGES);
	munmap(place, 8 * page);
	session_end(&s, 20, 24);
}

static void close_up(void)
{
	struct session s = {0};
	size_t page = page_size();

	session_begin(&s);
	mprotect(s.memory + 20 * page, 4 * page, PROT_NONE);
	assert_gone(&s, 20, 24);
	assert_kept(&s, 24, PAGES);
	mprotect(s.memory + 20 * page, 4 * page, PROT_READ | PROT_WRITE);
	assert_kept(&s, 20, 24);
	session_end(&s, PAGES, PAGES);
}

/* The child's copy of the descriptor keeps it open when the session is over. */
static void unmap_beside_a_child(void)
{
	struct session s = {0};
	size_t page = page_size();
	int gate[2];
	pid_t child;

	assert_int_equal(pipe(gate), 0);
	session_begin(&s);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		char byte;

		close(gate[1]);
		s.memory[page] = 77;
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	munmap(s.memory + 10 * page, page);
	assert_gone(&s, 10, 11);
	assert_kept(&s, 11, PAGES);
	assert_int_equal(kedge__cow_end(s.cow, NULL, NULL), 0);
	memset(s.memory, 3, 10 * page); /* who waited here would wait for ever */
	memset(s.memory + 11 * page, 3, (PAGES - 11) * page);
	close(gate[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(gate[0]);
	memory_free(s.memory, 10);
	memory_free(s.memory + 11 * page, PAGES - 11);
}

static void all_ways(void)
{
	unmap();
	map_anew();
	discard();
	move();
	close_up();
	unmap_beside_a_child();
}

static void gone_is_told(void **state)
{
	(void)state;
	all_ways();
}

static void gone_is_told_to_an_ordinary_user(void **state)
{
	(void)state;
	as_nobody(all_ways);
}

/* ---- together with a tracker */

static void tracked(const char *kind)
{
	struct session s = {.options = {.tracker = open_kind(kind)}};
	struct kedge__tracker *t = s.options.tracker;
	size_t page = page_size(), id;

	s.memory = memory_new(PAGES);
	id = add(t, s.memory, PAGES * page, 0);
	collect(t);
	collect(t);
	s.range = (struct kedge__cow_range){s.memory, PAGES * page};
	assert_int_equal(kedge__cow_begin(&s.range, 1, &s.options, &s.cow, NULL), 0);
	/* Read and released, and then replaced, before the tracker has it again. */
	assert_int_equal(kedge__cow_release(s.cow, 0, 0, 20 * page, NULL), 0);
	madvise(s.memory + 5 * page, page, MADV_DONTNEED);
	assert_ptr_equal(mmap(s.memory + 40 * page, 2 * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 s.memory + 40 * page);
	assert_int_equal(kedge__cow_end(s.cow, NULL, NULL), 0);
	collect(t);
	assert_true(is_dirty(t, id, 5 * page));
	assert_true(is_dirty(t, id, 40 * page));
	assert_true(is_dirty(t, id, 41 * page));
	s.memory[50 * page]++;
	collect(t);
	assert_true(is_dirty(t, id, 50 * page));
	kedge__tracker_close(t);
	memory_free(s.memory, PAGES);
}

static void tracker_knows_what_went(void **state)
{
	(void)state;
	each_kind(tracked);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gone_is_told),
	    cmocka_unit_test(gone_is_told_to_an_ordinary_user),
	    cmocka_unit_test(tracker_knows_what_went),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, has_sessions);
}
