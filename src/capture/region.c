#include "capture/capture.h"

#include <stdlib.h>

/* A name that was seen, protected or not: a name keeps its slot for as long as the table knows it. */
struct entry {
	struct kedge__region region; /* first: the table hands out pointers to it */
	struct entry *next;          /* in its bucket */
	uint64_t hash;
	bool active;
};

struct kedge__region_table {
	struct entry **buckets; /* a power of two of them */
	size_t bucket_count, known;
	KEDGE__ARRAY(struct entry *) order; /* the active ones */
};

int kedge__region_table_new(struct kedge__region_table **out, struct kedge__error *err)
{
	struct kedge__region_table *t = kedge__calloc(1, sizeof(*t));

	if (!t)
		return kedge__error_nomem(err);
	t->bucket_count = 64;
	t->buckets = kedge__calloc(t->bucket_count, sizeof(struct entry *));
	if (!t->buckets) {
		kedge__free(t);
		return kedge__error_nomem(err);
	}
	*out = t;
	return 0;
}

static void entry_free(struct entry *e)
{
	kedge__free(e->region.name);
	kedge__free(e);
}

void kedge__region_table_free(struct kedge__region_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->bucket_count; i++) {
		for (struct entry *e = t->buckets[i], *next; e; e = next) {
			next = e->next;
			entry_free(e);
		}
	}
	kedge__free(t->buckets);
	kedge__array_done(&t->order);
	kedge__free(t);
}

static struct entry *entry_find(const struct kedge__region_table *t, const char *name, uint64_t hash)
{
	struct entry *e = t->buckets[hash & (t->bucket_count - 1)];

	while (e && (e->hash != hash || strcmp(e->region.name, name) != 0))
		e = e->next;
	return e;
}

/* Failing to grow only makes the chains longer. */
static void buckets_grow(struct kedge__region_table *t)
{
	size_t count = t->bucket_count * 2;
	struct entry **buckets;

	if (t->known < t->bucket_count)
		return;
	buckets = kedge__calloc(count, sizeof(struct entry *));
	if (!buckets)
		return;
	for (size_t i = 0; i < t->bucket_count; i++) {
		for (struct entry *e = t->buckets[i], *next; e; e = next) {
			struct entry **head = &buckets[e->hash & (count - 1)];

			next = e->next;
			e->next = *head;
			*head = e;
		}
	}
	kedge__free(t->buckets);
	t->buckets = buckets;
	t->bucket_count = count;
}

static struct entry *entry_get(struct kedge__region_table *t, const char *name)
{
	uint64_t hash = kedge__checksum(name, strlen(name));
	struct entry *e = entry_find(t, name, hash);
	struct entry **head;

	if (e)
		return e;
	buckets_grow(t);
	e = kedge__calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->region.name = kedge__strdup(name);
	if (!e->region.name) {
		kedge__free(e);
		return NULL;
	}
	e->hash = hash;
	head = &t->buckets[hash & (t->bucket_count - 1)];
	e->next = *head;
	*head = e;
	t->known++;
	return e;
}

static void entry_drop(struct kedge__region_table *t, struct entry *e)
{
	struct entry **link = &t->buckets[e->hash & (t->bucket_count - 1)];

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	t->known--;
	entry_free(e);
}

