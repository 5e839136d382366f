/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index is a copy of what the manifests say: whatever becomes of it, a store has the versions that its manifests
 * say, and whoever follows it learns of every change. The truth is what a store says whose index was taken away.
 */
#include "fixture.h"

#include <signal.h>

#define RANKS 3

/* ------------------------------------------------------------------ sets without segments */

static int publish(struct kedge__catalog *cat, uint64_t version, uint32_t generation, struct kedge__error *err)
{
	struct kedge__set_part parts[RANKS];
	uint64_t source = version - 1;
	struct kedge__set set = {.name = NAME,
				 .version = version,
				 .parent = version > 1 ? source : KEDGE__NO_VERSION,
				 .created_ns = version * 1000 + generation,
				 .ranks = RANKS,
				 .parts = parts,
				 .sources = &source,
				 .source_count = version > 1,
				 .run = {.id = 5, .epoch = version}};

	for (uint32_t rank = 0; rank < RANKS; rank++)
		parts[rank] = (struct kedge__set_part){
		    .generation = generation, .file_bytes = 100 + rank, .seal = {version, generation}};
	return kedge__set_publish(cat, &set, err);
}

static void publish_ok(struct kedge__catalog *cat, uint64_t version, uint32_t generation)
{
	assert_ok(publish(cat, version, generation, err));
}

static struct kedge__catalog *open_as(const char *dir, enum kedge__catalog_mode mode)
{
	struct kedge__catalog *cat = NULL;

	assert_ok(kedge__catalog_open(dir, NAME, mode, &cat, err));
	return cat;
}

static char *index_path(const char *dir)
{
	return kedge__asprintf("%s/" NAME "/index", dir);
}

static char *set_path(const char *dir, uint64_t version)
{
	return kedge__asprintf("%s/" NAME "/set-%020llu", dir, (unsigned long long)version);
}

/* What the catalogue has, in full, and what it says of it. */
static char *text_of(const struct kedge__catalog *cat)
{
	char *text = kedge__asprintf("%zu, of which %zu cannot be read, digest %llx\n", kedge__catalog_count(cat),
				     kedge__catalog_problems(cat), (unsigned long long)kedge__catalog_digest(cat));

	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
		struct kedge__bytes bytes = {0};
		char *longer;

		if (!e->problem.code)
			assert_ok(kedge__set_encode(&e->set, &bytes, err));
		assert_true(e->problem.code ||
			    (e->image == kedge__set_image(&e->set) && e->files == kedge__set_files(&e->set)));
		longer = kedge__asprintf(
		    "%s%llu: %d %llx\n", text, (unsigned long long)e->version, e->problem.code,
		    (unsigned long long)kedge__checksum(bytes.at ? bytes.at : (uint8_t *)"", bytes.count));
		kedge__free(text);
		kedge__bytes_done(&bytes);
		text = longer;
	}
	return text;
}

/* Of a store without an index, read by one who makes none. */
static char *truth_of(const char *dir)
{
	char *path = index_path(dir), *aside = kedge__asprintf("%s/" NAME "/aside", dir), *text;
	bool there = rename(path, aside) == 0;
	struct kedge__catalog *cat = open_as(dir, KEDGE__CATALOG_READ);

	assert_false(kedge__fs_exists(path));
	text = text_of(cat);
	kedge__catalog_close(cat);
	if (there)
		assert_int_equal(rename(aside, path), 0);
	kedge__free(path);
	kedge__free(aside);
	return text;
}

static void assert_text(const struct kedge__catalog *cat, const char *truth, const char *when)
{
	char *text = text_of(cat);

	if (strcmp(text, truth) != 0)
		fail_msg("%s: this is there:\n%sand this is what the catalogue has:\n%s", when, truth, text);
	kedge__free(text);
}

