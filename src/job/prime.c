/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reducer remembers the digests of the last version and the hash record. A new process, and one that has restarted,
 * gets them from the store, when it takes its first version: literals of older versions for the record, and all of the
 * newest version for the digests.
 */
#include "job/handle.h"

#include <stdlib.h>

#define FEW_BYTES                                                                                                      \
	(UINT64_C(1) << 20) /* to be compared: duplicates of older versions among them would save less than to look    \
			       for them costs */

struct kedge__image_key kedge__image_key_of(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->levels.at[KEDGE__L1].write, version);

	return (struct kedge__image_key){version, e->set.parts[k->group.rank].image_id};
}

/* ------------------------------------------------------------------ literals of older versions */

/* The part of block B, decoded at RAW, that each literal extent covers. Extents are in the order of addresses, not of
 * literals. */
static int prime_block(kedge_t *k, const struct kedge__segment *seg, const struct kedge__block_record *b,
		       const uint8_t *raw, const struct kedge__extent *e, struct kedge__error *err)
{
	uint64_t start = KEDGE__MAX(e->src, b->position);
	uint64_t end = KEDGE__MIN(e->src + e->len, b->position + b->raw_bytes);

	if (start >= end)
		return 0;
	return kedge__reducer_prime_literals(k->baseline.reducer, seg->header.version, e->addr + (start - e->src),
					     raw + (start - b->position), end - start, err);
}

static int literal_order(const void *a, const void *b)
{
	const struct kedge__extent *x = *(const struct kedge__extent *const *)a,
				   *y = *(const struct kedge__extent *const *)b;

	return (x->src > y->src) - (x->src < y->src);
}

/* In the order of literals blocks and extents are walked in step, and a block is read once; but for literals that are
 * referred to again, and were seen the first time. */
static int prime_literals(kedge_t *k, struct kedge__lineage *l, const struct kedge__segment *seg,
			  const struct kedge__extent **order, size_t n, uint8_t *raw, uint8_t *stored,
			  struct kedge__error *err)
{
	size_t have = SIZE_MAX;
	uint64_t seen = 0;

	for (size_t i = 0; i < n; i++) {
		const struct kedge__extent *e = order[i];

		if (e->src + e->len <= seen)
			continue;
		seen = e->src + e->len;
		for (size_t b = kedge__segment_find_block(seg, e->src);
		     b < seg->block_count && seg->blocks[b].position < e->src + e->len; b++) {
			int rc = b == have ? 0 : kedge__lineage_read_block(l, seg, b, raw, stored, NULL, err);

			if (!rc)
				rc = prime_block(k, seg, &seg->blocks[b], raw, e, err);
			if (rc)
				return rc;
			have = b;
		}
	}
	return 0;
}

static int prime_segment(kedge_t *k, struct kedge__lineage *l, const struct kedge__segment *seg, uint8_t *raw,
			 uint8_t *stored, struct kedge__error *err)
{
	const struct kedge__extent **order = kedge__calloc(seg->map.count + 1, sizeof(*order));
	size_t n = 0;
	int rc;

	if (!order)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < seg->map.count; i++)
		if (seg->map.at[i].kind == KEDGE__EXTENT_LITERAL)
			order[n++] = &seg->map.at[i];
	if (seg->classes.count) /* literals were arranged */
		qsort(order, n, sizeof(*order), literal_order);
	rc = prime_literals(k, l, seg, order, n, raw, stored, err);
	kedge__free(order);
	return rc;
}

static int prime_version(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	const struct kedge__set_part *part = &kedge__catalog_find(cat, version)->set.parts[k->group.rank];
	char *path = kedge__part_path(cat, version, (uint32_t)k->group.rank, part);
	struct kedge__segment *seg = NULL;
	struct kedge__lineage *l = NULL; /* only for what was packed against another version */
	uint32_t raw_max = 1, stored_max = 1;
	uint8_t *raw = NULL, *stored = NULL;
	int rc = path ? kedge__segment_open(cat, path, part, &seg, err) : kedge__error_nomem(err);

	if (!rc && seg->base != KEDGE__NO_VERSION)
		rc = kedge__lineage_open(&cat, 1, version, (uint32_t)k->group.rank, &l, err);
	if (rc)
		goto out;
	for (size_t b = 0; b < seg->block_count; b++) {
		raw_max = KEDGE__MAX(raw_max, seg->blocks[b].raw_bytes);
		stored_max = KEDGE__MAX(stored_max, seg->blocks[b].stored_bytes);
	}
	raw = kedge__malloc(raw_max);
	stored = kedge__malloc(stored_max);
	rc = raw && stored ? prime_segment(k, l, seg, raw, stored, err) : kedge__error_nomem(err);
out:
	kedge__free(raw);
	kedge__free(stored);
	kedge__lineage_close(l);
	kedge__segment_close(seg);
	kedge__free(path);
	return rc;
}

/* As many of the newest versions as the settings let us read, the oldest of them first. */
static int prime_older(kedge_t *k, const struct kedge__set_key *keys, size_t n, struct kedge__error *err)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint64_t bytes = 0;
	size_t first = n;

	if (!kedge__reducer_remembers(kedge__reducer_options_of(k->baseline.reducer)->id))
		return 0;
	while (first && n - first < KEDGE__PRIME_VERSIONS) {
		bytes += kedge__catalog_find(cat, keys[first - 1].version)->set.parts[k->group.rank].literal_bytes;
		if (bytes > k->set.rebuild)
			break;
		first--;
	}
	for (size_t i = first; i < n; i++) {
		struct kedge__error problem = KEDGE__ERROR_INIT;
		int rc = prime_version(k, keys[i].version, &problem);

		kedge__reducer_identify(k->baseline.reducer, kedge__image_key_of(k, keys[i].version));
		if (rc == KEDGE_E_NOMEM) {
			kedge__error_move(err, &problem);
			return rc;
		}
		if (rc)
			kedge__log(KEDGE_LOG_WARNING, "duplicates of version %llu will not be found: %s",
				   (unsigned long long)keys[i].version, kedge__error_text(&problem));
		kedge__error_done(&problem);
	}
	return 0;
}

/* ------------------------------------------------------------------ the newest version */

void kedge__prime_same(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint64_t parent = kedge__reducer_parent(k->baseline.reducer);
	struct kedge__lineage *l;

	if (parent == KEDGE__NO_VERSION || !kedge__same_vouched(v, parent) ||
	    kedge__lineage_open(&cat, 1, parent, (uint32_t)k->group.rank, &l, NULL) != 0)
		return;
	(void)kedge__same_find(v, kedge__lineage_top(l), NULL); /* without, they are read */
	kedge__lineage_close(l);
}

int kedge__prime_store(struct kedge__version *v, const struct kedge__set_key *keys, size_t n, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint64_t version = keys[n - 1].version;
	struct kedge__lineage *l;
	int rc = kedge__lineage_open(&cat, 1, version, (uint32_t)k->group.rank, &l, err);

	if (rc)
		return rc;
	rc = kedge__same_find(v, kedge__lineage_top(l), err);
	if (!rc && kedge__same_rest(v) > FEW_BYTES)
		rc = prime_older(k, keys, n - 1, err);
	if (!rc)
		rc = kedge__prime_stored(k, l, v->same.stored, err);
	if (!rc)
		kedge__reducer_identify(k->baseline.reducer, kedge__image_key_of(k, version));
	kedge__lineage_close(l);
	return rc;
}
