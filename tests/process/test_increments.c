/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages of a process were written: what increments copy is all that has changed, and many captures leave nothing
 * behind. $PROCESS_TEST_CAPTURES: how often one program is captured (60).
 */
#include "life.h"

#include <dirent.h>

/* ------------------------------------------------------------------ increments */

static const uint8_t *page_in(const struct kedge__process_mirror *m, uint64_t address)
{
	static const uint8_t zeros[KEDGE__PAGE_BYTES];
	size_t i;

	KEDGE__PARTITION_POINT(i, m->count, m->sorted[i].address < address);
	return i < m->count && m->sorted[i].address == address ? m->pages + m->sorted[i].place * KEDGE__PAGE_BYTES
							       : zeros;
}

static size_t compare_mapping(const struct life *l, const struct kedge__process_mapping *m, int memory, int pagemap)
{
	uint64_t entries[512];
	size_t there = 0;

	for (uint64_t at = m->start, i = 0; at < m->end; at += KEDGE__PAGE_BYTES, i++) {
		uint8_t now[KEDGE__PAGE_BYTES];

		if (i % KEDGE__COUNT(entries) == 0)
			assert_true(pread(pagemap, entries, sizeof(entries), (off_t)(at / KEDGE__PAGE_BYTES * 8)) > 0);
		if (!(entries[i % KEDGE__COUNT(entries)] >> 62))
			continue;
		assert_int_equal(pread(memory, now, sizeof(now), (off_t)at), sizeof(now));
		if (memcmp(now, page_in(&l->mirror, at), sizeof(now)) != 0)
			fail_msg("page 0x%llx of 0x%llx-0x%llx %s differs", (unsigned long long)at,
				 (unsigned long long)m->start, (unsigned long long)m->end, m->name);
		there++;
	}
	return there;
}

/* The program waits, and writes to nothing but small mappings: what it has is what is in the mirror. */
static void compare_memory(struct life *l)
{
	struct kedge__process_image image;
	char path[64];
	int memory, pagemap;
	size_t there = 0, kept = 0;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)l->pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)l->pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(memory >= 0 && pagemap >= 0);
	assert_int_equal(kedge__process_image_decode(l->record, l->record_bytes, &image, NULL), 0);
	for (size_t i = 0; i < image.mappings.count; i++) {
		const struct kedge__process_mapping *m = &image.mappings.at[i];

		if (m->kind != KEDGE__MAPPING_ANONYMOUS || m->end - m->start < (1 << 20))
			continue;
		there += compare_mapping(l, m, memory, pagemap);
		for (size_t k = 0; k < l->mirror.count; k++)
			kept += l->mirror.sorted[k].address >= m->start && l->mirror.sorted[k].address < m->end;
	}
	assert_true(kept > 0 && kept <= there); /* pages of zeros that were only read are not kept */
	kedge__process_image_done(&image);
	close(memory);
	close(pagemap);
}

static void increments_are_all(void **state)
{
	char root[FILES_PATH];
	struct life l = {.link = -1};
	uint64_t seed = 7;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(l.dir, "%s", root);
	set_limit(&l, 1);
	begin(&l, "memory", root);
	l.tracker = kedge__process_tracker_new();
	for (unsigned long at = 1, i = 0; at < ROUNDS - 40; at += 1 + draw_below(&seed, 40), i++) {
		set_limit(&l, at);
		await_progress(&l, at);
		l.way = i % 4 == 3 ? KEDGE__WAY_STILL : KEDGE__WAY_AUTO;
		capture(&l);
		assert_true(l.got == (i % 4 == 3 ? KEDGE__WAY_STILL : KEDGE__WAY_INCREMENT) ||
			    kedge__process_tracker_why_not(l.tracker));
		compare_memory(&l);
	}
	await_end(&l);
	forget(&l);
	scratch_remove(root);
}

/* The memory that was tracked is gone, and other memory is at its place. */
static void another_program(void **state)
{
	char root[FILES_PATH];
	struct life l = {.link = -1};

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(l.dir, "%s", root);
	set_limit(&l, 1);
	begin(&l, "again", root);
	l.tracker = kedge__process_tracker_new();
	await_progress(&l, 1);
	for (int i = 0; i < 2; i++) {
		capture(&l);
		compare_memory(&l);
	}
	set_limit(&l, 2);
	await_progress(&l, 3);
	for (int i = 0; i < 3; i++) {
		capture(&l);
		compare_memory(&l);
	}
	assert_true(l.got == KEDGE__WAY_INCREMENT || kedge__process_tracker_why_not(l.tracker));
	await_end(&l);
	forget(&l);
	scratch_remove(root);
}

/* ------------------------------------------------------------------ no trace */

/* The program opens this file, looks, and closes it again, all the while that it waits. */
static bool is_limit(int dir, const char *name)
{
	char to[FILES_PATH];
	ssize_t n = readlinkat(dir, name, to, sizeof(to));

	return n < 0 || (n > 6 && memcmp(to + n - 6, "/limit", 6) == 0); /* below 0: closed meanwhile */
}

static size_t count_descriptors(pid_t pid)
{
	char path[64];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.' && !is_limit(dirfd(d), e->d_name);
	closedir(d);
	return n;
}

static size_t resident_pages(pid_t pid)
{
	char path[64];
	unsigned long pages = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*s %lu", &pages), 1);
	fclose(f);
	return pages;
}

/* Neither the program nor we get more of anything. */
static void many_captures(void **state)
{
	const char *text = getenv("PROCESS_TEST_CAPTURES");
	unsigned long captures = text ? strtoul(text, NULL, 10) : 60;
	char root[FILES_PATH], dir[FILES_PATH];
	struct life whole, l = {.link = -1};
	size_t descriptors = 0, ours = 0, resident = 0;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	all_rounds = captures * 3 + 10;
	path_make(dir, "%s/whole", root);
	begin(&whole, "grow", dir);
	await_end(&whole);
	path_make(dir, "%s/parts", root);
	assert_int_equal(mkdir(dir, 0700), 0);
	path_make(l.dir, "%s", dir);
	set_limit(&l, 1);
	begin(&l, "grow", dir);
	all_rounds = ROUNDS;
	l.tracker = kedge__process_tracker_new();
	for (unsigned long i = 0; i < captures; i++) {
		set_limit(&l, 1 + 3 * i);
		await_progress(&l, 1 + 3 * i);
		if (i == 0)
			descriptors = count_descriptors(l.pid);
		l.way = i % 16 == 15 ? KEDGE__WAY_STILL : KEDGE__WAY_AUTO;
		capture(&l);
		if (i == captures / 2) {
			ours = count_descriptors(getpid());
			resident = resident_pages(getpid());
		}
	}
	assert_int_equal(count_descriptors(l.pid), descriptors);
	assert_int_equal(count_descriptors(getpid()), ours);
	assert_true(resident_pages(getpid()) < resident + 16384);
	if (count_lines(l.pid, "maps") > 200)
		fail_msg("%zu mappings", count_lines(l.pid, "maps"));
	assert_false(traced(l.pid));
	await_end(&l);
	compare(&whole, &l);
	forget(&l);
	scratch_remove(root);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(increments_are_all),
	    cmocka_unit_test(another_program),
	    cmocka_unit_test(many_captures),
	};

	for (int fd = 3; fd < 64; fd++)
		(void)close(fd);
	return cases_run(argc, argv, tests, NULL, NULL);
}