static void assert_current(struct kedge__catalog *cat, const char *dir, const char *when)
{
	char *truth = truth_of(dir);

	assert_ok(kedge__catalog_scan(cat, err));
	assert_text(cat, truth, when);
	kedge__free(truth);
}

/* Whoever opens the store, to read it or to write to it, has what is there. */
static void assert_opens(const char *dir, const char *truth, const char *when)
{
	static const enum kedge__catalog_mode modes[] = {KEDGE__CATALOG_READ, KEDGE__CATALOG_CREATE,
							 KEDGE__CATALOG_READ};

	for (size_t i = 0; i < KEDGE__COUNT(modes); i++) {
		struct kedge__catalog *cat = open_as(dir, modes[i]);

		assert_text(cat, truth, when);
		assert_ok(kedge__catalog_scan(cat, err));
		assert_text(cat, truth, when);
		kedge__catalog_close(cat);
	}
}

struct place {
	char *dir, *path, *truth;
	struct kedge__catalog *cat;
	uint8_t *index;
	size_t bytes;
};

/* A store with some versions, one of them written twice and one removed, and its index. */
static void place_open(struct place *p)
{
	p->dir = make_dir();
	p->path = index_path(p->dir);
	p->cat = open_store(p->dir);
	for (uint64_t version = 1; version <= 4; version++)
		publish_ok(p->cat, version, 0);
	publish_ok(p->cat, 2, 1);
	assert_ok(kedge__set_remove(p->cat, 4, err));
	p->truth = truth_of(p->dir);
	p->index = file_read(p->path, &p->bytes);
}

static void place_close(struct place *p)
{
	kedge__catalog_close(p->cat);
	kedge__free(p->path);
	kedge__free(p->truth);
	free(p->index);
	remove_dir(p->dir);
}

/* ------------------------------------------------------------------ what is read */

static void test_reads(void **state)
{
	struct place p;
	struct kedge__catalog *other;
	uint64_t before;

	(void)state;
	place_open(&p);
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(kedge__catalog_manifests_read(other), 0);
	assert_text(other, p.truth, "opened");
	/* Nothing changed; one was published; one was written again; one was removed. */
	for (int i = 0; i < 3; i++)
		assert_ok(kedge__catalog_scan(other, err));
	publish_ok(p.cat, 4, 0);
	assert_current(other, p.dir, "published");
	publish_ok(p.cat, 4, 1);
	assert_current(other, p.dir, "again");
	assert_ok(kedge__set_remove(p.cat, 4, err));
	assert_current(other, p.dir, "removed");
	assert_ok(kedge__catalog_rescan(other, err));
	assert_int_equal(kedge__catalog_manifests_read(other), 0);
	assert_int_equal(kedge__catalog_manifests_read(p.cat), 0);
	kedge__catalog_close(other);

	/* Without an index all are read, once. */
	assert_int_equal(unlink(p.path), 0);
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(kedge__catalog_manifests_read(other), 3);
	before = kedge__catalog_manifests_read(other);
	assert_ok(kedge__catalog_scan(other, err));
	assert_ok(kedge__catalog_rescan(other, err));
	assert_int_equal(kedge__catalog_manifests_read(other), before);
	assert_false(kedge__fs_exists(p.path));
	kedge__catalog_close(other);
	place_close(&p);
}

/* One manifest that somebody else changed is read, and noted for those who come later. */
static void test_stranger(void **state)
{
	struct place p;
	struct kedge__catalog *other;
	char *path, *from, *truth;
	uint8_t *data;
	size_t bytes;

	(void)state;
	place_open(&p);
	path = set_path(p.dir, 3);
	data = file_read(path, &bytes);
	file_write(path, data, bytes);
	assert_ok(kedge__catalog_rescan(p.cat, err));
	assert_int_equal(kedge__catalog_manifests_read(p.cat), 1);
	assert_text(p.cat, p.truth, "rescan");
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(kedge__catalog_manifests_read(other), 0);
	kedge__catalog_close(other);
	/* It goes, and comes back under the name of another, which it is not. */
	from = set_path(p.dir, 9);
	assert_int_equal(rename(path, from), 0);
	truth = truth_of(p.dir);
	assert_opens(p.dir, truth, "renamed");
	kedge__free(truth);
	assert_int_equal(rename(from, path), 0);
	assert_opens(p.dir, p.truth, "renamed back");
	kedge__free(from);
	kedge__free(path);
	free(data);
	place_close(&p);
}

