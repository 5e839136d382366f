/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions: the stored versions, as the application's calls see them. Private to job.
 *
 * It belongs to the application's threads, and reads through the catalogues `api`.
 * The lineage that was used last stays open: calls that belong together, to find a version, list its regions, restart from it
 * and read it, load its tables once.
 */
#ifndef KEDGE_JOB_VERSIONS_H
#define KEDGE_JOB_VERSIONS_H

#include "job/levels.h"

struct kedge__versions {
	bool unread; /* the last scan for what is stored could not read a level */
	KEDGE__ARRAY(struct kedge__set_key) common; /* sets that all ranks are known to have or have had; under the lock of state */
	struct kedge__lineage *kept; /* NULL: none */
	struct kedge__versions_place { /* of it, or of the one that is in use */
		struct kedge__set_key key;
		struct kedge__catalog *from[KEDGE__LEVELS];
		uint64_t changes[KEDGE__LEVELS]; /* of the catalogues, when it was opened */
	} place;
};

/* The present run by what this rank can see (api handles, scanned before); NULL: there are no versions. */
const struct kedge__run *kedge__versions_run(const kedge_t *k);
/* The error of who found nothing while a level could not be looked at, on this rank or another: KEDGE_E_MISSING. */
int kedge__versions_unread(const kedge_t *k, struct kedge__error *err);
/* All of both levels (api handles, scanned before) that belong to RUN (NULL: all); a version with different sets on two levels is there
 * twice, L1 first. */
int kedge__versions_all(kedge_t *k, const struct kedge__run *run, struct kedge__set_key **list, size_t *count, struct kedge__error *err);
void kedge__versions_done(struct kedge__versions *v);
int kedge__versions_scan(kedge_t *k, struct kedge__error *err);
/* The lineage of exactly this set; closed with kedge__versions_close() before another one is opened. */
int kedge__versions_open(kedge_t *k, struct kedge__set_key key, struct kedge__lineage **out, struct kedge__error *err);
/* KEEP: for a call that may follow. */
void kedge__versions_close(kedge_t *k, struct kedge__lineage *l, bool keep);
void kedge__versions_drop(kedge_t *k); /* none is kept */
void kedge__region_info_set(const struct kedge__region_record *r, struct kedge_region_info *info);
/* The newest set, or the one of VERSION, that all ranks are known to have and that opens here; scanned before. */
int kedge__versions_open_known(kedge_t *k, uint64_t version, struct kedge__lineage **out, struct kedge__error *err);
void kedge__versions_pin(kedge_t *k, bool pinned[KEDGE__LEVELS]); /* the api handles, as far as they can be */
void kedge__versions_unpin(kedge_t *k, const bool pinned[KEDGE__LEVELS]);
/* At open: of KEYS, the sets that all ranks have are known to be common. Reorders KEYS. Collective. */
int kedge__versions_common(kedge_t *k, struct kedge__set_key *keys, size_t n, struct kedge__error *err);
int kedge__versions_discard(kedge_t *k, uint64_t from, unsigned levels, struct kedge__error *err); /* collective: FROM and all above */
void kedge__versions_published(kedge_t *k, struct kedge__set_key key);

#endif