/* Well-formed as the Unicode standard's table 3-7 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
static bool utf8_valid(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		unsigned char c = *s++, low = 0x80, high = 0xbf;
		int more = c < 0x80                 ? 0
			   : c >= 0xc2 && c <= 0xdf ? 1
			   : (c & 0xf0) == 0xe0     ? 2
			   : c >= 0xf0 && c <= 0xf4 ? 3
						    : -1;

		if (more < 0)
			return false;
		if (c == 0xe0)
			low = 0xa0;
		else if (c == 0xed)
			high = 0x9f;
		else if (c == 0xf0)
			low = 0x90;
		else if (c == 0xf4)
			high = 0x8f;
		for (; more; more--, low = 0x80, high = 0xbf) {
			if (*s < low || *s > high)
				return false;
			s++;
		}
	}
	return true;
}

static int name_check(const char *name, struct kedge__error *err)
{
	size_t length = name ? strlen(name) : 0;

	if (!length)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "a region needs a name");
	if (length > KEDGE_REGION_NAME_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region name of %zu bytes: the limit is %d", length,
					KEDGE_REGION_NAME_MAX);
	if (!utf8_valid(name))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region name is not UTF-8");
	return 0;
}

static int shape_check(const char *name, size_t count, int ndims, const size_t *dims, struct kedge__error *err)
{
	size_t product = 1;

	if (ndims < 0 || ndims > KEDGE_MAX_DIMS || (ndims > 0 && !dims))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\": %d dimensions, the limit is %d", name,
					ndims, KEDGE_MAX_DIMS);
	for (int i = 0; i < ndims; i++) {
		if (__builtin_mul_overflow(product, dims[i], &product))
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\": its shape overflows", name);
	}
	if (ndims > 0 && product != count)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\": a shape of %zu elements for %zu", name,
					product, count);
	return 0;
}

static int region_check(const char *name, const void *data, size_t count, enum kedge_type type, int ndims,
			const size_t *dims, uint64_t *bytes, struct kedge__error *err)
{
	size_t size = kedge_type_size(type);
	int rc = name_check(name, err);

	if (rc)
		return rc;
	if (!size)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\": %d is not an element type", name,
					(int)type);
	rc = shape_check(name, count, ndims, dims, err);
	if (rc)
		return rc;
	if (__builtin_mul_overflow((uint64_t)count, (uint64_t)size, bytes) || *bytes > KEDGE__SLOT_BYTES)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\": larger than the limit of 16 TiB", name);
	if (*bytes && !data)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\": no address for %zu elements", name, count);
	return 0;
}

int kedge__region_table_put(struct kedge__region_table *t, const char *name, void *data, size_t count,
			    enum kedge_type type, int ndims, const size_t *dims, struct kedge__error *err)
{
	struct entry *e;
	uint64_t bytes = 0;
	int rc = region_check(name, data, count, type, ndims, dims, &bytes, err);

	if (rc)
		return rc;
	if (!kedge__array_reserve(&t->order, t->order.count + 1))
		return kedge__error_nomem(err);
	e = entry_get(t, name);
	if (!e)
		return kedge__error_nomem(err);
	e->region.data = data;
	e->region.bytes = bytes;
	e->region.type = type;
	e->region.ndims = ndims;
	memset(e->region.dims, 0, sizeof(e->region.dims));
	for (int i = 0; i < ndims; i++)
		e->region.dims[i] = dims[i];
	if (!e->active) {
		t->order.at[t->order.count++] = e;
		e->region.flags = 0;
	}
	e->active = true;
	return 0;
}

static const char *nearest_active(const struct kedge__region_table *t, const char *name)
{
	const char **names = kedge__reallocarray(NULL, t->order.count, sizeof(char *));
	const char *nearest;

	if (!names)
		return NULL;
	for (size_t i = 0; i < t->order.count; i++)
		names[i] = t->order.at[i]->region.name;
	nearest = kedge__nearest_word(name, names, t->order.count);
	kedge__free(names);
	return nearest;
}

int kedge__region_table_remove(struct kedge__region_table *t, const char *name, struct kedge__error *err)
{
	struct entry *e = name ? entry_find(t, name, kedge__checksum(name, strlen(name))) : NULL;
	size_t i = 0;

	if (!e || !e->active) {
		const char *nearest = name && t->order.count ? nearest_active(t, name) : NULL;

		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "no region \"%s\" is protected%s%s%s",
					name ? name : "", nearest ? "; did you mean \"" : "", nearest ? nearest : "",
					nearest ? "\"?" : "");
	}
	while (t->order.at[i] != e)
		i++;
	t->order.count--;
	memmove(&t->order.at[i], &t->order.at[i + 1], (t->order.count - i) * sizeof(struct entry *));
	e->active = false;
	if (!e->region.has_slot)
		entry_drop(t, e);
	return 0;
}

size_t kedge__region_table_count(const struct kedge__region_table *t)
{
	return t->order.count;
}

struct kedge__region *kedge__region_table_at(const struct kedge__region_table *t, size_t i)
{
	return &t->order.at[i]->region;
}

struct kedge__region *kedge__region_table_find(const struct kedge__region_table *t, const char *name)
{
	struct entry *e = entry_find(t, name, kedge__checksum(name, strlen(name)));

	return e && e->active ? &e->region : NULL;
}

static int by_slot(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

	return (x->region.slot > y->region.slot) - (x->region.slot < y->region.slot);
}

/*
 * Two names can meet in one slot only when the version that gave one of them its slot could not be read. The
 * references to that version are lost anyway, so the second name moves.
 */
static void slots_part(struct kedge__region_table *t, uint32_t *next)
{
	bool moved = false;

	for (size_t i = 1; i < t->order.count; i++) {
		struct kedge__region *r = &t->order.at[i]->region;

		if (r->slot == t->order.at[i - 1]->region.slot && *next < KEDGE__SLOT_LIMIT) {
			r->slot = (*next)++;
			moved = true;
		}
	}
	if (moved)
		qsort(t->order.at, t->order.count, sizeof(struct entry *), by_slot);
}

int kedge__region_table_assign(struct kedge__region_table *t, uint32_t *next, struct kedge__error *err)
{
	uint32_t need = 0;

	for (size_t i = 0; i < t->order.count; i++)
		need += !t->order.at[i]->region.has_slot;
	if (*next > KEDGE__SLOT_LIMIT || need > KEDGE__SLOT_LIMIT - *next)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "more than %u region names in one record",
					(unsigned)KEDGE__SLOT_LIMIT);
	for (size_t i = 0; i < t->order.count; i++) {
		struct kedge__region *r = &t->order.at[i]->region;

		if (!r->has_slot) {
			r->slot = (*next)++;
			r->has_slot = true;
		}
	}
	if (t->order.count > 1)
		qsort(t->order.at, t->order.count, sizeof(struct entry *), by_slot);
	slots_part(t, next);
	return 0;
}

int kedge__region_table_remember(struct kedge__region_table *t, const char *name, uint32_t slot,
				 struct kedge__error *err)
{
	struct entry *e;
	int rc = name_check(name, err);

	if (rc)
		return rc;
	if (slot >= KEDGE__SLOT_LIMIT)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\": slot %u is out of range", name,
					(unsigned)slot);
	e = entry_get(t, name);
	if (!e)
		return kedge__error_nomem(err);
	e->region.slot = slot;
	e->region.has_slot = true;
	return 0;
}
