/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Periods are counted from the newest version down: the first that is met in an hour is the newest of that hour, and
 * hours without a version are not counted. This is what `restic forget --keep-hourly` and its relatives do, and the
 * tests compare the two.
 *
 * Bytes are counted with what a version needs: an old version whose bytes newer ones refer to is not free because it
 * is not asked for.
 */
#include "store/internal.h"

#include <stdio.h>

static const char *const words[] = {"hourly", "daily", "weekly", "monthly", "yearly"};

/* ------------------------------------------------------------------ as text */

bool kedge__keep_by_time(const struct kedge__keep *k)
{
	bool any = false;

	for (int p = 0; p < KEDGE__PERIODS; p++)
		any = any || k->periods[p];
	return any;
}

bool kedge__keep_everything(const struct kedge__keep *k)
{
	return !k->last && !k->bytes && !kedge__keep_by_time(k);
}

size_t kedge__keep_recent(const struct kedge__keep *k)
{
	if (k->last)
		return (size_t)KEDGE__MIN(k->last, (uint64_t)KEDGE__KEEP_MANY);
	if (kedge__keep_by_time(k))
		return 1;
	return k->bytes ? KEDGE__KEEP_MANY : 0;
}

static int wrong(const char *word, size_t n, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_CONFIG, 0,
				"'%.*s' does not say which versions to keep: a number of versions, hourly:N, daily:N, "
				"weekly:N, monthly:N, yearly:N or bytes:SIZE, with blanks or commas between them",
				(int)n, word);
}

static bool number_of(const char *text, uint64_t *out)
{
	uint64_t n = 0;

	if (!*text || strlen(text) > 10 || strspn(text, "0123456789") != strlen(text))
		return false;
	for (; *text; text++)
		n = n * 10 + (uint64_t)(*text - '0');
	*out = n;
	return n <= 1000000000;
}

/* Where the number behind NAME goes; NULL: there is no such word. */
static uint64_t *field_of(struct kedge__keep *k, const char *name, size_t n)
{
	if (n == 4 && memcmp(name, "last", 4) == 0)
		return &k->last;
	if (n == 5 && memcmp(name, "bytes", 5) == 0)
		return &k->bytes;
	for (int p = 0; p < KEDGE__PERIODS; p++)
		if (strlen(words[p]) == n && memcmp(words[p], name, n) == 0)
			return &k->periods[p];
	return NULL;
}

static bool word_parse(const char *word, size_t n, struct kedge__keep *k)
{
	const char *colon = memchr(word, ':', n), *number = colon ? colon + 1 : word;
	uint64_t *field = colon ? field_of(k, word, (size_t)(colon - word)) : &k->last;
	char text[32];
	size_t digits = n - (size_t)(number - word);

	if (!field || digits >= sizeof(text))
		return false;
	memcpy(text, number, digits);
	text[digits] = '\0';
	return field == &k->bytes ? kedge__size_parse(text, field) == 0 : number_of(text, field);
}

int kedge__keep_parse(const char *text, struct kedge__keep *k, struct kedge__error *err)
{
	struct kedge__keep got = {0};

	while (*(text += strspn(text, " ,\t"))) {
		size_t n = strcspn(text, " ,\t");

		if (!word_parse(text, n, &got))
			return wrong(text, n, err);
		text += n;
	}
	*k = got;
	return 0;
}

static void put(char text[KEDGE__KEEP_ROOM], const char *word, uint64_t n)
{
	size_t used = strlen(text);

	if (n)
		snprintf(text + used, KEDGE__KEEP_ROOM - used, "%s%s%s%llu", used ? " " : "", word, *word ? ":" : "",
			 (unsigned long long)n);
}

char *kedge__keep_text(const struct kedge__keep *k, char text[KEDGE__KEEP_ROOM])
{
	text[0] = '\0';
	put(text, "", k->last);
	for (int p = 0; p < KEDGE__PERIODS; p++)
		put(text, words[p], k->periods[p]);
	put(text, "bytes", k->bytes);
	return text;
}

/* ------------------------------------------------------------------ hours, days, weeks, months, years */

#define SECONDS_OF_DAY INT64_C(86400)

/* Months since 1970, of DAYS since then: eras of 400 years that begin in March, so that leap days come last. */
static int64_t month_of(int64_t days)
{
	int64_t from_march = days + 719468; /* since 1 March of the year 0 */
	int64_t era = from_march / 146097, day = from_march % 146097;
	int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	int64_t of_year = day - (365 * year + year / 4 - year / 100);

	return (era * 400 + year) * 12 + (5 * of_year + 2) / 153 + 2 - INT64_C(1970) * 12;
}

static int64_t period_of(enum kedge__keep_period p, uint64_t time_ns)
{
	int64_t seconds = (int64_t)(time_ns / UINT64_C(1000000000)), days = seconds / SECONDS_OF_DAY;

	switch (p) {
	case KEDGE__HOURLY:
		return seconds / 3600;
	case KEDGE__DAILY:
		return days;
	case KEDGE__WEEKLY:
		return (days + 3) / 7; /* 1 January 1970 was a Thursday */
	case KEDGE__MONTHLY:
		return month_of(days);
	default:
		return month_of(days) / 12;
	}
}

/* ------------------------------------------------------------------ the choice */