static void put_times_back(const char *path, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The index of DIR with the state of the manifest of VERSION as it is now: as if nothing had happened to the file. */
static void forge_state(const struct place *p, uint64_t version, const struct stat *st)
{
	struct kedge__bytes out = {0};
	struct kedge__index_record r;
	size_t bytes, at = KEDGE__INDEX_HEADER_BYTES;
	uint8_t *data = file_read(p->path, &bytes);

	for (size_t i = 0; i < at; i++)
		assert_true(kedge__array_push(&out, data[i]));
	while (at < bytes) {
		assert_ok(kedge__index_record_decode(data, bytes, &at, &r, err));
		if (r.version == version && r.kind == KEDGE__INDEX_PUBLISHED)
			r.file.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
		assert_ok(kedge__index_record_encode(&r, &out, err));
	}
	file_write(p->path, out.at, out.count);
	kedge__bytes_done(&out);
	free(data);
}

static size_t findings(struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__verify_options options = {.version = version, .local = true};
	struct kedge__verify_report report = {0};
	size_t count;

	assert_ok(kedge__verify_with(cat, NULL, &options, &report, err));
	count = report.findings;
	kedge__verify_report_done(&report);
	return count;
}

/* A manifest that rots: seen by its times, or, if even those are the same, by whoever verifies. */
static void test_rot(void **state)
{
	struct place p;
	struct kedge__catalog *cat;
	struct stat before, after;
	char *path;
	uint8_t *data;
	size_t bytes;

	(void)state;
	place_open(&p);
	path = set_path(p.dir, 2);
	assert_int_equal(stat(path, &before), 0);
	data = file_read(path, &bytes);
	data[bytes / 2] ^= 4;
	file_write(path, data, bytes);
	put_times_back(path, &before);
	assert_int_equal(stat(path, &after), 0);
	cat = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(kedge__catalog_find(cat, 2)->problem.code, KEDGE_E_DAMAGED);
	kedge__catalog_close(cat);

	forge_state(&p, 2, &after);
	cat = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(kedge__catalog_manifests_read(cat), 0);
	assert_text(cat, p.truth, "the index is believed");
	/* Version 3 needs version 2; version 1 does not. */
	assert_int_equal(findings(cat, 1), 0);
	assert_int_equal(kedge__catalog_find(cat, 2)->problem.code, 0);
	assert_int_equal(findings(cat, 3), 1);
	assert_int_equal(kedge__catalog_find(cat, 2)->problem.code, KEDGE_E_DAMAGED);
	kedge__catalog_close(cat);
	cat = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_int_equal(findings(cat, KEDGE_NEWEST), 1);
	kedge__catalog_close(cat);
	kedge__free(path);
	free(data);
	place_close(&p);
}

/* ------------------------------------------------------------------ what may become of it */

static void test_every_bit(void **state)
{
	struct place p;

	(void)state;
	place_open(&p);
	for (size_t at = 0; at < p.bytes; at++) {
		for (int bit = 0; bit < 8; bit++) {
			struct kedge__catalog *cat;

			p.index[at] ^= (uint8_t)(1 << bit);
			file_write(p.path, p.index, p.bytes);
			cat = open_as(p.dir, KEDGE__CATALOG_READ);
			assert_text(cat, p.truth, "a bit");
			kedge__catalog_close(cat);
			p.index[at] ^= (uint8_t)(1 << bit);
		}
		p.index[at] ^= 255;
		file_write(p.path, p.index, p.bytes);
		assert_opens(p.dir, p.truth, "a byte");
		p.index[at] ^= 255;
	}
	place_close(&p);
}

static void test_every_length(void **state)
{
	struct place p;
	struct kedge__catalog *cat;

	(void)state;
	place_open(&p);
	for (size_t length = 0; length <= p.bytes; length++) {
		file_write(p.path, p.index, length);
		assert_opens(p.dir, p.truth, "cut short");
		/* It was written again. */
		cat = open_as(p.dir, KEDGE__CATALOG_READ);
		assert_int_equal(kedge__catalog_manifests_read(cat), 0);
		kedge__catalog_close(cat);
	}
	/* Bytes behind its end, and many. */
	file_write(p.path, p.index, p.bytes);
	if (truncate(p.path, (off_t)1 << 50)) /* as much as a disk with ext4 allows */
		assert_int_equal(truncate(p.path, (off_t)1 << 43), 0);
	assert_ok(kedge__catalog_scan(p.cat, err));
	assert_text(p.cat, p.truth, "very long");
	assert_opens(p.dir, p.truth, "very long");
	place_close(&p);
}

/* An open catalogue, too, has what is there when the index is cut, altered, gone, another file, or an old one. */
static void test_under_a_follower(void **state)
{
	struct place p;
	struct kedge__catalog *other;
	char *copy;

	(void)state;
	place_open(&p);
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	copy = kedge__asprintf("%s/copy", p.dir);
	for (uint32_t i = 1; i < 40; i++) {
		size_t length = p.bytes * (i % 7) / 7;

		if (i % 5 == 0)
			(void)unlink(p.path);
		else if (i % 5 == 1)
			assert_int_equal(truncate(p.path, (off_t)length), 0);
		else if (i % 5 == 2)
			file_write(p.path, p.index, p.bytes);
		else if (i % 5 == 3)
			file_write(copy, p.index, p.bytes), assert_int_equal(rename(copy, p.path), 0);
		publish_ok(p.cat, 3 + i % 3, i);
		if (i % 4 == 0)
			assert_ok(kedge__set_remove(p.cat, 3 + i % 3, err));
		assert_current(other, p.dir, "the one that reads");
		assert_current(p.cat, p.dir, "the one that writes");
	}
	kedge__catalog_close(other);
	kedge__free(copy);
	place_close(&p);
}

/* A copy of the store, the index of another job, and that of another store. */
static void test_of_another(void **state)
{
	struct place p;
	struct kedge__catalog *cat;
	char *copy, *path, *truth;

	(void)state;
	place_open(&p);
	copy = make_dir();
	tree_copy(p.dir, copy);
	assert_opens(copy, p.truth, "a copy");
	tree_remove(copy);
	cat = open_store(copy);
	path = index_path(copy);
	publish_ok(cat, 1, 7);
	publish_ok(cat, 9, 7);
	truth = truth_of(copy);
	file_write(path, p.index, p.bytes);
	assert_current(cat, copy, "the index of another store");
	assert_opens(copy, truth, "the index of another store");
	kedge__catalog_close(cat);
	kedge__free(truth);
	kedge__free(path);
	remove_dir(copy);
	place_close(&p);
}

/* Where there can be no index there is none, and nothing else is different. */
static void test_cannot_be_written(void **state)
{
	struct place p;
	struct kedge__catalog *other;

	(void)state;
	place_open(&p);
	assert_int_equal(unlink(p.path), 0);
	assert_int_equal(mkdir(p.path, 0700), 0);
	other = open_as(p.dir, KEDGE__CATALOG_CREATE);
	assert_text(other, p.truth, "opened");
	for (uint32_t i = 1; i < 4; i++) {
		publish_ok(p.cat, 4 + i, i);
		assert_ok(kedge__set_remove(p.cat, i, err));
		assert_current(other, p.dir, "no index");
		assert_current(p.cat, p.dir, "no index");
	}
	kedge__catalog_close(other);
	assert_int_equal(rmdir(p.path), 0);
	/* Whoever only reads makes none either. */
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	assert_current(other, p.dir, "read");
	kedge__catalog_close(other);
	assert_false(kedge__fs_exists(p.path));
	assert_current(p.cat, p.dir, "written again");
	assert_true(kedge__fs_exists(p.path));
	place_close(&p);
}

/* ------------------------------------------------------------------ crashes */

struct victim {
	const char *dir, *spec;
	bool removes;
};

static void run_victim(void *ctx)
{
	const struct victim *v = ctx;
	struct kedge__catalog *cat;

	if (kedge__catalog_open(v->dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0 ||
	    kedge__fault_set(v->spec, NULL) != 0)
		_exit(2);
	if (v->removes)
		_exit(kedge__set_remove(cat, 3, NULL) == 0 ? 0 : 1);
	_exit(publish(cat, 3, 1, NULL) == 0 ? 0 : 1);
}

static bool follow_victim(const char *action, uint64_t n, bool removes)
{
	char *spec = kedge__asprintf("%s@%llu", action, (unsigned long long)n);
	struct kedge__catalog *other;
	struct place p;
	int status;
	char *truth;

	place_open(&p);
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	status = run_child(run_victim, &(struct victim){p.dir, spec, removes});
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) < 2);
	assert_current(other, p.dir, spec);
	assert_current(p.cat, p.dir, spec);
	truth = truth_of(p.dir);
	assert_opens(p.dir, truth, spec);
	kedge__free(truth);
	/* And it goes on. */
	publish_ok(p.cat, 8, 0);
	assert_current(other, p.dir, spec);
	publish_ok(p.cat, 3, 2);
	assert_current(other, p.dir, spec);
	kedge__catalog_close(other);
	place_close(&p);
	kedge__free(spec);
	return WIFSIGNALED(status) || WEXITSTATUS(status);
}

