/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the bytes of a version are kept in its lineage, and the bytes. */
#include "store/internal.h"

#define CACHE_BYTES  (UINT32_C(8) << 20)
#define READER_BYTES (UINT32_C(1) << 20) /* enough for sequential reads */

static int load_map(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent,
		    struct kedge__error *err)
{
	const struct kedge__segment *seg = kedge__lineage_segment(ctx, version);

	if (!seg)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"version %" PRIu64 " is referred to, but missing from the lineage", version);
	*map = &seg->map;
	*parent = seg->summary.parent;
	return 0;
}

int kedge__lineage_resolve_from(struct kedge__lineage *l, uint64_t stop_below, struct kedge__span_list *out,
				struct kedge__span_list *outer, struct kedge__error *err)
{
	const struct kedge__map_source source = {load_map, l};
	const struct kedge__range_list *regions = &kedge__lineage_top(l)->map.inherited;
	int rc = kedge__resolve(&source, kedge__lineage_version(l), regions->at, regions->count, stop_below, out, outer,
				err);

	if (rc)
		(void)kedge__error_prefix(err, "%s", kedge__lineage_top(l)->path);
	return rc;
}

int kedge__lineage_resolve_at(const struct kedge__lineage *l, uint64_t version, const struct kedge__range *ranges,
			      size_t n, struct kedge__span_list *out, struct kedge__error *err)
{
	const struct kedge__map_source source = {load_map, (void *)l};
	int rc = kedge__resolve(&source, version, ranges, n, 0, out, NULL, err);

	if (rc)
		(void)kedge__error_prefix(err, "%s", kedge__lineage_segment(l, version)->path);
	return rc;
}

int kedge__lineage_resolve(struct kedge__lineage *l, const struct kedge__range *ranges, size_t n,
			   struct kedge__span_list *out, struct kedge__error *err)
{
	if (n == 0)
		return kedge__lineage_resolve_from(l, 0, out, NULL, err);
	return kedge__lineage_resolve_at(l, kedge__lineage_version(l), ranges, n, out, err);
}

static int read_span(const struct kedge__lineage *l, struct kedge__block_cache *cache, const struct kedge__span *span,
		     void *buf, struct kedge__error *err)
{
	if (span->fill) {
		kedge__fill_pattern(span->src, span->addr, buf, (size_t)span->len);
		return 0;
	}
	return kedge__block_cache_read(cache, kedge__lineage_segment(l, span->version), span->src, buf,
				       (size_t)span->len, err);
}

static int read_range(const struct kedge__lineage *l, struct kedge__block_cache *cache, uint64_t addr, void *buf,
		      size_t len, struct kedge__error *err)
{
	const struct kedge__range range = {addr, len};
	struct kedge__span_list spans = {0};
	int rc = kedge__lineage_resolve_at(l, kedge__lineage_version(l), &range, 1, &spans, err);

	for (size_t i = 0; i < spans.count && !rc; i++)
		rc = read_span(l, cache, &spans.at[i], (uint8_t *)buf + (spans.at[i].addr - addr), err);
	kedge__span_list_done(&spans);
	return rc;
}

int kedge__lineage_read(struct kedge__lineage *l, uint64_t addr, void *buf, size_t len, struct kedge__error *err)
{
	struct kedge__block_cache **cache = kedge__lineage_cache(l);
	int rc = 0;

	if (!len)
		return 0;
	if (!*cache)
		rc = kedge__block_cache_new(CACHE_BYTES, l, 0, cache, err);
	return rc ? rc : read_range(l, *cache, addr, buf, len, err);
}

struct kedge__lineage_reader {
	const struct kedge__lineage *lineage;
	struct kedge__block_cache *cache;
};

int kedge__lineage_reader_new(struct kedge__lineage *l, struct kedge__lineage_reader **out, struct kedge__error *err)
{
	struct kedge__lineage_reader *r = kedge__calloc(1, sizeof(*r));
	int rc = r ? kedge__block_cache_new(READER_BYTES, l, 0, &r->cache, err) : kedge__error_nomem(err);

	if (rc) {
		kedge__free(r);
		return rc;
	}
	r->lineage = l;
	*out = r;
	return 0;
}

void kedge__lineage_reader_free(struct kedge__lineage_reader *r)
{
	if (!r)
		return;
	kedge__block_cache_free(r->cache);
	kedge__free(r);
}

int kedge__lineage_reader_read(struct kedge__lineage_reader *r, uint64_t addr, void *buf, size_t len,
			       struct kedge__error *err)
{
	return len ? read_range(r->lineage, r->cache, addr, buf, len, err) : 0;
}
