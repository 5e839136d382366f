/* SPDX-License-Identifier: BSD-3-Clause */
#include "restore/restore.h"

#define READ_BYTES (UINT64_C(256) << 10)
/* Ranges that are closer together than this are read at once: comparing equal bytes does no harm. */
#define GAP_BYTES UINT64_C(4096)

struct diffing {
	struct kedge__lineage *a, *b;
	uint8_t *buf_a, *buf_b;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	uint64_t done, total;
	KEDGE__ARRAY(struct kedge__diff_region) regions;
};

/* Add [OFFSET, OFFSET + LEN), joined with the last range if no more than GAP lies between. */
static int range_add(struct kedge__range_list *list, uint64_t offset, uint64_t len, uint64_t gap,
		     struct kedge__error *err)
{
	struct kedge__range *last = list->count ? &list->at[list->count - 1] : NULL;
	struct kedge__range fresh = {offset, len};

	if (!len)
		return 0;
	if (last && offset - (last->start + last->len) <= gap) {
		last->len = offset + len - last->start;
		return 0;
	}
	return kedge__array_push(list, fresh) ? 0 : kedge__error_nomem(err);
}

/* APART: of segments of different ranks, where the same version and address mean nothing. */
static bool same_source(const struct kedge__span *a, uint64_t skip_a, const struct kedge__span *b, uint64_t skip_b,
			bool apart)
{
	if (a->fill || b->fill)
		return a->fill && b->fill && a->src == b->src;
	return !apart && a->version == b->version && a->src + skip_a == b->src + skip_b;
}

/*
 * Walk the resolved spans of both versions in step; bytes that do not come from the same place may differ. Offsets are
 * relative to the region: it may have different slots in the two versions, and fill patterns depend on the address
 * modulo 8, which is the same in every slot.
 */
static int spans_compare(const struct kedge__span_list *a, uint64_t base_a, const struct kedge__span_list *b,
			 uint64_t base_b, bool apart, struct kedge__range_list *unsure, struct kedge__error *err)
{
	size_t i = 0, j = 0;
	uint64_t at = 0;

	while (i < a->count && j < b->count) {
		const struct kedge__span *x = &a->at[i], *y = &b->at[j];
		uint64_t end_x = x->addr - base_a + x->len, end_y = y->addr - base_b + y->len;
		uint64_t end = KEDGE__MIN(end_x, end_y);
		int rc = 0;

		if (!same_source(x, at - (x->addr - base_a), y, at - (y->addr - base_b), apart))
			rc = range_add(unsure, at, end - at, GAP_BYTES, err);
		if (rc)
			return rc;
		at = end;
		i += end == end_x;
		j += end == end_y;
	}
	return 0;
}

static int resolve_region(struct kedge__lineage *l, const struct kedge__region_record *r, uint64_t bytes,
			  struct kedge__span_list *spans, struct kedge__error *err)
{
	struct kedge__range range = {(uint64_t)r->slot * KEDGE__SLOT_BYTES, bytes};

	return bytes ? kedge__lineage_resolve(l, &range, 1, spans, err) : 0;
}

static size_t run_length(const uint8_t *a, const uint8_t *b, size_t n, bool differ)
{
	size_t i = 0;

	if (!differ) {
		for (; i + 64 <= n && memcmp(a + i, b + i, 64) == 0; i += 64)
			continue;
	}
	while (i < n && (a[i] != b[i]) == differ)
		i++;
	return i;
}

static int bytes_compare(struct diffing *d, uint64_t offset, size_t n, struct kedge__range_list *changed,
			 struct kedge__error *err)
{
	for (size_t i = 0; i < n;) {
		size_t len;
		int rc;

		i += run_length(d->buf_a + i, d->buf_b + i, n - i, false);
		len = run_length(d->buf_a + i, d->buf_b + i, n - i, true);
		rc = range_add(changed, offset + i, len, 0, err);
		if (rc)
			return rc;
		i += len;
	}
	return 0;
}

static void progress_to(struct diffing *d, uint64_t done)
{
	if (d->progress)
		d->progress(d->progress_ctx, KEDGE__MIN(done, d->total), d->total);
}

static int unsure_read(struct diffing *d, uint64_t base_a, uint64_t base_b, const struct kedge__range_list *unsure,
		       struct kedge__range_list *changed, struct kedge__error *err)
{
	for (size_t i = 0; i < unsure->count; i++) {
		const struct kedge__range *r = &unsure->at[i];

		for (uint64_t pos = r->start, end = r->start + r->len; pos < end;) {
			size_t n = (size_t)KEDGE__MIN(READ_BYTES, end - pos);
			int rc = kedge__lineage_read(d->a, base_a + pos, d->buf_a, n, err);

			if (!rc)
				rc = kedge__lineage_read(d->b, base_b + pos, d->buf_b, n, err);
			if (!rc)
				rc = bytes_compare(d, pos, n, changed, err);
			if (rc)
				return rc;
			pos += n;
			progress_to(d, d->done + pos);
		}
	}
	return 0;
}