static void crash_each(bool removes)
{
	static const char *const actions[] = {"kill", "cut"};

	for (size_t i = 0; i < KEDGE__COUNT(actions); i++) {
		uint64_t n = 1;

		while (follow_victim(actions[i], n, removes))
			n++;
		assert_true(n > 3);
	}
}

static void test_crash_of_a_publish(void **state)
{
	(void)state;
	crash_each(false);
}

static void test_crash_of_a_removal(void **state)
{
	(void)state;
	crash_each(true);
}

/* From the N-th call on the file system takes nothing any more, not even the removal of the index. */
static void test_disk_stays_full(void **state)
{
	bool failed = true;

	(void)state;
	for (uint64_t n = 1; n < 30; n++) {
		char *spec = kedge__asprintf("enospc@%llu+", (unsigned long long)n);
		struct kedge__catalog *other;
		struct place p;

		place_open(&p);
		other = open_as(p.dir, KEDGE__CATALOG_READ);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		failed = publish(p.cat, 3, 1, NULL) != 0;
		kedge__fault_set(NULL, NULL);
		assert_current(other, p.dir, spec);
		assert_current(p.cat, p.dir, spec);
		kedge__catalog_close(other);
		place_close(&p);
		kedge__free(spec);
	}
	assert_false(failed);
}

