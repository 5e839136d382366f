/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of `kedge-bench rex`: the moments of a process's memory, the ways to keep them, and what is measured of each.
 *
 * The unit of comparison is the increment: the pages of a moment that are not as they were in the moment before, found by
 * comparing bytes, and the place of each in the image (of the first moment: all pages). Every way gets the same
 * increments and is judged by all bytes that it puts into files, its own metadata among them.
 */
#ifndef KEDGE_BENCH_REX_H
#define KEDGE_BENCH_REX_H

#include "bench.h"
#include "tool_pages.h"

/* ------------------------------------------------------------------ rex_series.c */

struct kedge__rex_moment {
	struct kedge__page_places places;
	uint8_t *data; /* places.count pages */
};

struct kedge__rex_series {
	char *name;
	struct kedge__rex_moment *moments;
	size_t count;
	size_t room;  /* places of the largest */
	size_t steps; /* of the chain that is restored: the base, and at least eight increments */
};

enum { KEDGE__REX_INCREMENTS = 8 };

/* The series NAME.idx/NAME.pages in DIR, in the order of their names. */
int kedge__rex_series_load(const char *dir, struct kedge__rex_series *series, struct kedge__error *err);
/* One made up, whose first moment has BYTES bytes, some pages at least. KIND: "mixed", doubles that drift, tables that stay, records of which a few fields change; or words that are
 * all different, of which four pages of five change each time: "words", some words of a page; "inserts", an element that
 * moves those behind it in the page; "pages", all of the page, to what another one had; "new", all of it, to what is new. */
int kedge__rex_series_generate(const char *kind, uint64_t bytes, struct kedge__rex_series *series, struct kedge__error *err);
void kedge__rex_series_done(struct kedge__rex_series *series);
/* The moment of step STEP of the chain: forth through the series, and back and forth again for as long as needed. */
const struct kedge__rex_moment *kedge__rex_series_at(const struct kedge__rex_series *series, size_t step);

/* An increment as a plain file: the number of its pages, their places, and their data. */
struct kedge__rex_increment {
	size_t pages, bytes; /* bytes: of the file */
	uint8_t *file;       /* u64 count, u64 place * count, data */
};

void kedge__rex_increment_make(const struct kedge__rex_series *series, size_t step, struct kedge__rex_increment *out);
void kedge__rex_increment_done(struct kedge__rex_increment *inc);
/* Put the pages of the file to their places; KEDGE_E_DAMAGED if it is none, or has a place beyond ROOM. */
int kedge__rex_increment_apply(const uint8_t *file, size_t bytes, uint8_t *image, size_t room,
			       struct kedge__error *err);

/* ------------------------------------------------------------------ the ways */

struct kedge__rex_keeper { /* one way at work on one series */
	const struct kedge__rex_method *method;
	const struct kedge__rex_series *series;
	const char *dir; /* of its own */
	const char *codec, *block, *chunk; /* chunk: of tree */
	double rate; /* bytes a second that the codec has to keep up with */
	struct kedge__pool *pool; /* for restore */
	struct kedge__bucket reads; /* all that a restore reads of files takes its bytes from it */
	void *state;
};

struct kedge__rex_method {
	const char *name;
	const char *reducer; /* of a store */
	bool packed;         /* with a codec */
	bool (*there)(void);
	int (*begin)(struct kedge__rex_keeper *k, struct kedge__error *err);
	/* What is not measured: the application's own work between two checkpoints. */
	int (*prepare)(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
		       struct kedge__error *err);
	int (*keep)(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
		    struct kedge__error *err);
	/* The image after the last step into IMAGE. */
	int (*restore)(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
	void (*end)(struct kedge__rex_keeper *k); /* takes one that did not begin */
	const char *missing;                      /* what to say where it is not there */
};

extern const struct kedge__rex_method kedge__rex_methods[];
extern const size_t kedge__rex_method_count;
size_t kedge__rex_method_find(const char *name, bool packed);

bool kedge__rex_there(void);       /* always */
int kedge__rex_nothing(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
		       struct kedge__error *err);
char *kedge__rex_path(const struct kedge__rex_keeper *k, const char *what, size_t step); /* "DIR/what.step" */
int kedge__rex_write(const char *path, const void *data, size_t bytes, struct kedge__error *err);
/* All of a file, its bytes taken from BUCKET, which may be NULL. *DATA: kedge__free(). */
int kedge__rex_read(const char *path, struct kedge__bucket *bucket, uint8_t **data, size_t *bytes,
		    struct kedge__error *err);

/* rex_files.c: plain increments, blocks with hashes, general compressors over the increment. */
int kedge__rex_plain_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err);
int kedge__rex_plain_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
int kedge__rex_checked_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			    struct kedge__error *err);
int kedge__rex_checked_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
int kedge__rex_hash_begin(struct kedge__rex_keeper *k, struct kedge__error *err);
int kedge__rex_hash_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			 struct kedge__error *err);
int kedge__rex_hash_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
void kedge__rex_hash_end(struct kedge__rex_keeper *k);
int kedge__rex_zstd_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			 struct kedge__error *err);
int kedge__rex_zstd_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
int kedge__rex_bzip2_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err);
int kedge__rex_bzip2_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);