/* The ranges that differ in the part of the region that both versions have. */
static int common_diff(struct diffing *d, const struct kedge__region_record *a, const struct kedge__region_record *b,
		       struct kedge__range_list *changed, struct kedge__error *err)
{
	uint64_t base_a = (uint64_t)a->slot * KEDGE__SLOT_BYTES, base_b = (uint64_t)b->slot * KEDGE__SLOT_BYTES;
	uint64_t bytes = KEDGE__MIN(a->bytes, b->bytes);
	bool apart = kedge__lineage_top(d->a)->header.rank != kedge__lineage_top(d->b)->header.rank;
	struct kedge__span_list spans_a = {0}, spans_b = {0};
	struct kedge__range_list unsure = {0};
	int rc = resolve_region(d->a, a, bytes, &spans_a, err);

	if (!rc)
		rc = resolve_region(d->b, b, bytes, &spans_b, err);
	if (!rc)
		rc = spans_compare(&spans_a, base_a, &spans_b, base_b, apart, &unsure, err);
	if (!rc)
		rc = unsure_read(d, base_a, base_b, &unsure, changed, err);
	kedge__array_done(&unsure);
	kedge__span_list_done(&spans_a);
	kedge__span_list_done(&spans_b);
	return rc;
}

static int region_add(struct diffing *d, const char *name, struct kedge__diff_region r,
		      struct kedge__range_list *changed, struct kedge__error *err)
{
	for (size_t i = 0; i < changed->count; i++)
		r.changed_bytes += changed->at[i].len;
	r.name = kedge__strdup(name);
	r.ranges = changed->at;
	r.range_count = changed->count;
	if (!r.name || !kedge__array_push(&d->regions, r)) {
		kedge__free(r.name);
		return kedge__error_nomem(err);
	}
	*changed = (struct kedge__range_list){0};
	d->done += KEDGE__MAX(r.bytes_a, r.bytes_b);
	progress_to(d, d->done);
	return 0;
}

/* A or B is NULL if the version lacks the region. */
static int region_diff(struct diffing *d, const struct kedge__region_record *a, const struct kedge__region_record *b,
		       struct kedge__error *err)
{
	struct kedge__diff_region r = {.bytes_a = a ? a->bytes : 0, .bytes_b = b ? b->bytes : 0};
	uint64_t common = KEDGE__MIN(r.bytes_a, r.bytes_b), all = KEDGE__MAX(r.bytes_a, r.bytes_b);
	struct kedge__range_list changed = {0};
	int rc = a && b ? common_diff(d, a, b, &changed, err) : 0;

	if (!rc)
		rc = range_add(&changed, common, all - common, 0, err);
	r.status = !a              ? KEDGE__DIFF_ADDED
		   : !b            ? KEDGE__DIFF_REMOVED
		   : changed.count ? KEDGE__DIFF_CHANGED
				   : KEDGE__DIFF_SAME;
	if (!rc)
		rc = region_add(d, (a ? a : b)->name, r, &changed, err);
	kedge__array_done(&changed);
	return rc;
}

static int regions_diff(struct diffing *d, struct kedge__error *err)
{
	const struct kedge__segment *a = kedge__lineage_top(d->a), *b = kedge__lineage_top(d->b);
	int rc = 0;

	for (size_t i = 0; i < b->region_count; i++)
		d->total += b->regions[i].bytes;
	for (size_t i = 0; i < b->region_count && !rc; i++)
		rc = region_diff(d, kedge__segment_find_region(a, b->regions[i].name), &b->regions[i], err);
	for (size_t i = 0; i < a->region_count && !rc; i++) {
		if (!kedge__segment_find_region(b, a->regions[i].name))
			rc = region_diff(d, &a->regions[i], NULL, err);
	}
	return rc;
}

int kedge__diff(struct kedge__lineage *a, struct kedge__lineage *b, struct kedge__pool *pool,
		void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
		struct kedge__diff_region **regions, size_t *count, struct kedge__error *err)
{
	struct diffing d = {.a = a, .b = b, .progress = progress, .progress_ctx = progress_ctx};
	int rc;

	(void)pool; /* one thread reads a lineage, and there is one handle per version */
	d.buf_a = kedge__malloc(READ_BYTES);
	d.buf_b = kedge__malloc(READ_BYTES);
	rc = d.buf_a && d.buf_b ? regions_diff(&d, err) : kedge__error_nomem(err);
	kedge__free(d.buf_a);
	kedge__free(d.buf_b);
	if (rc) {
		kedge__diff_free(d.regions.at, d.regions.count);
		return rc;
	}
	*regions = d.regions.at;
	*count = d.regions.count;
	return 0;
}

void kedge__diff_free(struct kedge__diff_region *regions, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		kedge__free(regions[i].name);
		kedge__free(regions[i].ranges);
	}
	kedge__free(regions);
}