/* ------------------------------------------------------------------ several at once */

/* What a handle could not read once, it reads at the next scan. */
static void test_read_fails_once(void **state)
{
	uint64_t failures = 0;

	(void)state;
	for (uint64_t n = 1; n <= 24; n++) { /* more than a scan that has to read both manifests makes */
		char *dir = make_dir(), *path = index_path(dir), spec[32];
		struct kedge__catalog *cats[2] = {open_store(dir), open_store(dir)};

		publish_ok(cats[0], 1, 0);
		publish_ok(cats[0], 2, 0);
		assert_int_equal(unlink(path), 0);
		text_make(spec, sizeof(spec), "read@%llu", (unsigned long long)n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		failures += kedge__catalog_scan(cats[1], NULL) == 0 && kedge__catalog_problems(cats[1]) > 0;
		kedge__fault_set(NULL, NULL);
		assert_ok(kedge__catalog_scan(cats[1], err));
		assert_int_equal(kedge__catalog_problems(cats[1]), 0);
		assert_current(cats[1], dir, spec);
		for (int i = 0; i < 2; i++)
			kedge__catalog_close(cats[i]);
		kedge__free(path);
		remove_dir(dir);
	}
	assert_true(failures > 0);
}

static void test_two_in_turn(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cats[2] = {open_store(dir), open_store(dir)};
	uint64_t seed = 3;

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t version = 1 + draw(&seed) % 6;
		struct kedge__catalog *cat = cats[draw(&seed) % 2];

		if (draw(&seed) % 3)
			publish_ok(cat, version, i);
		else
			assert_ok(kedge__set_remove(cat, version, err));
		if (draw(&seed) % 2)
			assert_current(cats[draw(&seed) % 2], dir, "one of two");
	}
	assert_current(cats[0], dir, "first");
	assert_current(cats[1], dir, "second");
	for (int i = 0; i < 2; i++)
		kedge__catalog_close(cats[i]);
	remove_dir(dir);
}

