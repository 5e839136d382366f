/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * criu: a reader of CRIU's page maps (FORMAT.md, "Page images"): two magic numbers, then records, each a length of four
 * bytes and a message of protobuf: first the head, which says in which file the pages are, then the runs of pages.
 */
#include "base/search.h"
#include "process/process.h"

#define MAGIC_COMMON  UINT32_C(0x54564319)
#define MAGIC_PAGEMAP UINT32_C(0x56084025)
#define RECORD_MOST   4096

#define FLAG_PARENT  1u
#define FLAG_PRESENT 4u

/* The kinds of values in protobuf. */
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct message {
	const uint8_t *at;
	size_t left;
};

/* ------------------------------------------------------------------ protobuf */

static bool varint(struct message *m, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 64 && m->left; shift += 7) {
		uint8_t byte = *m->at++;

		m->left--;
		if (shift == 63 && byte > 1)
			return false;
		*value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return true;
	}
	return false;
}

static bool skip(struct message *m, uint64_t bytes)
{
	if (bytes > m->left)
		return false;
	m->at += bytes;
	m->left -= (size_t)bytes;
	return true;
}

/* The next field. Only numbers have a VALUE; those of other kinds, which newer versions may have, are passed over. */
static bool field(struct message *m, uint64_t *number, uint64_t *value)
{
	uint64_t key, bytes;

	if (!varint(m, &key))
		return false;
	*number = key >> 3;
	*value = 0;
	switch (key & 7) {
	case WIRE_VARINT:
		return varint(m, value);
	case WIRE_64:
		*number = 0;
		return skip(m, 8);
	case WIRE_BYTES:
		*number = 0;
		return varint(m, &bytes) && skip(m, bytes);
	case WIRE_32:
		*number = 0;
		return skip(m, 4);
	default:
		return false;
	}
}

/* The fields 1 to N, which are numbers; SEEN: one bit for each that is there. */
static bool fields(struct message m, uint64_t *values, unsigned n, unsigned *seen)
{
	uint64_t number, value;

	*seen = 0;
	while (m.left) {
		if (!field(&m, &number, &value))
			return false;
		if (number >= 1 && number <= n) {
			values[number - 1] = value;
			*seen |= 1u << number;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ the records */

static int wrong(size_t record, const char *what, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_ARG, 0, "record %zu of the page map %s", record, what);
}

static int read_head(struct message m, struct kedge__criu_pagemap *map, struct kedge__error *err)
{
	uint64_t id = 0;
	unsigned seen;

	if (!fields(m, &id, 1, &seen) || !(seen & 2u) || id > UINT32_MAX)
		return wrong(0, "does not say which file has the pages", err);
	map->pages_id = (uint32_t)id;
	return 0;
}

enum { ADDRESS, PAGES_SHORT, IN_PARENT, FLAGS, PAGES, RUN_FIELDS };

static int read_run(struct message m, size_t record, struct kedge__criu_pagemap *map, struct kedge__error *err)
{
	uint64_t v[RUN_FIELDS] = {0}, end = 0;
	struct kedge__criu_run run = {0};
	unsigned seen;

	if (!fields(m, v, RUN_FIELDS, &seen) || !(seen & 2u << ADDRESS))
		return wrong(record, "is damaged", err);
	run.address = v[ADDRESS];
	run.pages = seen & 2u << PAGES ? v[PAGES] : v[PAGES_SHORT];
	/* The flags are newer than the field before them, which they replaced. */
	run.in_parent = seen & 2u << FLAGS ? v[FLAGS] & FLAG_PARENT : v[IN_PARENT] != 0;
	if (!run.in_parent && seen & 2u << FLAGS && !(v[FLAGS] & FLAG_PRESENT))
		return wrong(record, "has pages that were left in the process (lazy): dump it without --lazy-pages",
			     err);
	if (map->runs.count) {
		const struct kedge__criu_run *last = &map->runs.at[map->runs.count - 1];

		end = last->address + last->pages * KEDGE__PAGE_BYTES;
	}
	if (run.address % KEDGE__PAGE_BYTES || run.pages == 0 ||
	    run.pages > (UINT64_MAX - run.address) / KEDGE__PAGE_BYTES)
		return wrong(record, "has an address or a number of pages that cannot be", err);
	if (run.address < end)
		return wrong(record, "is not above the one before it", err);
	run.first = map->present;
	map->present += run.in_parent ? 0 : run.pages;
	map->needs_parent |= run.in_parent;
	return kedge__array_push(&map->runs, run) ? 0 : kedge__error_nomem(err);
}

bool kedge__criu_pagemap_is(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	return bytes >= KEDGE__CRIU_HEAD && kedge__get32(at) == MAGIC_COMMON && kedge__get32(at + 4) == MAGIC_PAGEMAP;
}

int kedge__criu_pagemap_decode(const void *data, size_t bytes, struct kedge__criu_pagemap *out,
			       struct kedge__error *err)
{
	struct kedge__criu_pagemap map = {0};
	struct message all = {data, bytes};
	size_t record = 0;
	int rc = 0;

	if (!kedge__criu_pagemap_is(data, bytes))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "this is not a page map of CRIU");
	skip(&all, KEDGE__CRIU_HEAD);
	for (; !rc && (all.left || !record); record++) {
		struct message m = {all.at + 4, all.left >= 4 ? kedge__get32(all.at) : 0};

		if (all.left < 4 || m.left > RECORD_MOST || m.left > all.left - 4) {
			rc = wrong(record, "is truncated, or damaged", err);
			break;
		}
		skip(&all, 4 + m.left);
		rc = record ? read_run(m, record, &map, err) : read_head(m, &map, err);
	}
	if (rc)
		kedge__criu_pagemap_done(&map);
	else
		*out = map;
	return rc;
}

void kedge__criu_pagemap_done(struct kedge__criu_pagemap *map)
{
	kedge__array_done(&map->runs);
	*map = (struct kedge__criu_pagemap){0};
}

const struct kedge__criu_run *kedge__criu_pagemap_find(const struct kedge__criu_pagemap *map, uint64_t address)
{
	const struct kedge__criu_run *runs = map->runs.at;
	size_t i;

	KEDGE__PARTITION_POINT(i, map->runs.count, runs[i].address + runs[i].pages * KEDGE__PAGE_BYTES <= address);
	return i < map->runs.count && runs[i].address <= address ? &runs[i] : NULL;
}
