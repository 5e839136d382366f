/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that does not stay as it was registered, and memory of other kinds. */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"
#include "tracker_support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#define PAGES 1536 /* three huge pages of 2 MiB */

static unsigned char *fixed_memory(unsigned char *at, size_t bytes)
{
	unsigned char *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	assert_ptr_equal(p, at);
	return p;
}

static void mapped_anew(const char *kind)
{
	unsigned char *p = memory_new(16), none[16] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 16 * page, 0);

	collect(t);
	collect(t);
	munmap(p + 4 * page, 4 * page);
	fixed_memory(p + 4 * page, 4 * page);
	collect(t);
	for (size_t i = 4; i < 8; i++)
		assert_true(is_dirty(t, id, i * page));
	/* From here on it is tracked again, once it is there. */
	memset(p, 2, 16 * page);
	collect(t);
	collect(t);
	assert_dirty_pages(t, id, none, 16);
	munmap(p + 4 * page, page);
	collect(t);
	assert_true(is_dirty(t, id, 4 * page));
	collect(t);
	assert_true(is_dirty(t, id, 4 * page));
	kedge__tracker_close(t);
	memory_free(p, 16);
}

static void unmapped_and_mapped_anew(void **state)
{
	(void)state;
	each_kind(mapped_anew);
}

