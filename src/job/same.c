/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions that are not read, because whoever lent them knows that they are what they were: files that nobody has
 * touched since. The reducer learns nothing of them, neither from the store nor now; so after such a version it starts
 * from the store again.
 */
#include "job/handle.h"

void kedge__same_done(struct kedge__job_same *s)
{
	kedge__free(s->now);
	kedge__free(s->stored);
	kedge__free(s->digests);
	*s = (struct kedge__job_same){0};
}

uint64_t kedge__same_rest(const struct kedge__version *v)
{
	uint64_t bytes = 0;

	for (size_t i = 0; v->same.count && i < v->region_count; i++)
		bytes += v->same.now[i].same ? 0 : v->regions[i].bytes;
	return v->same.count ? bytes : UINT64_MAX;
}

int kedge__same_note(struct kedge__version *v, struct kedge__error *err)
{
	for (size_t i = 0; i < v->region_count; i++) {
		const struct kedge__region *r = kedge__region_table_at(v->k->regions.table, i);

		if (!r->same)
			continue;
		if (!v->vouched) {
			v->vouched = kedge__calloc(v->region_count, sizeof(*v->vouched));
			if (!v->vouched)
				return kedge__error_nomem(err);
			for (size_t j = 0; j < v->region_count; j++)
				v->vouched[j] = KEDGE__NO_VERSION;
		}
		v->vouched[i] = r->same_as;
	}
	return 0;
}

bool kedge__same_vouched(const struct kedge__version *v, uint64_t version)
{
	for (size_t i = 0; v->vouched && i < v->region_count; i++) {
		if (v->vouched[i] == version)
			return true;
	}
	return false;
}

static bool is_same(const struct kedge__version *v, size_t i, const struct kedge__segment *stored, size_t j)
{
	const struct kedge__region_record *now = &v->records[i], *was = &stored->regions[j];

	return v->vouched[i] == stored->header.version && now->slot == was->slot && now->bytes == was->bytes &&
	       was->rule == KEDGE__SUM_PAGES && strcmp(now->name, was->name) == 0;
}

static void same_add(struct kedge__version *v, size_t i, const struct kedge__segment *stored, size_t j)
{
	struct kedge__job_same *s = &v->same;

	s->digests[i] = stored->regions[j].digest;
	s->now[i] = s->stored[j] = (struct kedge__region_dirty){.known = true, .same = &s->digests[i]};
	s->count++;
}

/* Both are in the order of slots. */
int kedge__same_find(struct kedge__version *v, const struct kedge__segment *stored, struct kedge__error *err)
{
	struct kedge__job_same *s = &v->same;

	kedge__same_done(s);
	if (!kedge__same_vouched(v, stored->header.version))
		return 0;
	s->now = kedge__calloc(v->region_count + 1, sizeof(*s->now));
	s->stored = kedge__calloc(stored->region_count + 1, sizeof(*s->stored));
	s->digests = kedge__calloc(v->region_count + 1, sizeof(*s->digests));
	if (!s->now || !s->stored || !s->digests) {
		kedge__same_done(s);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0, j = 0; i < v->region_count; i++) {
		if (v->pages.usable)
			s->now[i] = v->pages.lists[i];
		while (j < stored->region_count && stored->regions[j].slot < v->records[i].slot)
			j++;
		if (j < stored->region_count && is_same(v, i, stored, j))
			same_add(v, i, stored, j);
	}
	return 0;
}