struct choice {
	uint64_t last;
	uint64_t left[KEDGE__PERIODS];
	int64_t met[KEDGE__PERIODS]; /* the period that was met last */
	bool all;                    /* nothing but bytes is asked for */
};

static bool is_open(const struct choice *c)
{
	bool open = c->all || c->last;

	for (int p = 0; p < KEDGE__PERIODS; p++)
		open = open || c->left[p];
	return open;
}

static unsigned take(struct choice *c, const struct kedge__keep_item *v)
{
	unsigned why = c->all ? KEDGE__STAYS_FITS : 0;

	if (v->unfit)
		return is_open(c) ? KEDGE__STAYS_UNFIT : 0;
	if (c->last) {
		c->last--;
		why |= KEDGE__STAYS_LAST;
	}
	for (int p = 0; p < KEDGE__PERIODS; p++) {
		int64_t period = period_of((enum kedge__keep_period)p, v->time_ns);

		if (!c->left[p] || period == c->met[p])
			continue;
		c->met[p] = period;
		c->left[p]--;
		why |= KEDGE__STAYS_HOURLY << p;
	}
	return why;
}

static struct kedge__keep_item *item_find(struct kedge__keep_item *items, size_t below, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, below, items[i].version < version);
	return i < below && items[i].version == version ? &items[i] : NULL;
}

/* Of item TOP and all that it needs, as far as they are not counted yet; they are marked with TOP + 1. */
static uint64_t bytes_more(struct kedge__keep_item *items, size_t top)
{
	uint64_t bytes = 0;

	items[top].mark = top + 1;
	for (size_t i = top + 1; i-- > 0;) {
		if (items[i].mark != top + 1)
			continue;
		bytes += items[i].counted ? 0 : items[i].bytes;
		for (size_t n = 0; n < items[i].need_count; n++) {
			struct kedge__keep_item *need = item_find(items, i, items[i].needs[n]);

			if (need)
				need->mark = top + 1;
		}
	}
	return bytes;
}

static void count_marked(struct kedge__keep_item *items, size_t top)
{
	for (size_t i = 0; i <= top; i++)
		items[i].counted = items[i].counted || items[i].mark == top + 1;
}

/* What has a label takes room first; of the others the oldest go, and the newest that counts never does. */
static void fit(struct kedge__keep_item *items, size_t count, uint64_t room)
{
	uint64_t used = 0;
	bool full = false, any = false;

	for (size_t i = 0; i < count; i++) {
		if (!(items[i].why & KEDGE__STAYS_LABEL))
			continue;
		used += bytes_more(items, i);
		count_marked(items, i);
	}
	for (size_t i = count; i-- > 0;) {
		struct kedge__keep_item *v = &items[i];
		uint64_t more = v->why ? bytes_more(items, i) : 0;

		if (v->why & KEDGE__STAYS_LABEL)
			any = any || !v->unfit;
		if (!v->why || v->why & KEDGE__STAYS_LABEL)
			continue;
		full = full || (any && used + more > room);
		if (full) {
			v->over = v->why;
			v->why = 0;
			continue;
		}
		any = any || !v->unfit;
		used += more;
		count_marked(items, i);
	}
}

void kedge__keep_choose(const struct kedge__keep *k, struct kedge__keep_item *items, size_t count)
{
	struct choice c = {.last = k->last, .all = !k->last && !kedge__keep_by_time(k)};

	for (int p = 0; p < KEDGE__PERIODS; p++) {
		c.left[p] = k->periods[p];
		c.met[p] = INT64_MIN;
	}
	for (size_t i = count; i-- > 0;) {
		struct kedge__keep_item *v = &items[i];

		v->mark = 0;
		v->counted = false;
		v->over = 0;
		v->why = v->outside ? 0 : take(&c, v);
		if (v->labelled && !v->outside)
			v->why |= KEDGE__STAYS_LABEL;
		if (v->why & KEDGE__STAYS_FITS && !k->bytes)
			v->why = (v->why & ~(unsigned)KEDGE__STAYS_FITS) | KEDGE__STAYS_ALWAYS;
	}
	if (k->bytes)
		fit(items, count, k->bytes);
}

/* ------------------------------------------------------------------ in words */

static void say(struct kedge__bytes *out, const char *text)
{
	size_t n = strlen(text), gap = out->count ? 2 : 0;

	if (!kedge__array_reserve(out, out->count + gap + n + 1))
		return;
	memcpy(out->at + out->count, ", ", gap);
	memcpy(out->at + out->count + gap, text, n + 1);
	out->count += gap + n;
}

void kedge__keep_why(const struct kedge__keep_item *item, struct kedge__bytes *out)
{
	static const char *const because[] = {"last",
					      "hourly",
					      "daily",
					      "weekly",
					      "monthly",
					      "yearly",
					      "there is room",
					      "label",
					      "damaged or incomplete, and not counted",
					      "everything is kept"};
	unsigned why = item->why ? item->why : item->over;

	out->count = 0;
	for (size_t i = 0; i < KEDGE__COUNT(because); i++)
		if (why & (1u << i))
			say(out, because[i]);
	if (!why)
		say(out, item->outside ? "abandoned by a later run" : "nothing asks for it");
	else if (!item->why)
		say(out, "but there is no room");
}
