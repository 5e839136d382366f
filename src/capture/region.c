/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/capture.h"

#include <stdlib.h>

/* Checkpoints that a name is remembered without being protected: if it comes back meanwhile, it has its old slot, where
 * what it was can be referred to as the same place. */
#define FORGET_AFTER 4

/* Up to so many names are compared with one that is not there. */
#define NEAREST_AMONG 1000

/* A name that is protected, or was not long ago. */
struct entry {
	struct kedge__region region; /* first: the table hands out pointers to it */
	uint64_t hash;
	size_t number;  /* in `all` */
	size_t place;   /* in `order`, if it is active */
	unsigned rests; /* slots were assigned so often since it was active */
	bool active;
};

struct kedge__region_table {
	KEDGE__ARRAY(struct entry *) all;
	KEDGE__ARRAY(struct entry *) order;  /* the active ones */
	KEDGE__ARRAY(struct entry *) owners; /* by slot; NULL: it is free */
	struct kedge__hash names;            /* of `all` */
	size_t owned;                        /* slots */
	uint64_t tenancies;                  /* so far */
};

int kedge__region_table_new(struct kedge__region_table **out, struct kedge__error *err)
{
	struct kedge__region_table *t = kedge__calloc(1, sizeof(*t));

	if (!t)
		return kedge__error_nomem(err);
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
	for (size_t i = 0; i < t->all.count; i++)
		entry_free(t->all.at[i]);
	kedge__array_done(&t->all);
	kedge__array_done(&t->order);
	kedge__array_done(&t->owners);
	kedge__hash_done(&t->names);
	kedge__free(t);
}

static bool has_name(const void *ctx, size_t item, const void *name)
{
	const struct kedge__region_table *t = ctx;

	return strcmp(t->all.at[item]->region.name, name) == 0;
}

static struct entry *entry_find(const struct kedge__region_table *t, const char *name, uint64_t hash)
{
	size_t i = kedge__hash_find(&t->names, hash, has_name, t, name);

	return i == KEDGE__HASH_NONE ? NULL : t->all.at[i];
}

static struct entry *entry_new(const char *name, uint64_t hash)
{
	struct entry *e = kedge__calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->hash = hash;
	e->region.name = kedge__strdup(name);
	if (!e->region.name) {
		kedge__free(e);
		return NULL;
	}
	return e;
}

static struct entry *entry_get(struct kedge__region_table *t, const char *name)
{
	uint64_t hash = kedge__checksum(name, strlen(name));
	struct entry *e = entry_find(t, name, hash);

	if (e)
		return e;
	e = entry_new(name, hash);
	if (!e)
		return NULL;
	e->number = t->all.count;
	if (!kedge__array_reserve(&t->all, t->all.count + 1) || !kedge__hash_put(&t->names, hash, e->number)) {
		entry_free(e);
		return NULL;
	}
	t->all.at[t->all.count++] = e;
	return e;
}

static void slot_free(struct kedge__region_table *t, struct entry *e)
{
	if (!e->region.has_slot)
		return;
	t->owners.at[e->region.slot] = NULL;
	t->owned--;
	e->region.has_slot = false;
}

/* There is room for the slot among the owners, and nobody has it. */
static void slot_give(struct kedge__region_table *t, struct entry *e, uint32_t slot)
{
	t->owners.at[slot] = e;
	t->owned++;
	e->region.slot = slot;
	e->region.has_slot = true;
	e->region.tenancy = ++t->tenancies;
}

static bool owners_reserve(struct kedge__region_table *t, size_t slots)
{
	if (!kedge__array_reserve(&t->owners, slots))
		return false;
	while (t->owners.count < slots)
		t->owners.at[t->owners.count++] = NULL;
	return true;
}

/* Not an active one. The last one takes its number. */
static void entry_drop(struct kedge__region_table *t, struct entry *e)
{
	struct entry *last = t->all.at[t->all.count - 1];

	slot_free(t, e);
	kedge__hash_remove(&t->names, e->hash, e->number);
	if (last != e) {
		kedge__hash_move(&t->names, last->hash, last->number, e->number);
		last->number = e->number;
		t->all.at[e->number] = last;
	}
	t->all.count--;
	entry_free(e);
}

