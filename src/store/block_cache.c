/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks read last, decoded. A small cache is enough: a walk in address order needs each block a few times, close
 * together. But it goes back and forth between the versions that neighbouring bytes come from, so one of each is kept,
 * also beyond the limit, if they are not too large. */
#include "store/internal.h"

#define SLOTS_LEAST 16
#define BYTES_LEAST ((size_t)16 << 20)
#define ALONE       8 /* parts of a block */

struct slot {
	const struct kedge__segment *seg; /* NULL: empty */
	size_t block;
	uint64_t used; /* the cache's tick at the last use */
	uint8_t *raw;
	size_t room;
	unsigned depth; /* bases below it */
};

struct kedge__block_cache {
	struct kedge__lineage *lineage;
	unsigned level;
	unsigned deepest;
	uint64_t bad;
	struct slot *slots;
	size_t count, room;
	size_t bytes, limit;
	uint64_t tick;
	uint8_t *scratch;
	size_t scratch_room;
};

int kedge__block_cache_new(size_t bytes, struct kedge__lineage *l, unsigned level, struct kedge__block_cache **out,
			   struct kedge__error *err)
{
	struct kedge__block_cache *cache = kedge__calloc(1, sizeof(*cache));

	if (!cache)
		return kedge__error_nomem(err);
	cache->limit = bytes;
	cache->lineage = l;
	cache->level = level;
	*out = cache;
	return 0;
}

void kedge__block_cache_free(struct kedge__block_cache *cache)
{
	if (!cache)
		return;
	for (size_t i = 0; i < cache->count; i++)
		kedge__free(cache->slots[i].raw);
	kedge__free(cache->slots);
	kedge__free(cache->scratch);
	kedge__free(cache);
}

void kedge__block_cache_drop(struct kedge__block_cache *cache, const struct kedge__segment *seg)
{
	for (size_t i = 0; i < cache->count; i++)
		if (cache->slots[i].seg == seg)
			cache->slots[i].seg = NULL;
}

void kedge__block_cache_begin(struct kedge__block_cache *cache, uint64_t version)
{
	cache->deepest = 0;
	cache->bad = version;
}

void kedge__block_cache_end(const struct kedge__block_cache *cache, unsigned *depth, uint64_t *bad)
{
	*depth = cache->deepest;
	*bad = cache->bad;
}

static struct slot *find_slot(struct kedge__block_cache *cache, const struct kedge__segment *seg, size_t block)
{
	for (size_t i = 0; i < cache->count; i++)
		if (cache->slots[i].seg == seg && cache->slots[i].block == block)
			return &cache->slots[i];
	return NULL;
}

static bool may_grow(const struct kedge__block_cache *cache, size_t bytes)
{
	size_t least = KEDGE__MAX(kedge__lineage_count(cache->lineage) + 1, (size_t)SLOTS_LEAST);
	size_t limit = cache->count < least ? KEDGE__MAX(cache->limit, BYTES_LEAST) : cache->limit;

	return !cache->count || cache->bytes + bytes <= limit;
}

/* A new slot as long as that is possible, then the least recently used one. */
static struct slot *choose_slot(struct kedge__block_cache *cache, size_t bytes)
{
	struct slot *oldest = NULL;

	if (may_grow(cache, bytes)) {
		if (!kedge__array_grow((void **)&cache->slots, &cache->room, cache->count + 1, sizeof(*cache->slots)))
			return NULL;
		cache->slots[cache->count] = (struct slot){0};
		return &cache->slots[cache->count++];
	}
	for (size_t i = 0; i < cache->count; i++)
		if (!oldest || cache->slots[i].used < oldest->used)
			oldest = &cache->slots[i];
	return oldest;
}

bool kedge__buffer_room(uint8_t **buffer, size_t *room, size_t need)
{
	uint8_t *grown;

	if (*room >= need)
		return true;
	grown = kedge__realloc(*buffer, need);
	if (!grown)
		return false;
	*buffer = grown;
	*room = need;
	return true;
}