/* optional/bzip2.c, or bzip2_absent.c: 0, or a negative code of the library. *USED is the room at first. */
bool kedge__bzip2_there(void);
int kedge__bzip2_pack(const void *raw, size_t bytes, void *out, size_t *used);
int kedge__bzip2_unpack(const void *in, size_t bytes, void *raw, size_t *used);

/* rex_xdelta.c: the command xdelta3, with the image before as its source. */
bool kedge__rex_xdelta_there(void);
int kedge__rex_xdelta_prepare(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			      struct kedge__error *err);
int kedge__rex_xdelta_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			   struct kedge__error *err);
int kedge__rex_xdelta_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);

/* rex_store.c: versions of a store, as a job makes them. */
int kedge__rex_store_begin(struct kedge__rex_keeper *k, struct kedge__error *err);
int kedge__rex_store_prepare(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			     struct kedge__error *err);
int kedge__rex_store_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err);
int kedge__rex_store_coalesce(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			      struct kedge__error *err); /* the same, and the last one becomes self-contained */
int kedge__rex_store_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err);
void kedge__rex_store_end(struct kedge__rex_keeper *k);

/* ------------------------------------------------------------------ what is measured */

enum { KEDGE__REX_TURNS = 32 };

/* Where a restore reads from. */
enum kedge__rex_place {
	KEDGE__REX_STORAGE, /* files that the page cache has not */
	KEDGE__REX_SSD,     /* files in the page cache, at a rate that a bucket sees to */
	KEDGE__REX_HDD,
	KEDGE__REX_CACHE, /* files in the page cache */
	KEDGE__REX_PLACES,
};

/* Bytes a second; 0: as fast as it goes. The rates are those of the disks of the paper on REX (section 6.4.1). */
extern const double kedge__rex_rates[KEDGE__REX_PLACES];

struct kedge__rex_times { /* seconds of restores, in the order in which they were made */
	double at[KEDGE__REX_TURNS];
	size_t turns;
	double spent; /* all together */
};

struct kedge__rex_result {
	bool there;
	uint64_t stored_base, stored;     /* files of the base; of the increments of the series, not of those that repeat it */
	uint64_t raw_base, raw;           /* pages that they hold */
	double pack_seconds;              /* processor time for them all, in the turn that took the least, */
	double write_seconds;             /* and for the bare write of as many bytes as were stored, which is part of it */
	uint64_t chain_raw, live_raw;     /* of the chain that is restored: bytes of pages in it, and in the image at its end */
	uint64_t read;                    /* bytes of files that a restore reads */
	struct kedge__rex_times times[KEDGE__REX_PLACES];
	double processor;                 /* seconds, the least of a restore from the page cache */
};

struct kedge__rex_image { /* a series with what was measured on it */
	char *name;
	size_t moments, steps, pages;
	double changed; /* part of the pages that an increment holds, on the average */
	struct kedge__rex_result *results;
};

struct kedge__rex_run {
	const char *codec, *block, *chunk;
	double rate;
	uint64_t repeat;
	struct kedge__pool *pool;
	bool *wanted;    /* one a method */
	bool stays;      /* files could not be dropped from the page cache */
	struct kedge__bar bar;
	uint64_t done, total; /* for the bar */
};

/* rex_measure.c: all ways on one series, their restores taking turns. */
int kedge__rex_measure(struct kedge__rex_run *run, const struct kedge__rex_series *series, const char *dir,
		       struct kedge__rex_image *image, struct kedge__error *err);

/* rex_report.c */
struct kedge__rex_report {
	const struct kedge__rex_image *images;
	size_t count;
	int threads;
	bool stays; /* as above */
};

void kedge__rex_report_text(const struct kedge__rex_report *report);
void kedge__rex_report_json(const struct kedge__rex_report *report);

#endif
