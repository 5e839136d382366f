/* SPDX-License-Identifier: BSD-3-Clause */
/* epochs.c: versions that were reduced, and whether they may be referred to. */
#include "reduce/record.h"

int kedge__epochs_begin(struct kedge__epochs *list, uint64_t version, bool resume, struct kedge__error *err)
{
	struct kedge__epoch none = {0}, fresh = {.version = version, .alive = true};
	size_t last = list->count;

	if (resume && last > 1 && list->at[last - 1].alive && list->at[last - 1].version == version) {
		list->current = (uint32_t)(last - 1);
		return 0;
	}
	if (last >= UINT32_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "the hash record is at its last epoch");
	if ((!last && !kedge__array_push(list, none)) || !kedge__array_push(list, fresh))
		return kedge__error_nomem(err);
	list->current = (uint32_t)(list->count - 1);
	return 0;
}

void kedge__epochs_rollback(struct kedge__epochs *list)
{
	if (list->current)
		list->at[list->current].alive = false;
	list->current = 0;
}

void kedge__epochs_done(struct kedge__epochs *list)
{
	kedge__array_done(list);
	list->current = 0;
}

uint32_t kedge__epochs_find(const struct kedge__epochs *list, uint64_t version)
{
	for (size_t i = list->count; i-- > 1;)
		if (list->at[i].alive && list->at[i].version == version)
			return (uint32_t)i;
	return 0;
}

uint32_t kedge__epochs_newest(const struct kedge__epochs *list, uint32_t from, uint32_t to)
{
	uint64_t limit = list->at[list->current].version;

	for (uint32_t i = to; i && i >= from; i--)
		if (list->at[i].alive && list->at[i].version < limit)
			return i;
	return 0;
}

void kedge__epochs_identify(struct kedge__epochs *list, uint64_t version, struct kedge__digest id)
{
	uint32_t epoch = kedge__epochs_find(list, version);

	if (epoch)
		list->at[epoch].id = id;
}

void kedge__epochs_retain(struct kedge__epochs *list, const struct kedge__image_key *alive, size_t n)
{
	for (size_t i = 1; i < list->count; i++) {
		struct kedge__epoch *e = &list->at[i];
		const struct kedge__image_key *key = kedge__image_key_find(alive, n, e->version);

		e->alive = e->alive && key && kedge__digest_equal(key->id, e->id);
	}
}