static void moved(const char *kind)
{
	unsigned char *p = memory_new(16), *other = memory_new(16);
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 16 * page, 0);

	collect(t);
	collect(t);
	/* Other memory takes the place of it, as clean as can be. */
	assert_ptr_equal(mremap(other, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
	collect(t);
	assert_int_equal(dirty_bytes(t, id), 16 * page);
	/* Away and back again. */
	other = mremap(p, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (other != MAP_FAILED) {
		/* With mprotect it is read-only still, at an address that nobody watches: documented. */
		mprotect(other, 16 * page, PROT_READ | PROT_WRITE);
		memset(other, 7, 16 * page);
		assert_ptr_equal(mremap(other, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
	}
	collect(t);
	if (other != MAP_FAILED)
		assert_int_equal(dirty_bytes(t, id), 16 * page);
	kedge__tracker_close(t);
	memory_free(p, 16);
}

static void moved_away_and_replaced(void **state)
{
	(void)state;
	each_kind(moved);
}

static void grown(const char *kind)
{
	unsigned char *p = memory_new(32), written[24] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id;

	id = add(t, p, 16 * page, 0);
	collect(t);
	collect(t);
	/* With mprotect what is added would be read-only as well, and not watched: documented. */
	if (is_kind(t, "mprotect"))
		kedge__tracker_remove(t, id);
	munmap(p + 16 * page, 16 * page);
	assert_ptr_equal(mremap(p, 16 * page, 24 * page, 0), p);
	memset(p + 16 * page, 3, 8 * page);
	kedge__tracker_remove(t, id);
	id = add(t, p, 24 * page, 0);
	collect(t);
	assert_int_equal(dirty_bytes(t, id), 24 * page);
	written[20] = 1;
	p[15 * page]++;
	collect(t);
	p[20 * page]++;
	collect(t);
	assert_dirty_pages(t, id, written, 24);
	kedge__tracker_close(t);
	memory_free(p, 32);
}

static void grown_in_place(void **state)
{
	(void)state;
	each_kind(grown);
}

/* Contents that went away are a change, whether or not anyone has looked since. */
static void discarded(const char *kind)
{
	unsigned char *p = memory_new(PAGES);
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, PAGES * page, 0);

	collect(t);
	collect(t);
	madvise(p + page, 2 * page, MADV_DONTNEED);
	madvise(p + 400 * page, 1024 * page, MADV_DONTNEED);
	assert_int_equal(p[2 * page] + p[500 * page], 0);
	collect(t);
	assert_true(is_dirty(t, id, page));
	assert_true(is_dirty(t, id, 2 * page));
	for (size_t i = 400; i < 1424; i++)
		assert_true(is_dirty(t, id, i * page));
	if (!is_kind(t, "none"))
		assert_int_equal(dirty_bytes(t, id), 1026 * page);
	kedge__tracker_close(t);
	memory_free(p, PAGES);
}

static void discarded_pages(void **state)
{
	(void)state;
	each_kind(discarded);
}

static void huge(const char *kind)
{
	size_t page = page_size(), bytes = PAGES * page, huge_bytes = 512 * page, id;
	unsigned char *p = mmap(NULL, bytes + huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *q = p + (huge_bytes - (uintptr_t)p % huge_bytes) % huge_bytes;
	struct kedge__tracker *t = open_kind(kind);

	madvise(q, bytes, MADV_HUGEPAGE);
	memset(q, 1, bytes);
	id = add(t, q, bytes, 0);
	collect(t);
	collect(t);
	assert_int_equal(dirty_bytes(t, id), is_kind(t, "none") ? bytes : 0);
	q[700 * page + 9]++;
	collect(t);
	assert_true(is_dirty(t, id, 700 * page));
	/* Whether the kernel splits the huge page or not, no other is concerned. */
	assert_true(is_kind(t, "none") || dirty_bytes(t, id) <= huge_bytes);
	madvise(q + huge_bytes, huge_bytes, MADV_DONTNEED);
	collect(t);
	for (size_t i = 512; i < 1024; i++)
		assert_true(is_dirty(t, id, i * page));
	kedge__tracker_close(t);
	munmap(p, bytes + huge_bytes);
}

static void transparent_huge_pages(void **state)
{
	(void)state;
	each_kind(huge);
}

static void hugetlb(const char *kind)
{
	size_t page = page_size(), huge_bytes = 512 * page, id;
	unsigned char *p =
	    mmap(NULL, 2 * huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct kedge__tracker *t;

	if (p == MAP_FAILED) {
		print_message("skipped: no huge pages are reserved here\n");
		return;
	}
	memset(p, 1, 2 * huge_bytes);
	t = open_kind(kind);
	id = add(t, p, 2 * huge_bytes - 5, 0);
	collect(t);
	collect(t);
	p[huge_bytes / 2]++;
	collect(t);
	assert_true(is_dirty(t, id, huge_bytes / 2));
	p[huge_bytes]++;
	collect(t);
	assert_true(is_dirty(t, id, huge_bytes));
	if (is_kind(t, "uffd"))
		assert_int_equal(dirty_bytes(t, id), huge_bytes - 5);
	kedge__tracker_close(t);
	munmap(p, 2 * huge_bytes);
}

static void huge_pages_of_hugetlbfs(void **state)
{
	(void)state;
	each_kind(hugetlb);
}

static void shared(const char *kind)
{
	size_t page = page_size(), plain, sole;
	unsigned char *p = mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char written[8] = {0, 0, 0, 1, 0, 0, 0, 0};
	struct kedge__tracker *t = open_kind(kind);
	bool tracks = !is_kind(t, "none") && !is_kind(t, "softdirty");

	memset(p, 1, 16 * page);
	plain = add(t, p, 8 * page, 0);
	sole = add(t, p + 8 * page, 8 * page, KEDGE__TRACK_SOLE);
	collect(t);
	p[11 * page]++;
	collect(t);
	assert_int_equal(dirty_bytes(t, plain), 8 * page);
	if (tracks)
		assert_dirty_pages(t, sole, written, 8);
	else
		assert_int_equal(dirty_bytes(t, sole), 8 * page);
	/* It is as bad as the worst that is said of it. */
	add(t, p + 10 * page, page, 0);
	collect(t);
	collect(t);
	assert_true(is_dirty(t, sole, 2 * page));
	assert_int_equal(is_dirty(t, sole, 3 * page), !tracks);
	kedge__tracker_close(t);
	munmap(p, 16 * page);
}

static void shared_memory_only_if_vouched_for(void **state)
{
	(void)state;
	each_kind(shared);
}

static void private_file(const char *kind)
{
	char path[] = "/tmp/kedge-tracker-XXXXXX";
	size_t page = page_size(), id;
	int fd = mkstemp(path);
	struct kedge__tracker *t = open_kind(kind);
	unsigned char *p;

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, (off_t)(8 * page)), 0);
	p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, 6 * page);
	id = add(t, p, 8 * page, 0);
	collect(t);
	p[3 * page]++;
	collect(t);
	assert_true(is_dirty(t, id, 3 * page));
	collect(t);
	/* Back to what the file has, whether or not anyone has looked since. */
	madvise(p + 2 * page, page, MADV_DONTNEED);
	madvise(p + 5 * page, page, MADV_DONTNEED);
	assert_int_equal(p[2 * page], 0);
	collect(t);
	assert_true(is_dirty(t, id, 2 * page));
	assert_true(is_dirty(t, id, 5 * page));
	if (is_kind(t, "uffd"))
		assert_false(is_dirty(t, id, 4 * page));
	kedge__tracker_close(t);
	munmap(p, 8 * page);
	close(fd);
}

static void private_mappings_of_files(void **state)
{
	(void)state;
	each_kind(private_file);
}

/* Memory that nobody has touched yet, in the middle of what was: the first write to it is a change like others. */
static void holes(const char *kind)
{
	size_t page = page_size(), pages = 1 << 15, id;
	unsigned char *p =
	    mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kedge__tracker *t = open_kind(kind);
	uint64_t bytes;

	assert_true(p != MAP_FAILED);
	madvise(p, pages * page, MADV_NOHUGEPAGE);
	p[0] = p[(pages - 1) * page] = 1;
	id = add(t, p, pages * page, 0);
	collect(t);
	collect(t);
	if (is_kind(t, "uffd"))
		assert_int_equal(dirty_bytes(t, id), 0);
	p[700 * page] = p[20000 * page] = 1;
	assert_int_equal(kedge__tracker_count(t, &bytes, NULL), 0);
	collect(t);
	assert_true(is_dirty(t, id, 700 * page) && is_dirty(t, id, 20000 * page));
	assert_int_equal(bytes, dirty_bytes(t, id));
	if (is_kind(t, "uffd"))
		assert_int_equal(bytes, 2 * page);
	kedge__tracker_close(t);
	munmap(p, pages * page);
}

static void memory_never_touched(void **state)
{
	(void)state;
	each_kind(holes);
}

/* A userfaultfd of the program's own leaves a mark where a page of a file was discarded, and the mark looks like swap.
 */
static void marked_by_another(const char *kind)
{
	char path[] = "/tmp/kedge-tracker-XXXXXX";
	size_t page = page_size(), id;
	int file = mkstemp(path), fd = -1;
	struct kedge__tracker *t = open_kind(kind);
	bool kernel_writes;
	unsigned char *p;

	assert_true(file >= 0);
	unlink(path);
	assert_int_equal(ftruncate(file, (off_t)(4 * page)), 0);
	p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, 4 * page);
	id = add(t, p, 4 * page, 0);
	collect(t);
	if (!kedge__tracker_exclusive(t) &&
	    kedge__userfault_open(KEDGE__UFFD_WP_ASYNC | KEDGE__UFFD_WP_UNPOPULATED | KEDGE__UFFD_WP_HUGETLBFS_SHMEM,
				  &fd, &kernel_writes, NULL) == 0) {
		assert_int_equal(kedge__userfault_register(fd, (uintptr_t)p, (uintptr_t)p + 4 * page, NULL), 0);
		assert_int_equal(kedge__userfault_protect(fd, (uintptr_t)p, (uintptr_t)p + 4 * page, true, NULL), 0);
	}
	madvise(p + page, page, MADV_DONTNEED);
	collect(t);
	assert_true(is_dirty(t, id, page));
	kedge__tracker_close(t);
	munmap(p, 4 * page);
	if (fd >= 0)
		close(fd);
	close(file);
}

static void marks_of_others_are_no_evidence(void **state)
{
	(void)state;
	each_kind(marked_by_another);
}

/* ---- fork */

static int in_child(struct kedge__tracker *t, unsigned char *p, size_t id)
{
	struct kedge__range_list list = {0};
	size_t page = page_size();

	memset(p, 9, 16 * page);
	if (kedge__tracker_collect(t, NULL) || kedge__tracker_dirty(t, id, &list, NULL))
		return 1;
	if (list.count != 1 || list.at[0].start || list.at[0].len != 16 * page)
		return 2;
	kedge__array_done(&list);
	kedge__tracker_close(t);
	memset(p, 10, 16 * page);
	return 0;
}

static void fork_it(const char *kind)
{
	unsigned char *p = memory_new(16), written[16] = {0};
	struct kedge__tracker *t = open_kind(kind);
	size_t page = page_size(), id = add(t, p, 16 * page, 0);
	int status;
	pid_t child;

	collect(t);
	p[2 * page]++;
	fflush(NULL);
	child = fork();
	if (child == 0)
		_exit(in_child(t, p, id));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	p[5 * page]++;
	written[2] = written[5] = 1;
	collect(t);
	assert_dirty_pages(t, id, written, 16);
	written[2] = written[5] = 0;
	p[6 * page]++;
	written[6] = 1;
	collect(t);
	assert_dirty_pages(t, id, written, 16);
	kedge__tracker_close(t);
	memory_free(p, 16);
}

static void child_knows_nothing_and_harms_nobody(void **state)
{
	(void)state;
	each_kind(fork_it);
}

/* ---- what mprotect does to signals and mappings */

static struct kedge__tracker *open_mprotect(void)
{
	if (kedge__tracker_probe("mprotect", NULL) != 0)
		skip(); /* no /proc */
	return open_kind("mprotect");
}

static sigjmp_buf back;
static volatile sig_atomic_t caught;
static unsigned char *volatile written_by_handler;

static void on_segv(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	caught++;
	if (written_by_handler)
		written_by_handler[0]++;
	siglongjmp(back, 1);
}

static void handler_of_the_application(void **state)
{
	struct sigaction ours = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, before, now;
	unsigned char *p = memory_new(4), *guard = memory_new(1);
	struct kedge__tracker *t;
	size_t page = page_size(), id;

	(void)state;
	sigaction(SIGSEGV, &ours, &before);
	t = open_mprotect();
	id = add(t, p, 4 * page, 0);
	collect(t);
	mprotect(guard, page, PROT_NONE);
	written_by_handler = p + page;
	if (sigsetjmp(back, 1) == 0)
		guard[0] = 1;
	assert_int_equal(caught, 1);
	collect(t);
	assert_int_equal(dirty_bytes(t, id), page);
	assert_true(is_dirty(t, id, page));
	kedge__tracker_close(t);
	sigaction(SIGSEGV, &before, &now);
	assert_ptr_equal(now.sa_sigaction, on_segv);
	assert_int_equal(now.sa_flags & SA_SIGINFO, SA_SIGINFO);
	memory_free(p, 4);
	memory_free(guard, 1);
}

static void two_trackers_by_mprotect(void **state)
{
	unsigned char *p = memory_new(4), *q = memory_new(4);
	struct kedge__tracker *a = open_mprotect(), *b = open_mprotect();
	size_t page = page_size(), x = add(a, p, 4 * page, 0), y = add(b, q, 4 * page, 0);

	(void)state;
	collect(a);
	collect(b);
	p[0]++;
	q[page]++;
	collect(a);
	collect(b);
	assert_int_equal(dirty_bytes(a, x), page);
	assert_int_equal(dirty_bytes(b, y), page);
	kedge__tracker_close(a);
	q[2 * page]++;
	p[3 * page]++;
	collect(b);
	assert_true(is_dirty(b, y, 2 * page));
	kedge__tracker_close(b);
	memory_free(p, 4);
	memory_free(q, 4);
}

/* More pieces than a process may have mappings: it costs precision, never the process. */
static void more_pieces_than_mappings(void **state)
{
	enum { pages = 67000 };
	size_t page = page_size(), id;
	unsigned char *p =
	    mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kedge__tracker *t = open_mprotect();

	(void)state;
	madvise(p, pages * page, MADV_NOHUGEPAGE);
	id = add(t, p, pages * page, 0);
	collect(t);
	for (size_t i = 0; i < pages; i += 2)
		p[i * page]++;
	collect(t);
	for (size_t i = 0; i < pages; i += 1000)
		assert_true(is_dirty(t, id, i * page));
	p[500 * page]++;
	collect(t);
	assert_true(is_dirty(t, id, 500 * page));
	kedge__tracker_close(t);
	munmap(p, pages * page);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unmapped_and_mapped_anew),
	    cmocka_unit_test(moved_away_and_replaced),
	    cmocka_unit_test(grown_in_place),
	    cmocka_unit_test(discarded_pages),
	    cmocka_unit_test(transparent_huge_pages),
	    cmocka_unit_test(huge_pages_of_hugetlbfs),
	    cmocka_unit_test(shared_memory_only_if_vouched_for),
	    cmocka_unit_test(private_mappings_of_files),
	    cmocka_unit_test(memory_never_touched),
	    cmocka_unit_test(marks_of_others_are_no_evidence),
	    cmocka_unit_test(child_knows_nothing_and_harms_nobody),
	    cmocka_unit_test(handler_of_the_application),
	    cmocka_unit_test(two_trackers_by_mprotect),
	    cmocka_unit_test(more_pieces_than_mappings),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
