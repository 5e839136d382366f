/* SPDX-License-Identifier: BSD-3-Clause */
/* A file, seen through its plain form: what describes chunks is read there as in the file itself. */
#include "aggregate/aggregate.h"

uint64_t kedge__plain_view_place(const struct kedge__plain_view *v, uint64_t offset)
{
	const struct kedge__plain_chunk *c = kedge__plain_find(&v->plain, offset);

	if (!c)
		return KEDGE__PLAIN_HEAD + offset;
	return offset - c->offset < c->bytes ? c->at : c->at + c->plain + (offset - c->offset - c->bytes);
}

/* How many bytes from OFFSET on are in one chunk, or in none. */
static uint64_t stretch(const struct kedge__plain_view *v, uint64_t offset, bool *chunk)
{
	const struct kedge__plain_chunk *c = kedge__plain_find(&v->plain, offset);
	size_t next = c ? (size_t)(c - v->plain.chunks.at) + 1 : 0;

	*chunk = c && offset - c->offset < c->bytes;
	if (*chunk)
		return c->offset + c->bytes - offset;
	return (next < v->plain.chunks.count ? v->plain.chunks.at[next].offset : v->plain.file_bytes) - offset;
}

static int view_read(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct kedge__plain_view *v = ctx;
	uint8_t *out = to;
	int rc = 0;

	while (!rc && bytes) {
		bool chunk;
		size_t n = (size_t)KEDGE__MIN(stretch(v, offset, &chunk), (uint64_t)bytes);

		if (chunk)
			memset(out, 0, n);
		else
			rc = v->region->read(v->region->ctx, kedge__plain_view_place(v, offset), out, n, err);
		out += n;
		offset += n;
		bytes -= n;
	}
	return rc;
}

int kedge__plain_view_init(struct kedge__plain_view *v, const struct kedge__contents *region, bool *found,
			   struct kedge__error *err)
{
	uint8_t text[KEDGE__PLAIN_HEAD], *recipe;
	struct kedge__plain_head head;
	int rc;

	*v = (struct kedge__plain_view){.region = region};
	*found = false;
	if (region->bytes < KEDGE__PLAIN_HEAD || region->read(region->ctx, 0, text, sizeof(text), NULL) != 0 ||
	    !kedge__plain_head_decode(text, region->bytes, &head))
		return 0;
	recipe = kedge__malloc(head.recipe_bytes);
	if (!recipe)
		return kedge__error_nomem(err);
	rc = region->read(region->ctx, head.recipe_at, recipe, head.recipe_bytes, NULL);
	if (!rc)
		rc = kedge__plain_decode(&head, recipe, &v->plain, NULL);
	kedge__free(recipe);
	if (rc == KEDGE_E_NOMEM)
		return kedge__error_nomem(err);
	*found = rc == 0;
	v->file = (struct kedge__contents){v->plain.file_bytes, view_read, v};
	return 0;
}

void kedge__plain_view_done(struct kedge__plain_view *v)
{
	kedge__plain_done(&v->plain);
}
