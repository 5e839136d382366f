/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rex_series: the moments of a process, and the increments between them. */
#include "rex.h"

#include <libgen.h>
#include <math.h>

/* ---- from files */

static bool is_index(const char *name)
{
	char *data = kedge__page_data_path(name);

	kedge__free(data);
	return data != NULL;
}

static int load_moment(struct kedge__rex_series *s, const char *path, struct kedge__error *err)
{
	static const struct kedge__page_places none;
	struct kedge__rex_moment *m = &s->moments[s->count];
	struct kedge__page_image image = {0};
	int rc = kedge__page_image_open(&image, path, NULL, err);

	if (rc == 0) {
		kedge__page_places_next(s->count ? &m[-1].places : &none, &image, &m->places);
		rc = kedge__page_places_fill(&m->places, &image, &m->data, err);
	}
	if (rc == 0) {
		s->room = KEDGE__MAX(s->room, m->places.count);
		s->count++;
	}
	kedge__page_image_close(&image);
	return rc;
}

static void set_steps(struct kedge__rex_series *s)
{
	s->steps = KEDGE__MAX(s->count, (size_t)KEDGE__REX_INCREMENTS + 1);
}

static int load_all(struct kedge__rex_series *s, const char *dir, char *const *names, size_t n,
		    struct kedge__error *err)
{
	int rc = 0;

	s->moments = kedge__calloc(n + 1, sizeof(*s->moments));
	if (!s->moments)
		kedge__tool_no_memory();
	for (size_t i = 0; rc == 0 && i < n; i++) {
		char *path = kedge__asprintf("%s/%s", dir, names[i]);

		if (!path)
			kedge__tool_no_memory();
		if (is_index(names[i]))
			rc = load_moment(s, path, err);
		kedge__free(path);
	}
	if (rc == 0 && s->count < 2)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s has %zu page images: it takes two at least", dir,
				      s->count);
	return rc;
}

int kedge__rex_series_load(const char *dir, struct kedge__rex_series *series, struct kedge__error *err)
{
	char **names, *copy = kedge__strdup(dir);
	size_t n;
	int rc;

	series->name = copy ? kedge__strdup(basename(copy)) : NULL;
	kedge__free(copy);
	if (!series->name)
		kedge__tool_no_memory();
	rc = kedge__fs_list(dir, &names, &n, err);
	if (rc)
		return rc;
	rc = load_all(series, dir, names, n, err);
	kedge__fs_list_free(names, n);
	set_steps(series);
	return rc;
}

void kedge__rex_series_done(struct kedge__rex_series *s)
{
	for (size_t i = 0; i < s->count; i++) {
		kedge__map_free(s->moments[i].data, s->moments[i].places.count * KEDGE__PAGE_BYTES);
		kedge__page_places_done(&s->moments[i].places);
	}
	kedge__free(s->moments);
	kedge__free(s->name);
	*s = (struct kedge__rex_series){0};
}

/* ---- made up */

enum { MADE_MOMENTS = 5, MADE_GROWTH = 32 }; /* with each moment come as many pages as the first has, divided by this */

/* A quarter each: doubles that all drift; doubles of which some drift; records with a counter; a table that stays. */
static void make_word(uint8_t *to, size_t page, size_t word, size_t moment)
{
	uint64_t seed = page * 512 + word, noise = kedge__bench_random(&seed);
	double x = (double)(page * 512 + word) * 1e-4, drift = (double)moment * 1e-3;
	double value = sin(x + (page % 4 == 0 || word % 8 == 0 ? drift : 0)) * (1 + (double)(noise >> 52) * 1e-9);
	uint64_t record = word % 16 == 3 ? moment * 977 + word : (noise & 0xffff) | word << 32;

	if (page % 4 < 2)
		memcpy(to, &value, sizeof(value));
	else
		kedge__put64(to, page % 4 == 2 && page % 8 != 6 ? record : (noise & 0xff00ff) + page);
}

/* Everything about a page of a moment is drawn from these. */
static uint64_t page_seed(size_t page, size_t moment)
{
	return page * 1000003 + moment * 7919 + 1;
}

