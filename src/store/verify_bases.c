/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that are packed against others: blocks at the same places of the image are read consecutively, oldest first,
 * and kept for a while, so that the base of each has just been unpacked.
 */
#include "store/verify.h"

#include <stdlib.h>

#define PLACE_BYTES (UINT64_C(1) << 20) /* at least this much of the image has its blocks read consecutively */
#define PLACES_KEPT 8                   /* versions of them, per thread */

struct kedge__bases {
	struct kedge__family *family;
	uint64_t place_bytes;
	uint64_t *addrs; /* one per block: where its literals begin */
	pthread_mutex_t mutex;
	uint8_t **raw;    /* one per block: its bytes, if they are kept, */
	unsigned *depths; /* and how many bases are below it */
	size_t *kept;     /* kept blocks, in the order of arrival, */
	size_t first, last;
	uint64_t bytes, limit;
};

static const struct kedge__block_record *record_of(const struct kedge__family *f, size_t block)
{
	const struct kedge__member *m = kedge__family_block(f, block);

	return &m->seg->blocks[block - m->first_block];
}

static void addrs_note(struct kedge__bases *b, const struct kedge__member *m)
{
	const struct kedge__segment *seg = m->seg;

	for (size_t i = 0; seg && seg->block_count && i < seg->map.count; i++) {
		const struct kedge__extent *e = &seg->map.at[i];

		if (e->kind != KEDGE__EXTENT_LITERAL)
			continue;
		for (size_t k = kedge__segment_find_block(seg, e->src);
		     k < seg->block_count && seg->blocks[k].position < e->src + e->len; k++) {
			uint64_t *addr = &b->addrs[m->first_block + k];

			*addr = KEDGE__MIN(*addr, e->addr + KEDGE__MAX(seg->blocks[k].position, e->src) - e->src);
		}
	}
}

static bool copy_kept(void *ctx, const struct kedge__segment *seg, size_t block, void *raw, unsigned *depth)
{
	struct kedge__bases *b = ctx;
	const struct kedge__member *m = &b->family->members[kedge__family_find(b->family, seg->header.version)];
	const uint8_t *kept;

	pthread_mutex_lock(&b->mutex);
	kept = b->raw[m->first_block + block];
	if (kept) {
		memcpy(raw, kept, seg->blocks[block].raw_bytes);
		*depth = b->depths[m->first_block + block];
	}
	pthread_mutex_unlock(&b->mutex);
	return kept;
}

int kedge__bases_new(struct kedge__family *f, struct kedge__bases **out, struct kedge__error *err)
{
	struct kedge__bases *b = kedge__calloc(1, sizeof(*b));
	uint64_t largest = 0;

	if (!b)
		return kedge__error_nomem(err);
	b->family = f;
	pthread_mutex_init(&b->mutex, NULL);
	b->addrs = kedge__calloc(f->block_count + 1, sizeof(*b->addrs));
	b->raw = kedge__calloc(f->block_count + 1, sizeof(*b->raw));
	b->depths = kedge__calloc(f->block_count + 1, sizeof(*b->depths));
	b->kept = kedge__calloc(f->block_count + 1, sizeof(*b->kept));
	if (!b->addrs || !b->raw || !b->depths || !b->kept) {
		kedge__bases_free(b);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < f->block_count; i++) {
		largest = KEDGE__MAX(largest, record_of(f, i)->raw_bytes);
		b->addrs[i] = UINT64_MAX;
	}
	for (size_t i = 0; i < f->count; i++)
		addrs_note(b, &f->members[i]);
	b->place_bytes = KEDGE__MAX(PLACE_BYTES, 4 * largest);
	b->limit = PLACES_KEPT * b->place_bytes * (uint64_t)kedge__pool_threads(f->verifier->pool);
	kedge__lineage_set_kept(f->lineage, copy_kept, b);
	*out = b;
	return 0;
}

void kedge__bases_free(struct kedge__bases *b)
{
	if (!b)
		return;
	kedge__lineage_set_kept(b->family->lineage, NULL, NULL);
	for (size_t i = b->first; i < b->last; i++)
		kedge__free(b->raw[b->kept[i]]);
	kedge__free(b->addrs);
	kedge__free(b->raw);
	kedge__free(b->depths);
	kedge__free(b->kept);
	pthread_mutex_destroy(&b->mutex);
	kedge__free(b);
}

/* If memory is short, the block is unpacked again when it is needed. */
void kedge__bases_keep(struct kedge__bases *b, size_t block, const uint8_t *raw, unsigned depth)
{
	size_t bytes = record_of(b->family, block)->raw_bytes;
	uint8_t *copy = kedge__malloc(bytes);

	if (!copy)
		return;
	memcpy(copy, raw, bytes);
	pthread_mutex_lock(&b->mutex);
	while (b->first < b->last && b->bytes + bytes > b->limit) {
		size_t oldest = b->kept[b->first++];

		b->bytes -= record_of(b->family, oldest)->raw_bytes;
		kedge__free(b->raw[oldest]);
		b->raw[oldest] = NULL;
	}
	b->raw[block] = copy;
	b->depths[block] = depth;
	b->kept[b->last++] = block;
	b->bytes += bytes;
	pthread_mutex_unlock(&b->mutex);
}

uint64_t kedge__bases_place(const struct kedge__bases *b, size_t block)
{
	return b->addrs[block] / b->place_bytes;
}
