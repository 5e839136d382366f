/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of stored versions for a paranoid reducer, which compares bytes that it would otherwise only refer to. One
 * thread asks, during a reduction; the lineages stay open until the end of it, because the catalogue is pinned until
 * then and the same versions are needed repeatedly.
 */
#include "job/handle.h"

#define OPEN_LIMIT 8 /* each holds a descriptor for every version that it depends on */

static void drop_oldest(kedge_t *k)
{
	kedge__lineage_close(k->baseline.fetched.at[0].lineage);
	k->baseline.fetched.count--;
	memmove(&k->baseline.fetched.at[0], &k->baseline.fetched.at[1],
		k->baseline.fetched.count * sizeof(k->baseline.fetched.at[0]));
}

static int lineage_of(kedge_t *k, uint64_t version, struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__job_fetched fresh = {.version = version};
	int rc;

	for (size_t i = 0; i < k->baseline.fetched.count; i++) {
		if (k->baseline.fetched.at[i].version == version) {
			*out = k->baseline.fetched.at[i].lineage;
			return 0;
		}
	}
	if (k->baseline.fetched.count == OPEN_LIMIT)
		drop_oldest(k);
	rc = kedge__lineage_open(&cat, 1, version, (uint32_t)k->group.rank, &fresh.lineage, err);
	if (rc)
		return rc;
	if (!kedge__array_push(&k->baseline.fetched, fresh)) {
		kedge__lineage_close(fresh.lineage);
		return kedge__error_nomem(err);
	}
	*out = fresh.lineage;
	return 0;
}

int kedge__fetch(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err)
{
	struct kedge__lineage *l = NULL;
	int rc = lineage_of(ctx, version, &l, err);

	return rc ? rc : kedge__lineage_read(l, addr, buf, len, err);
}

void kedge__fetch_end(kedge_t *k)
{
	while (k->baseline.fetched.count)
		drop_oldest(k);
	kedge__array_done(&k->baseline.fetched);
}