/* Words that are all different, as they were in the first moment. */
static void make_first(uint8_t *to, size_t page)
{
	uint64_t seed = page_seed(page, 0);

	for (size_t word = 0; word < KEDGE__PAGE_BYTES / 8; word++)
		kedge__put64(to + word * 8, kedge__bench_random(&seed));
}

static void change_words(uint8_t *data, const uint8_t *before, size_t first, size_t page, uint64_t seed)
{
	(void)before;
	(void)first;
	for (int i = 0; i < 4; i++)
		kedge__put64(data + page * KEDGE__PAGE_BYTES + kedge__bench_random(&seed) % 512 * 8,
			     kedge__bench_random(&seed));
}

/* A new element of 32 or 64 bytes, which moves those behind it, as in a list that is kept in order. */
static void change_inserts(uint8_t *data, const uint8_t *before, size_t first, size_t page, uint64_t seed)
{
	uint8_t *to = data + page * KEDGE__PAGE_BYTES;
	size_t at = kedge__bench_random(&seed) % 48 * 32, bytes = 32 << kedge__bench_random(&seed) % 2;

	(void)before;
	(void)first;
	memmove(to + at + bytes, to + at, KEDGE__PAGE_BYTES - at - bytes);
	for (size_t i = 0; i < bytes; i += 8)
		kedge__put64(to + at + i, kedge__bench_random(&seed));
}

/* The page gets what another one had. */
static void change_pages(uint8_t *data, const uint8_t *before, size_t first, size_t page, uint64_t seed)
{
	memcpy(data + page * KEDGE__PAGE_BYTES, before + kedge__bench_random(&seed) % first * KEDGE__PAGE_BYTES,
	       KEDGE__PAGE_BYTES);
}

static void change_all(uint8_t *data, const uint8_t *before, size_t first, size_t page, uint64_t seed)
{
	(void)before;
	(void)first;
	for (size_t word = 0; word < KEDGE__PAGE_BYTES / 8; word++)
		kedge__put64(data + page * KEDGE__PAGE_BYTES + word * 8, kedge__bench_random(&seed));
}

static const struct kind {
	const char *name;
	/* FIRST: pages of the first moment, which all have. NULL: as make_word() says. */
	void (*change)(uint8_t *data, const uint8_t *before, size_t first, size_t page, uint64_t seed);
} kinds[] = {
    {"mixed", NULL}, {"words", change_words}, {"inserts", change_inserts}, {"pages", change_pages}, {"new", change_all},
};

/* Four pages of five change each time. */
static void make_changed(uint8_t *data, const uint8_t *before, const struct kind *kind, size_t first, size_t moment)
{
	size_t fresh = first / MADE_GROWTH, pages = first + moment * fresh;

	for (size_t page = 0; page < pages; page++) {
		uint64_t seed = page_seed(page, moment);

		if (!moment || page >= pages - fresh)
			make_first(data + page * KEDGE__PAGE_BYTES, page);
		else
			memcpy(data + page * KEDGE__PAGE_BYTES, before + page * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES);
		if (moment && page < pages - fresh && kedge__bench_random(&seed) % 5)
			kind->change(data, before, first, page, seed);
	}
}

static void make_words(uint8_t *data, size_t pages, size_t moment)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t word = 0; word < KEDGE__PAGE_BYTES / 8; word++)
			make_word(data + page * KEDGE__PAGE_BYTES + word * 8, page, word, moment);
}

static void make_moment(struct kedge__rex_moment *m, const struct kind *kind, size_t first, size_t moment)
{
	size_t pages = first + moment * (first / MADE_GROWTH);
	uint64_t *addresses = kedge__malloc(pages * sizeof(*addresses));
	struct kedge__page_image image = {.addresses = addresses, .count = pages};
	static const struct kedge__page_places none;

	m->data = kedge__map_alloc(pages * KEDGE__PAGE_BYTES);
	if (!m->data || !addresses)
		kedge__tool_no_memory();
	for (size_t page = 0; page < pages; page++)
		addresses[page] = (0x55000000 + page) * KEDGE__PAGE_BYTES;
	if (kind->change)
		make_changed(m->data, moment ? m[-1].data : NULL, kind, first, moment);
	else
		make_words(m->data, pages, moment);
	kedge__page_places_next(&none, &image, &m->places);
	kedge__free(addresses);
}

