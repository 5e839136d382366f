/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same through a job: how long kedge_checkpoint() takes, all pages to be saved or one in so many, and what a loop
 * that writes meanwhile loses. Everything that a checkpoint does besides is in it: the catalogue, agreement, the audit.
 */
#include "capture.h"

#include <stdlib.h>
#include <unistd.h>

struct variant {
	const char *who, *capture, *track;
	bool sparse; /* tracked: also with few pages dirty */
	bool saves;  /* in the background */
};

static const struct variant variants[] = {
    {"job, sync", "capture=sync", "track=none", false, false},
    {"job, copy", "capture=copy", "track=none", false, true},
    {"job, copy + uffd", "capture=copy", "track=uffd", true, true},
    {"job, cow", "capture=cow-user", "track=none", false, true},
    {"job, cow + uffd", "capture=cow-user", "track=uffd", true, true},
};

struct place {
	kedge_t *k;
	char *dir;
	uint64_t version;
};

/* What is stored is packed well: storage is not what is measured. */
static int place_open(struct kedge__capture_bench *b, const struct variant *v, struct place *p,
		      struct kedge__error *err)
{
	const char *tmp = getenv("TMPDIR");
	char l1[4200], threads[64], reducer[64];
	const char *settings[] = {l1,        v->capture, v->track, reducer,          "codec=lz4",
				  "sync=no", "keep=1",   threads,  "copy_memory=1T", NULL};
	int rc;

	*p = (struct place){0};
	rc = kedge__bench_dir_make(tmp && tmp[0] ? tmp : "/tmp", &p->dir, err);
	if (rc)
		return rc;
	snprintf(l1, sizeof(l1), "l1=%s", p->dir);
	snprintf(reducer, sizeof(reducer), "reducer=%s", b->reducer);
	snprintf(threads, sizeof(threads), "threads=%llu", (unsigned long long)b->threads);
	if (kedge_open("bench", NULL, settings, &p->k) || kedge_protect(p->k, "data", b->data, b->size, KEDGE_U8))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "%s", kedge_last_error(p->k));
	return 0;
}

static int place_close(struct place *p, int rc, struct kedge__error *err)
{
	if (kedge_close(p->k) && !rc)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "%s", kedge_last_error(NULL));
	if (p->dir)
		kedge__bench_dir_remove(p->dir);
	kedge__free(p->dir);
	return rc;
}

static void note(struct kedge__capture_bench *b, const struct variant *v, const char *what, double percent,
		 double seconds, double against)
{
	struct kedge__capture_row row = {.pages = b->pages,
					 .who = v->who,
					 .what = what,
					 .pattern = percent >= 0 ? percent < 100 ? "random" : "all" : "",
					 .percent = percent,
					 .count = b->size / b->page};

	kedge__capture_note(b, row, seconds, seconds / against);
}

/* One version, beside which SWEEP (or nothing) runs until the version is complete. *BLOCKED: in the call. */
static int version_take(struct kedge__capture_bench *b, struct place *p, double *blocked, double *sweep,
			struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = kedge_checkpoint(p->k, ++p->version);

	*blocked = kedge__clock_seconds() - start;
	if (!rc && sweep)
		*sweep = kedge__capture_sweep(b);
	if (!rc)
		rc = kedge_wait(p->k);
	return rc ? kedge__error_set(err, rc, 0, "%s", kedge_last_error(p->k)) : 0;
}

static void write_one_in(struct kedge__capture_bench *b, uint64_t many)
{
	uint64_t pages = b->size / b->page;

	for (uint64_t at = 0; at + many <= pages; at += many)
		b->data[(at + kedge__capture_random(b) % many) * b->page]++;
}

/* The first one, which has everything and begins to watch; then with few pages written. */
static int measure_few(struct kedge__capture_bench *b, const struct variant *v, struct place *p,
		       struct kedge__error *err)
{
	static const uint64_t many[] = {10000, 1000, 100, 10};
	double blocked;
	int rc;

	kedge__capture_memcpy(b);
	rc = version_take(b, p, &blocked, NULL, err);
	if (!rc)
		note(b, v, "first checkpoint", 100, blocked, b->memcpy_seconds);
	for (size_t i = 0; !rc && i < KEDGE__COUNT(many); i++) {
		write_one_in(b, many[i]);
		kedge__capture_memcpy(b);
		rc = version_take(b, p, &blocked, NULL, err);
		if (!rc)
			note(b, v, "checkpoint", 100.0 / (double)many[i], blocked, b->memcpy_seconds);
	}
	return rc;
}

/* All pages, version after version: what is watched is taken from the tracker by the first, and soon not watched any
 * more.
 */
static int measure_all(struct kedge__capture_bench *b, const struct variant *v, struct place *p,
		       struct kedge__error *err)
{
	double blocked = 0, alone = 1, beside = 0;
	int rc = 0;

	for (int turn = 0; turn < 3 && !rc; turn++) {
		write_one_in(b, 1);
		kedge__capture_memcpy(b);
		alone = kedge__capture_sweep(b);
		rc = version_take(b, p, &blocked, &beside, err);
		if (!rc && v->sparse && turn == 0)
			note(b, v, "checkpoint, watched", 100, blocked, b->memcpy_seconds);
	}
	if (rc)
		return rc;
	note(b, v, "checkpoint", 100, blocked, b->memcpy_seconds);
	if (v->saves)
		note(b, v, "sweep beside the save", -1, beside, alone);
	return 0;
}

int kedge__capture_job(struct kedge__capture_bench *b, struct kedge__error *err)
{
	bool kernel_writes;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(variants); i++) {
		const struct variant *v = &variants[i];
		struct place p;

		if ((strstr(v->capture, "cow") && kedge__cow_probe(&kernel_writes, NULL) != 0) ||
		    (v->sparse && kedge__tracker_probe("uffd", NULL) != 0))
			continue;
		rc = place_open(b, v, &p, err);
		if (rc == 0 && v->sparse)
			rc = measure_few(b, v, &p, err);
		if (rc == 0)
			rc = measure_all(b, v, &p, err);
		rc = place_close(&p, rc, err);
	}
	return rc;
}
