/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_rex_measure: all ways keep a series, then their restores take turns, so that what else happens on the machine
 * meets them all alike.
 *
 * Rates are bytes of pages by processor time, of all threads and commands: what a thread does, whatever else runs on
 * the machine. Restores are timed by the clock.
 */
#include "rex.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define READ_AHEAD                                                                                                     \
	(UINT64_C(128) << 10) /* what a slow disk may have read before it is asked: as Linux does by itself */
#define ENOUGH 1.5            /* seconds, after which nothing is repeated any more */

/* ---- clocks and files */

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* Of all threads, and of the commands that were run. */
static double processor_seconds(void)
{
	struct rusage children;
	struct timespec own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	return (double)own.tv_sec + (double)own.tv_nsec * 1e-9 + seconds_of(children.ru_utime) +
	       seconds_of(children.ru_stime);
}

/* nftw() passes nothing on to its function. */
static uint64_t counted;

static int count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	/* What a peer needs as input is not what it stores; a lock file is there only while the job runs. */
	if (type == FTW_F && strncmp(name, "raw.", 4) != 0 && strncmp(name, "source.", 7) != 0)
		counted += (uint64_t)st->st_size;
	return 0;
}

static uint64_t stored_bytes(const char *dir)
{
	counted = 0;
	nftw(dir, count_file, 16, FTW_PHYS);
	return counted;
}

/* ---- to keep */

/* Processor time of the kernel to take BYTES bytes into a file: no part of any compression. */
static int write_bare(struct kedge__rex_keeper *k, const struct kedge__rex_increment *inc, uint64_t bytes,
		      double *seconds, struct kedge__error *err)
{
	char *path = kedge__rex_path(k, "raw", 1);
	double start = processor_seconds();
	int rc = kedge__rex_write(path, inc->file, KEDGE__MIN(bytes, inc->bytes), err);

	*seconds += processor_seconds() - start;
	kedge__fs_unlink(path, NULL);
	kedge__free(path);
	return rc;
}

static int keep_step(struct kedge__rex_keeper *k, size_t step, struct kedge__rex_result *r, struct kedge__error *err)
{
	uint64_t before = stored_bytes(k->dir), stored;
	struct kedge__rex_increment inc;
	double start;
	int rc;

	kedge__rex_increment_make(k->series, step, &inc);
	r->chain_raw += inc.pages * KEDGE__PAGE_BYTES;
	rc = k->method->prepare(k, step, &inc, err);
	start = processor_seconds();
	if (rc == 0)
		rc = k->method->keep(k, step, &inc, err);
	start = processor_seconds() - start;
	stored = stored_bytes(k->dir) - before;
	if (step < k->series->count) {
		r->pack_seconds += start;
		*(step ? &r->raw : &r->raw_base) += inc.pages * KEDGE__PAGE_BYTES;
		*(step ? &r->stored : &r->stored_base) += stored;
		if (rc == 0)
			rc = write_bare(k, &inc, stored, &r->write_seconds, err);
	}
	kedge__rex_increment_done(&inc);
	return rc;
}

static int check(const struct kedge__rex_keeper *k, const uint8_t *image, struct kedge__error *err)
{
	const struct kedge__rex_moment *last = kedge__rex_series_at(k->series, k->series->steps - 1);

	for (size_t i = 0; i < last->places.count; i++)
		if (last->places.words[KEDGE__PAGES_HEAD + i] != KEDGE__PAGES_FREE &&
		    memcmp(image + i * KEDGE__PAGE_BYTES, last->data + i * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES) != 0)
			return kedge__error_set(
			    err, KEDGE_E_INTERNAL, 0, "%s gives page 0x%llx of %s back wrong", k->method->name,
			    (unsigned long long)last->places.words[KEDGE__PAGES_HEAD + i], k->series->name);
	return 0;
}

static int restore_once(struct kedge__rex_keeper *k, enum kedge__rex_place place, uint8_t *memory, double *seconds,
			double *processor, struct kedge__error *err)
{
	double start, start_processor;
	int rc;

	kedge__bench_memory_fetch(2 * k->series->room * KEDGE__PAGE_BYTES, 1);
	memset(memory, 0xA5, k->series->room * KEDGE__PAGE_BYTES);
	kedge__bucket_init(&k->reads, kedge__rex_rates[place], (double)READ_AHEAD);
	k->reads.level = 0;
	start = kedge__clock_seconds();
	start_processor = processor_seconds();
	rc = k->method->restore(k, memory, err);
	*processor = processor_seconds() - start_processor;
	*seconds = kedge__clock_seconds() - start;
	return rc ? rc : check(k, memory, err);
}

static int restore_turn(struct kedge__rex_run *run, struct kedge__rex_keeper *k, enum kedge__rex_place place,
			uint8_t *memory, struct kedge__rex_result *r, struct kedge__error *err)
{
	struct kedge__rex_times *t = &r->times[place];
	double processor;
	int rc;

	if (place != KEDGE__REX_STORAGE)
		kedge__bench_fetch(k->dir);
	else if (!kedge__bench_forget(k->dir))
		run->stays = true;
	rc = restore_once(k, place, memory, &t->at[t->turns], &processor, err);
	if (rc)
		return rc;
	if (place == KEDGE__REX_CACHE && (t->turns == 0 || processor < r->processor))
		r->processor = processor;
	if (kedge__rex_rates[place] >
	    0) /* without a rate, what the page cache has may be taken from there, past the bucket */
		r->read = (uint64_t)k->reads.taken;
	t->spent += t->at[t->turns++];
	return 0;
}