int kedge__rex_series_generate(const char *kind, uint64_t bytes, struct kedge__rex_series *s, struct kedge__error *err)
{
	size_t k = 0;

	while (k < KEDGE__COUNT(kinds) && strcmp(kinds[k].name, kind) != 0)
		k++;
	if (k == KEDGE__COUNT(kinds))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "there is no change '%s'", kind);
	s->name = k ? kedge__asprintf("generated, %s", kind) : kedge__strdup("generated");
	s->moments = kedge__calloc(MADE_MOMENTS, sizeof(*s->moments));
	if (!s->name || !s->moments)
		kedge__tool_no_memory();
	for (s->count = 0; s->count < MADE_MOMENTS; s->count++) {
		make_moment(&s->moments[s->count], &kinds[k], (size_t)(bytes / KEDGE__PAGE_BYTES), s->count);
		s->room = KEDGE__MAX(s->room, s->moments[s->count].places.count);
	}
	set_steps(s);
	return 0;
}

/* ---- the chain and its increments */

const struct kedge__rex_moment *kedge__rex_series_at(const struct kedge__rex_series *s, size_t step)
{
	size_t turn = 2 * (s->count - 1), at = step % turn;

	return &s->moments[at < s->count ? at : turn - at];
}

static bool page_changed(const struct kedge__rex_moment *before, const struct kedge__rex_moment *now, size_t place)
{
	if (now->places.words[KEDGE__PAGES_HEAD + place] == KEDGE__PAGES_FREE)
		return false;
	if (!before || place >= before->places.count ||
	    before->places.words[KEDGE__PAGES_HEAD + place] != now->places.words[KEDGE__PAGES_HEAD + place])
		return true;
	return memcmp(before->data + place * KEDGE__PAGE_BYTES, now->data + place * KEDGE__PAGE_BYTES,
		      KEDGE__PAGE_BYTES) != 0;
}

void kedge__rex_increment_make(const struct kedge__rex_series *series, size_t step, struct kedge__rex_increment *out)
{
	const struct kedge__rex_moment *now = kedge__rex_series_at(series, step);
	const struct kedge__rex_moment *before = step ? kedge__rex_series_at(series, step - 1) : NULL;
	uint64_t *list = kedge__malloc((now->places.count + 1) * sizeof(*list));
	size_t n = 0, head;

	if (!list)
		kedge__tool_no_memory();
	for (size_t place = 0; place < now->places.count; place++)
		if (page_changed(before, now, place))
			list[++n] = place;
	list[0] = n;
	head = (n + 1) * sizeof(*list);
	*out = (struct kedge__rex_increment){.pages = n, .bytes = head + n * KEDGE__PAGE_BYTES};
	out->file = kedge__malloc(out->bytes);
	if (!out->file)
		kedge__tool_no_memory();
	memcpy(out->file, list, head);
	for (size_t i = 0; i < n; i++)
		memcpy(out->file + head + i * KEDGE__PAGE_BYTES, now->data + list[i + 1] * KEDGE__PAGE_BYTES,
		       KEDGE__PAGE_BYTES);
	kedge__free(list);
}

void kedge__rex_increment_done(struct kedge__rex_increment *inc)
{
	kedge__free(inc->file);
	*inc = (struct kedge__rex_increment){0};
}

int kedge__rex_increment_apply(const uint8_t *file, size_t bytes, uint8_t *image, size_t room, struct kedge__error *err)
{
	uint64_t n = bytes >= sizeof(n) ? kedge__get64(file) : 0, head;

	if (bytes < sizeof(n) || n > room || bytes != sizeof(n) + n * (sizeof(n) + KEDGE__PAGE_BYTES))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "this is no increment");
	head = (n + 1) * sizeof(n);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t place = kedge__get64(file + (i + 1) * sizeof(n));

		if (place >= room)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the increment has no place %llu",
						(unsigned long long)place);
		memcpy(image + place * KEDGE__PAGE_BYTES, file + head + i * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES);
	}
	return 0;
}