#define MANY 400

/* Opens the store now and then, so that the index is written again. */
static void run_writer(const char *dir, uint64_t first)
{
	struct kedge__catalog *cat = NULL;

	for (uint32_t i = 0; i < MANY; i++) {
		if (i % 50 == 0) {
			kedge__catalog_close(cat);
			if (kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0)
				_exit(1);
		}
		if (publish(cat, first + i % 5, i, NULL) != 0 || kedge__catalog_scan(cat, NULL) != 0 ||
		    (i % 7 == 0 && kedge__set_remove(cat, first + i % 5, NULL) != 0))
			_exit(1);
	}
	kedge__catalog_close(cat);
	_exit(0);
}

static void test_processes(void **state)
{
	char *dir = make_dir(), *path = index_path(dir), *truth;
	struct kedge__catalog *reader, *writer = open_store(dir);
	struct stat before, after;
	pid_t children[2];
	int left = 2, status;

	(void)state;
	publish_ok(writer, 1, 0);
	reader = open_as(dir, KEDGE__CATALOG_READ);
	assert_int_equal(stat(path, &before), 0);
	for (uint64_t i = 0; i < 2; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0)
			run_writer(dir, 100 * (i + 1));
	}
	while (left) {
		assert_ok(kedge__catalog_scan(reader, err));
		assert_ok(kedge__catalog_scan(writer, err));
		assert_non_null(kedge__catalog_find(reader, 1));
		for (int i = 0; i < 2; i++) {
			if (children[i] && waitpid(children[i], &status, WNOHANG) == children[i]) {
				assert_int_equal(status, 0);
				children[i] = 0;
				left--;
			}
		}
	}
	truth = truth_of(dir);
	assert_ok(kedge__catalog_scan(reader, err));
	assert_ok(kedge__catalog_scan(writer, err));
	assert_text(reader, truth, "the one that reads");
	assert_text(writer, truth, "the one that writes");
	/* It did not grow for ever. */
	assert_int_equal(stat(path, &after), 0);
	assert_true(after.st_ino != before.st_ino || after.st_dev != before.st_dev);
	assert_true(after.st_size < 200000);
	kedge__free(truth);
	kedge__free(path);
	kedge__catalog_close(reader);
	kedge__catalog_close(writer);
	remove_dir(dir);
}