/* ---- one way on one series */

struct ways { /* at work on a series */
	struct kedge__rex_run *run;
	const struct kedge__rex_series *series;
	struct kedge__rex_keeper *keepers; /* one a method */
	struct kedge__rex_result *results;
	uint8_t *memory; /* that restores fill */
};

static int keep_once(struct kedge__rex_keeper *k, struct kedge__rex_result *r, struct kedge__error *err)
{
	int rc = kedge__fs_mkdirs(k->dir, err);

	if (rc == 0)
		rc = k->method->begin(k, err);
	for (size_t step = 0; rc == 0 && step < k->series->steps; step++)
		rc = keep_step(k, step, r, err);
	return rc;
}

static void forget(struct kedge__rex_keeper *k)
{
	k->method->end(k);
	k->state = NULL;
	kedge__bench_dir_remove(k->dir);
}

/* From nothing each time. The least counts: the first has to do with memory that the machine never had in use. */
static int keep(struct kedge__rex_keeper *k, size_t repeat, struct kedge__rex_result *r, struct kedge__error *err)
{
	const struct kedge__rex_moment *last = kedge__rex_series_at(k->series, k->series->steps - 1);
	double spent = 0;
	int rc = 0;

	for (size_t turn = 0; rc == 0 && turn < repeat && spent < ENOUGH; turn++) {
		struct kedge__rex_result one = {.there = true};

		if (turn)
			forget(k);
		rc = keep_once(k, &one, err);
		spent += one.pack_seconds;
		if (!turn || one.pack_seconds - one.write_seconds < r->pack_seconds - r->write_seconds)
			*r = one;
	}
	for (size_t i = 0; i < last->places.count; i++)
		r->live_raw += last->places.words[KEDGE__PAGES_HEAD + i] == KEDGE__PAGES_FREE ? 0 : KEDGE__PAGE_BYTES;
	return rc;
}

/* ---- all ways */

/* In thousandths of a series: half of it is to keep, half to restore. */
static void advance(struct ways *w, double part)
{
	kedge__bar_update(&w->run->bar, w->run->done * 1000 + (uint64_t)(part * 1000), w->run->total * 1000);
}

static int keep_all(struct ways *w, struct kedge__error *err)
{
	int rc = 0;

	for (size_t m = 0; rc == 0 && m < kedge__rex_method_count; m++) {
		if (!w->run->wanted[m])
			continue;
		kedge__bar_label(&w->run->bar, kedge__rex_methods[m].name);
		rc = keep(&w->keepers[m], w->run->repeat, &w->results[m], err);
		advance(w, 0.5 * (double)(m + 1) / (double)kedge__rex_method_count);
	}
	return rc;
}

static int restore_all(struct ways *w, enum kedge__rex_place place, size_t turn, struct kedge__error *err)
{
	int rc = 0;

	for (size_t m = 0; rc == 0 && m < kedge__rex_method_count; m++) {
		const struct kedge__rex_times *t = &w->results[m].times[place];

		if (!w->run->wanted[m] || t->turns < turn || (turn && t->spent > ENOUGH))
			continue;
		kedge__bar_label(&w->run->bar, kedge__rex_methods[m].name);
		rc = restore_turn(w->run, &w->keepers[m], place, w->memory, &w->results[m], err);
	}
	return rc;
}

static int run_all(struct ways *w, struct kedge__error *err)
{
	size_t all = w->run->repeat * KEDGE__REX_PLACES;
	int rc = keep_all(w, err);

	for (size_t i = 0; rc == 0 && i < all; i++) {
		rc = restore_all(w, (enum kedge__rex_place)(i % KEDGE__REX_PLACES), i / KEDGE__REX_PLACES, err);
		advance(w, 0.5 + 0.5 * (double)(i + 1) / (double)all);
	}
	w->run->done++;
	return rc;
}

static void keepers_init(struct ways *w, const char *dir)
{
	for (size_t m = 0; m < kedge__rex_method_count; m++) {
		char *own = kedge__asprintf("%s/%zu", dir, m);

		if (!own)
			kedge__tool_no_memory();
		w->keepers[m] = (struct kedge__rex_keeper){.method = &kedge__rex_methods[m],
							   .series = w->series,
							   .dir = own,
							   .codec = w->run->codec,
							   .block = w->run->block,
							   .chunk = w->run->chunk,
							   .rate = w->run->rate,
							   .pool = w->run->pool};
	}
}

static void keepers_done(struct ways *w)
{
	for (size_t m = 0; m < kedge__rex_method_count; m++) {
		forget(&w->keepers[m]);
		kedge__free((char *)w->keepers[m].dir);
	}
}

int kedge__rex_measure(struct kedge__rex_run *run, const struct kedge__rex_series *series, const char *dir,
		       struct kedge__rex_image *image, struct kedge__error *err)
{
	size_t bytes = series->room * KEDGE__PAGE_BYTES;
	struct ways w = {.run = run, .series = series, .results = image->results, .memory = kedge__map_alloc(bytes)};
	int rc;

	w.keepers = kedge__calloc(kedge__rex_method_count, sizeof(*w.keepers));
	if (!w.memory || !w.keepers)
		kedge__tool_no_memory();
	keepers_init(&w, dir);
	rc = run_all(&w, err);
	keepers_done(&w);
	image->changed =
	    (double)image->results[0].raw / (double)KEDGE__PAGE_BYTES / (double)((series->count - 1) * series->room);
	kedge__map_free(w.memory, bytes);
	kedge__free(w.keepers);
	return rc;
}
