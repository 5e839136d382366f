/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reducer remembers the digests of the last version and the hash record. A new process gets them back from the record
 * file or, if none fits (the last process died), from the store: literals of older versions for the record, and all of
 * the newest version for the digests.
 */
#include "job/handle.h"

#define RECORD_SHARE 50                   /* of what a rank has stored its record file may take a 50th part, */
#define RECORD_SMALL (UINT64_C(64) << 10) /* or so many bytes in any case */

/* Nothing can be referred to, so that nothing need be known. */
static bool reducer_is_full(const kedge_t *k)
{
	return kedge__reducer_options_of(k->baseline.reducer)->id == KEDGE__REDUCER_FULL;
}

/* ------------------------------------------------------------------ the record file */

static char *record_path(const kedge_t *k)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;

	return kedge__asprintf("%s/%s/record-r%07d", kedge__catalog_store(cat), k->name, k->group.rank);
}

struct kedge__image_key kedge__image_key_of(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->levels.at[KEDGE__L1].write, version);

	return (struct kedge__image_key){version, e->set.parts[k->group.rank].image_id};
}

static bool tie_make(const kedge_t *k, uint64_t version, struct kedge__record_tie *tie)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);

	if (!e || e->problem.code || e->set.ranks != (uint32_t)k->group.size)
		return false;
	memset(tie, 0, sizeof(*tie));
	tie->store = kedge__catalog_store_id(cat);
	tie->name = kedge__seal(k->name, strlen(k->name));
	tie->last = kedge__image_key_of(k, version);
	tie->rank = (uint32_t)k->group.rank;
	tie->ranks = e->set.ranks;
	return true;
}

static bool has_record(const kedge_t *k)
{
	return k->set.record_file && k->baseline.reducer && !reducer_is_full(k);
}

/* A file that takes more than a small share of what it helps to keep small is not worth its place; nor is one where the
 * next process would read less without it. */
static bool is_worth_keeping(const kedge_t *k)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint64_t bytes = kedge__reducer_save_bytes(k->baseline.reducer), stored = 0, newest = 0, rebuild = 0;
	size_t n = 0;

	for (size_t i = kedge__catalog_count(cat); i; i--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

		if (e->problem.code || e->set.ranks != (uint32_t)k->group.size)
			continue;
		newest = n ? newest : e->set.parts[k->group.rank].raw_bytes;
		stored += e->set.parts[k->group.rank].file_bytes;
		rebuild = n++ < KEDGE__PRIME_VERSIONS ? stored : rebuild;
	}
	rebuild = KEDGE__MIN(rebuild, k->set.rebuild) + newest;
	return bytes <= KEDGE__MAX(stored / RECORD_SHARE, RECORD_SMALL) && bytes <= KEDGE__MAX(rebuild, RECORD_SMALL);
}

static int record_write(kedge_t *k, struct kedge__error *err)
{
	struct kedge__record_tie tie;
	char *path;
	int rc = kedge__catalog_scan(k->levels.at[KEDGE__L1].write, err);

	if (rc || !tie_make(k, k->baseline.at, &tie))
		return rc;
	if (!is_worth_keeping(k)) {
		kedge__log(KEDGE_LOG_INFO, "%s: the hash record would take %llu bytes and is not kept", k->name,
			   (unsigned long long)kedge__reducer_save_bytes(k->baseline.reducer));
		return 0;
	}
	path = record_path(k);
	rc = path ? kedge__record_file_save(path, &tie, k->baseline.reducer, err) : kedge__error_nomem(err);
	kedge__free(path);
	return rc;
}

/* The file that there was went with the first version. */
void kedge__record_save(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (!has_record(k) || !k->baseline.record_stale || k->baseline.at == KEDGE__NO_VERSION)
		return;
	if (record_write(k, &err))
		kedge__log(KEDGE_LOG_WARNING, "the hash record is not kept: %s", kedge__error_text(&err));
	kedge__error_done(&err);
}

/* Versions that went since the file was written are forgotten; of those that are here, one that is another image makes
 * all of it suspect. */
static int images_check(kedge_t *k, struct kedge__error *err)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__image_key *images = kedge__calloc(kedge__catalog_count(cat) + 1, sizeof(*images));
	size_t n = 0;
	bool stale;

	if (!images)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (!e->problem.code && e->set.ranks == (uint32_t)k->group.size)
			images[n++] = kedge__image_key_of(k, e->version);
	}
	stale = kedge__reducer_contradicts(k->baseline.reducer, images, n);
	kedge__reducer_retain(k->baseline.reducer, images, n);
	kedge__free(images);
	return stale ? kedge__error_set(err, KEDGE_E_MISMATCH, 0, "versions were replaced since it was kept") : 0;
}

/* A file that does not fit is removed. */
static bool record_load(kedge_t *k, struct kedge__set_key key)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__record_tie tie;
	char *path = NULL;
	int rc = KEDGE_E_NOTFOUND;

	if (has_record(k) && tie_make(k, key.version, &tie))
		path = record_path(k);
	if (path)
		rc = kedge__record_file_load(path, &tie, k->baseline.reducer, &err);
	if (!rc)
		rc = images_check(k, &err);
	if (rc && rc != KEDGE_E_NOTFOUND)
		kedge__log(KEDGE_LOG_WARNING, "the hash record is made again: %s", kedge__error_text(&err));
	if (rc) {
		kedge__reducer_reset(k->baseline.reducer);
		kedge__record_drop(k);
	}
	kedge__error_done(&err);
	kedge__free(path);
	return !rc;
}