static int load_block(struct kedge__block_cache *cache, const struct kedge__segment *seg, size_t i, struct slot **out,
		      struct kedge__error *err)
{
	const struct kedge__block_record *block = &seg->blocks[i];
	struct slot *slot = choose_slot(cache, block->raw_bytes);
	size_t before;
	int rc;

	if (!slot)
		return kedge__error_nomem(err);
	slot->seg = NULL;
	before = slot->room;
	if (!kedge__buffer_room(&slot->raw, &slot->room, block->raw_bytes) ||
	    !kedge__buffer_room(&cache->scratch, &cache->scratch_room, block->stored_bytes))
		return kedge__error_nomem(err);
	cache->bytes += slot->room - before;
	rc = kedge__lineage_kept(cache->lineage, seg, i, slot->raw, &slot->depth)
		 ? 0
		 : kedge__block_read_at(cache->lineage, seg, i, slot->raw, cache->scratch, cache->level, &slot->depth,
					&cache->bad, err);
	if (rc)
		return rc;
	slot->seg = seg;
	slot->block = i;
	*out = slot;
	return 0;
}

/* A block of which some pages are damaged has good ones. */
static int read_pages(struct kedge__block_cache *cache, const struct kedge__segment *seg, size_t i, uint64_t skip,
		      void *to, size_t n, int failed, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc;

	if (failed != KEDGE_E_DAMAGED || !kedge__block_has_pages(&seg->blocks[i]))
		return failed;
	rc = kedge__segment_read_pages(seg, i, (uint32_t)skip, to, n, &problem);
	if (rc) {
		cache->bad = seg->header.version;
		kedge__error_move(err, &problem);
	} else if (err) {
		kedge__error_done(err);
		*err = (struct kedge__error)KEDGE__ERROR_INIT;
	}
	kedge__error_done(&problem);
	return rc;
}

/* The bytes of a block that was packed against a base are those of pages that were written at the same time, all over
 * memory: of a block that is not packed, a few of them are read alone. */
static bool reads_alone(const struct kedge__block_cache *cache, const struct kedge__block_record *block, size_t n)
{
	return cache->level && block->codec == KEDGE__CODEC_NONE && kedge__block_has_pages(block) &&
	       n <= block->raw_bytes / ALONE;
}

/* N bytes of block I, from SKIP on. */
static int read_part(struct kedge__block_cache *cache, const struct kedge__segment *seg, size_t i, uint64_t skip,
		     void *to, size_t n, struct kedge__error *err)
{
	struct slot *slot = find_slot(cache, seg, i);
	int rc = 0;

	if (!slot && reads_alone(cache, &seg->blocks[i], n)) {
		rc = kedge__segment_read_pages(seg, i, (uint32_t)skip, to, n, err);
		if (rc)
			cache->bad = seg->header.version;
		return rc;
	}
	if (!slot) {
		rc = load_block(cache, seg, i, &slot, err);
		if (rc)
			return read_pages(cache, seg, i, skip, to, n, rc, err);
	}
	slot->used = ++cache->tick;
	cache->deepest = KEDGE__MAX(cache->deepest, slot->depth);
	memcpy(to, slot->raw + skip, n);
	return 0;
}

int kedge__block_cache_read(struct kedge__block_cache *cache, const struct kedge__segment *seg, uint64_t pos, void *buf,
			    size_t len, struct kedge__error *err)
{
	uint8_t *to = buf;

	while (len) {
		size_t i = kedge__segment_find_block(seg, pos);
		uint64_t skip = pos - seg->blocks[i].position;
		size_t n = (size_t)KEDGE__MIN(seg->blocks[i].raw_bytes - skip, len);
		int rc = read_part(cache, seg, i, skip, to, n, err);

		if (rc)
			return rc;
		to += n;
		pos += n;
		len -= n;
	}
	return 0;
}