/* Well-formed as the Unicode standard's table 3-7 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool kedge__utf8_valid(const char *text)
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
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the region name must not be empty");
	if (length > KEDGE_REGION_NAME_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region name of %zu bytes: the limit is %d", length,
					KEDGE_REGION_NAME_MAX);
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
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\": the shape has too many elements",
						name);
	}
	if (ndims > 0 && product != count)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"region \"%s\": the shape has %zu elements, but the region has %zu", name,
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
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\" exceeds the limit of 16 TiB", name);
	if (*bytes && !data)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\": the address of %zu elements is NULL", name,
					count);
	return 0;
}

static int memory_check(const char *name, const void *data, uint64_t bytes, struct kedge__memory_info *memory,
			struct kedge__error *err)
{
	kedge__memory_find(data, memory);
	if (memory->bytes && bytes > memory->bytes)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "region \"%s\" has %llu bytes, but only %llu were allocated on the GPU from its "
		    "address on",
		    name, (unsigned long long)bytes, (unsigned long long)memory->bytes);
	return 0;
}

int kedge__region_table_put(struct kedge__region_table *t, const char *name, void *data, size_t count,
			    enum kedge_type type, int ndims, const size_t *dims, struct kedge__error *err)
{
	struct kedge__memory_info memory;
	struct entry *e;
	uint64_t bytes = 0;
	int rc = region_check(name, data, count, type, ndims, dims, &bytes, err);

	if (!rc)
		rc = memory_check(name, data, bytes, &memory, err);
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
	e->region.file = NULL;
	e->region.same = false;
	e->region.memory = memory;
	e->region.mirror = NULL;
	memset(e->region.dims, 0, sizeof(e->region.dims));
	for (int i = 0; i < ndims; i++)
		e->region.dims[i] = dims[i];
	if (!e->active) {
		e->place = t->order.count;
		t->order.at[t->order.count++] = e;
		e->region.flags = 0;
	}
	e->active = true;
	return 0;
}

static const char *nearest_active(const struct kedge__region_table *t, const char *name)
{
	size_t n = KEDGE__MIN(t->order.count, (size_t)NEAREST_AMONG);
	const char **names = kedge__reallocarray(NULL, n, sizeof(char *));
	const char *nearest;

	if (!names)
		return NULL;
	for (size_t i = 0; i < n; i++)
		names[i] = t->order.at[i]->region.name;
	nearest = kedge__nearest_word(name, names, n);
	kedge__free(names);
	return nearest;
}

int kedge__region_table_remove(struct kedge__region_table *t, const char *name, struct kedge__error *err)
{
	struct entry *e = name ? entry_find(t, name, kedge__checksum(name, strlen(name))) : NULL;
	struct entry *last;

	if (!e || !e->active) {
		const char *nearest = name && t->order.count ? nearest_active(t, name) : NULL;

		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "no region \"%s\" is protected%s%s%s",
					name ? name : "", nearest ? "; did you mean \"" : "", nearest ? nearest : "",
					nearest ? "\"?" : "");
	}
	last = t->order.at[--t->order.count];
	last->place = e->place;
	t->order.at[e->place] = last;
	e->active = false;
	e->region.file = NULL;
	e->rests = 0;
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

/* Names that nobody needs any more; with ALL, every one that is not protected now. */
static void names_forget(struct kedge__region_table *t, bool all)
{
	for (size_t i = t->all.count; i; i--) {
		struct entry *e = t->all.at[i - 1];

		if (!e->active && (all || e->rests >= FORGET_AFTER))
			entry_drop(t, e);
	}
}

static void order_by_slot(struct kedge__region_table *t)
{
	bool sorted = true;

	for (size_t i = 1; i < t->order.count && sorted; i++)
		sorted = t->order.at[i - 1]->region.slot < t->order.at[i]->region.slot;
	if (sorted)
		return;
	qsort(t->order.at, t->order.count, sizeof(struct entry *), by_slot);
	for (size_t i = 0; i < t->order.count; i++)
		t->order.at[i]->place = i;
}

/* The lowest free ones, to those that have none. There are enough of them. */
static void slots_give(struct kedge__region_table *t)
{
	uint32_t slot = 0;

	for (size_t i = 0; i < t->order.count; i++) {
		if (t->order.at[i]->region.has_slot)
			continue;
		while (t->owners.at[slot])
			slot++;
		slot_give(t, t->order.at[i], slot);
	}
}

/*
 * A slot may go from one name to another between two versions: references are to addresses, and whoever makes one
 * compares contents, not names. What is remembered of memory (track.c) goes by the tenancy besides.
 */
int kedge__region_table_assign(struct kedge__region_table *t, uint32_t *next, struct kedge__error *err)
{
	size_t need = 0;

	if (t->order.count > KEDGE__SLOT_LIMIT)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%zu regions are protected: the limit is %u",
					t->order.count, (unsigned)KEDGE__SLOT_LIMIT);
	for (size_t i = 0; i < t->order.count; i++)
		need += !t->order.at[i]->region.has_slot;
	for (size_t i = 0; i < t->all.count; i++)
		t->all.at[i]->rests += !t->all.at[i]->active;
	names_forget(t, need > KEDGE__SLOT_LIMIT - t->owned);
	if (!owners_reserve(t, KEDGE__MAX(t->owners.count, t->owned + need)))
		return kedge__error_nomem(err);
	slots_give(t);
	order_by_slot(t);
	if (t->order.count)
		*next = KEDGE__MAX(*next, t->order.at[t->order.count - 1]->region.slot + 1);
	return 0;
}

int kedge__region_table_remember(struct kedge__region_table *t, const char *name, uint32_t slot,
				 struct kedge__error *err)
{
	struct entry *e, *owner;
	int rc = name_check(name, err);

	if (rc)
		return rc;
	if (slot >= KEDGE__SLOT_LIMIT)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "region \"%s\": slot %u is out of range", name,
					(unsigned)slot);
	e = entry_get(t, name);
	if (!e)
		return kedge__error_nomem(err);
	if (!owners_reserve(t, (size_t)slot + 1))
		return kedge__error_nomem(err);
	owner = t->owners.at[slot];
	e->rests = 0;
	if (owner == e)
		return 0;
	slot_free(t, e);
	if (owner)
		slot_free(t, owner);
	slot_give(t, e, slot);
	return 0;
}