/* A job that runs for long and keeps little: its index is written again while it runs. */
static void test_stays_small(void **state)
{
	struct place p;
	struct kedge__catalog *other;
	struct stat st;

	(void)state;
	place_open(&p);
	other = open_as(p.dir, KEDGE__CATALOG_READ);
	for (uint32_t i = 0; i < 2000; i++) {
		publish_ok(p.cat, 10 + i, 0);
		assert_ok(kedge__set_remove(p.cat, 10 + i, err));
		assert_ok(kedge__catalog_scan(p.cat, err));
		assert_ok(kedge__catalog_scan(other, err));
	}
	assert_int_equal(stat(p.path, &st), 0);
	assert_true(st.st_size < 150000);
	assert_text(p.cat, p.truth, "the one that writes");
	assert_text(other, p.truth, "the one that reads");
	assert_int_equal(kedge__catalog_manifests_read(p.cat), 0);
	kedge__catalog_close(other);
	place_close(&p);
}

/* ------------------------------------------------------------------ what a crash leaves in the directory of a version
 */

static char *stray_path(const char *dir)
{
	char *path = kedge__asprintf("%s/" NAME "/v00000000000000000001", dir);

	(void)mkdir(path, 0700);
	kedge__free(path);
	return kedge__asprintf("%s/" NAME "/v00000000000000000001/r0000000-g9.seg.tmp", dir);
}

static void die_rewriting(void *ctx)
{
	const struct kedge__io io = {0};
	struct kedge__segment_spec spec = {.name = NAME, .version = 1, .ranks = RANKS, .generation = 9, .io = io};
	struct kedge__reduction red = {.version = 1, .parent = KEDGE__NO_VERSION};
	struct kedge__catalog *cat;
	struct kedge__set_part part;

	if (kedge__catalog_open(ctx, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0)
		_exit(2);
	spec.reduction = &red;
	spec.block_bytes = 1024;
	/* The record, then the temporary file, then its first write. */
	if (kedge__fault_set("kill@3", NULL) != 0)
		_exit(2);
	_exit(kedge__segment_write(cat, NULL, &spec, &part, NULL, NULL) == 0 ? 0 : 1);
}

static size_t cleaned(const char *dir)
{
	struct kedge__catalog *cat = open_store(dir);
	size_t removed = 0;

	assert_ok(kedge__catalog_clean(cat, &removed, err));
	kedge__catalog_close(cat);
	return removed;
}

static void test_leftovers(void **state)
{
	struct place p;
	char *path;
	int status;

	(void)state;
	place_open(&p);
	path = stray_path(p.dir);
	status = run_child(die_rewriting, p.dir);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(kedge__fs_exists(path));
	assert_int_equal(cleaned(p.dir), 1);
	assert_false(kedge__fs_exists(path));
	/* From then on it is known that there is nothing. */
	kedge__free(stray_path(p.dir));
	file_write(path, "x", 1);
	assert_int_equal(cleaned(p.dir), 0);
	assert_true(kedge__fs_exists(path));
	/* Until nobody knows. */
	assert_int_equal(unlink(p.path), 0);
	assert_int_equal(cleaned(p.dir), 1);
	assert_false(kedge__fs_exists(path));
	kedge__free(path);
	place_close(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads),
	    cmocka_unit_test(test_stranger),
	    cmocka_unit_test(test_rot),
	    cmocka_unit_test(test_every_bit),
	    cmocka_unit_test(test_every_length),
	    cmocka_unit_test(test_under_a_follower),
	    cmocka_unit_test(test_of_another),
	    cmocka_unit_test(test_cannot_be_written),
	    cmocka_unit_test(test_crash_of_a_publish),
	    cmocka_unit_test(test_crash_of_a_removal),
	    cmocka_unit_test(test_disk_stays_full),
	    cmocka_unit_test(test_read_fails_once),
	    cmocka_unit_test(test_two_in_turn),
	    cmocka_unit_test(test_processes),
	    cmocka_unit_test(test_stays_small),
	    cmocka_unit_test(test_leftovers),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