void kedge__record_drop(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *path = record_path(k);

	if (!path || (kedge__fs_exists(path) && kedge__fs_unlink(path, &err)))
		kedge__log(KEDGE_LOG_WARNING, "an old hash record stays where it is: %s",
			   path ? kedge__error_text(&err) : kedge_strerror(KEDGE_E_NOMEM));
	kedge__error_done(&err);
	kedge__free(path);
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

/* Literal positions ascend with the extents, so blocks and extents are walked in step, and a block is read once; but
 * for literals that are referred to again, and were seen the first time. */
static int prime_segment(kedge_t *k, struct kedge__lineage *l, const struct kedge__segment *seg, uint8_t *raw,
			 uint8_t *stored, struct kedge__error *err)
{
	size_t have = SIZE_MAX;
	uint64_t seen = 0;

	for (size_t i = 0; i < seg->map.count; i++) {
		const struct kedge__extent *e = &seg->map.at[i];

		if (e->kind != KEDGE__EXTENT_LITERAL || e->src + e->len <= seen)
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

static int prime_version(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	const struct kedge__set_part *part = &kedge__catalog_find(cat, version)->set.parts[k->group.rank];
	char *path = kedge__segment_path(cat, version, (uint32_t)k->group.rank, part->generation);
	struct kedge__segment *seg = NULL;
	struct kedge__lineage *l = NULL; /* only for what was packed against another version */
	uint32_t raw_max = 1, stored_max = 1;
	uint8_t *raw = NULL, *stored = NULL;
	int rc = path ? kedge__segment_open(path, part, &seg, err) : kedge__error_nomem(err);

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

/* Bytes are looked at once, in a copy: what is known of a chunk and what its region is held against are the same. */
static const void *memory_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes,
			      bool all)
{
	const struct kedge__image *image = ctx;

	(void)worker, (void)all;
	return memcpy(buffer, (const uint8_t *)image->regions[region].data + offset, bytes);
}

static bool memory_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	(void)ctx, (void)worker, (void)region, (void)offset, (void)data, (void)bytes;
	return true;
}

/* What the regions of the table must be, as VERSION has them. */
static int digests_find(kedge_t *k, uint64_t version, struct kedge__digest *digests, size_t count,
			struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__lineage *l;
	int rc = kedge__lineage_open(&cat, 1, version, (uint32_t)k->group.rank, &l, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);
		const struct kedge__region_record *stored = kedge__segment_find_region(kedge__lineage_top(l), r->name);

		if (stored && stored->bytes == r->bytes)
			digests[i] = stored->digest;
		else
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0, "version %llu has no such region \"%s\"",
					      (unsigned long long)version, r->name);
	}
	kedge__lineage_close(l);
	return rc;
}

/* A thread may have written to memory since it was restored: that is not the version, then. */
static int prime_image(kedge_t *k, uint64_t version, const struct kedge__image_region *regions, size_t count,
		       struct kedge__error *err)
{
	struct kedge__image image = {regions, count};
	struct kedge__image_view view = {memory_get, memory_keep, &image};
	struct kedge__digest *digests = kedge__calloc(count + 1, sizeof(*digests));
	int rc = digests ? digests_find(k, version, digests, count, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__reducer_prime_view(k->baseline.reducer, k->pool, version, &image, &view, digests, err);
	if (rc == KEDGE_E_DAMAGED)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0,
				      "memory was written to before kedge_restart() of version %llu returned",
				      (unsigned long long)version);
	kedge__free(digests);
	return rc;
}

int kedge__prime_memory(kedge_t *k, const struct kedge__set_key *keys, size_t n, bool *loaded, struct kedge__error *err)
{
	struct kedge__image_region *regions = NULL;
	uint64_t version = keys[n - 1].version;
	size_t count = 0;
	int rc = kedge__regions_assign(k, err);

	if (!rc)
		rc = kedge__image_make(k, &regions, &count, err);
	*loaded = !rc && record_load(k, keys[n - 1]);
	if (!rc && !*loaded) {
		rc = prime_older(k, keys, n - 1, err);
		if (!rc)
			rc = prime_image(k, version, regions, count, err);
		if (!rc)
			kedge__reducer_identify(k->baseline.reducer, kedge__image_key_of(k, version));
	}
	kedge__fetch_end(k);
	kedge__free(regions);
	return rc;
}

int kedge__prime_store(kedge_t *k, const struct kedge__set_key *keys, size_t n, bool *loaded, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint64_t version = keys[n - 1].version;
	struct kedge__lineage *l;
	int rc = kedge__lineage_open(&cat, 1, version, (uint32_t)k->group.rank, &l, err);

	if (rc)
		return rc;
	*loaded = record_load(k, keys[n - 1]);
	if (!*loaded) {
		rc = prime_older(k, keys, n - 1, err);
		if (!rc)
			rc = kedge__prime_stored(k, l, err);
		if (!rc)
			kedge__reducer_identify(k->baseline.reducer, kedge__image_key_of(k, version));
	}
	kedge__lineage_close(l);
	return rc;
}
