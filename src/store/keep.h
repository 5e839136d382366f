/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keep: which versions of a job stay, as people say it: "3", "2 hourly:24 daily:7 weekly:4", "bytes:100G". A pure function over
 * number, time, size and labels; the running job, gc and all that list versions ask it. Included by store/store.h.
 */
#ifndef KEDGE_STORE_KEEP_H
#define KEDGE_STORE_KEEP_H

#include "format/format.h"

enum kedge__keep_period { KEDGE__HOURLY, KEDGE__DAILY, KEDGE__WEEKLY, KEDGE__MONTHLY, KEDGE__YEARLY, KEDGE__PERIODS };

#define KEDGE__KEEP_ROOM KEDGE__KEEP_MAX /* bytes that a rule takes as text, at most */

struct kedge__keep { /* all zero: everything stays */
	uint64_t last;                     /* the newest so many */
	uint64_t periods[KEDGE__PERIODS];  /* the newest of each hour, day, ...; of so many that have one */
	uint64_t bytes;                    /* of those only as many as fit, with what they need; 0: no limit */
};

/* Numbers with or without a word before them, with blanks or commas between: KEDGE_E_CONFIG says what is wrong. */
int kedge__keep_parse(const char *text, struct kedge__keep *k, struct kedge__error *err);
char *kedge__keep_text(const struct kedge__keep *k, char text[KEDGE__KEEP_ROOM]); /* as it is parsed; "" for everything */
bool kedge__keep_everything(const struct kedge__keep *k);
bool kedge__keep_by_time(const struct kedge__keep *k);
#define KEDGE__KEEP_MANY ((size_t)1 << 30) /* as many as fit */

/* How many of the newest versions stay whatever their times are; 0: all. */
size_t kedge__keep_recent(const struct kedge__keep *k);

enum { /* why a version stays, as bits; those of the periods follow each other */
	KEDGE__STAYS_LAST = 1,
	KEDGE__STAYS_HOURLY = 2,
	KEDGE__STAYS_DAILY = 4,
	KEDGE__STAYS_WEEKLY = 8,
	KEDGE__STAYS_MONTHLY = 16,
	KEDGE__STAYS_YEARLY = 32,
	KEDGE__STAYS_FITS = 64,   /* there is room for it, and nothing else is asked for */
	KEDGE__STAYS_LABEL = 128,
	KEDGE__STAYS_UNFIT = 256, /* it does not count, and may be the only trace of some data */
	KEDGE__STAYS_ALWAYS = 512, /* everything does */
};

struct kedge__keep_item {
	uint64_t version, time_ns, bytes;
	const uint64_t *needs; /* versions that it refers to */
	size_t need_count;
	bool labelled;
	bool unfit;    /* cannot be restored: not counted, and not removed in favour of newer ones that do not count either */
	bool outside;  /* abandoned: goes */
	unsigned why;  /* answer: KEDGE__STAYS_ bits; 0: it goes */
	unsigned over; /* answer: bits that it would have if there were room */
	size_t mark;   /* of the function */
	bool counted;
};

/* ITEMS ascend by version. Days and hours are those of UTC, so that all nodes agree; weeks begin on Monday. */
void kedge__keep_choose(const struct kedge__keep *k, struct kedge__keep_item *items, size_t count);
/* "last, hourly", or "nothing asks for it". */
void kedge__keep_why(const struct kedge__keep_item *item, struct kedge__bytes *out);

#endif
