/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holdings: the versions that a level holds at one moment. A value: read from a catalogue once, then updated as versions
 * are published and removed. Queries do no I/O, and tests need no catalogue.
 *
 * Part of store.h, which includes it: others include store.h.
 *
 * Distrust is absence: a version that is found damaged is removed from the holdings, and those that need it become unusable.
 */
#ifndef KEDGE_STORE_HOLDINGS_H
#define KEDGE_STORE_HOLDINGS_H

#include "base/base.h"
#include "format/format.h"

struct kedge__catalog;
struct kedge__catalog_entry;

struct kedge__holding {
	uint64_t version;
	uint64_t image; /* of all ranks; versions with the same image have the same contents, in whatever form */
	uint64_t files; /* of all ranks; versions with the same files are stored in the same form */
	uint64_t run, created_ns;
	uint64_t bytes; /* of the largest rank's segment */
	size_t needs, need_count; /* versions that it refers to: in the holdings' `needs` */
	bool merged;    /* it was coalesced */
	bool usable;    /* every version that it needs is held and usable */
};

struct kedge__holdings {
	KEDGE__ARRAY(struct kedge__holding) list; /* ascending versions */
	KEDGE__ARRAY(uint64_t) needs;
	uint64_t digest;   /* over version and image of all usable holdings, independent of order */
	uint64_t removals; /* how many versions have ceased to be usable so far */
};

void kedge__holdings_done(struct kedge__holdings *h);
void kedge__holdings_clear(struct kedge__holdings *h);
/* Add or replace what H has under that version; `needs`, `need_count` and `usable` of FRESH are ignored; NEEDS is not H's. False: no
 * memory, and it is not held. */
bool kedge__holdings_add(struct kedge__holdings *h, struct kedge__holding fresh, const uint64_t *needs, size_t need_count);
void kedge__holdings_remove(struct kedge__holdings *h, uint64_t version);
const struct kedge__holding *kedge__holdings_find(const struct kedge__holdings *h, uint64_t version); /* or NULL */
const struct kedge__holding *kedge__holdings_newest(const struct kedge__holdings *h);                 /* usable one, or NULL */
static inline const uint64_t *kedge__holding_needs(const struct kedge__holdings *h, const struct kedge__holding *v)
{
	return h->needs.at + v->needs;
}
/* Mark VERSION and all that it needs in MARKS (one per holding). False: some of it is not held. */
bool kedge__holdings_mark(const struct kedge__holdings *h, uint64_t version, uint8_t *marks);

/* Digests of the images and of the files of all ranks of a set. */
uint64_t kedge__set_image(const struct kedge__set *set);
uint64_t kedge__set_files(const struct kedge__set *set);
void kedge__holding_of(const struct kedge__set *set, struct kedge__holding *out);
void kedge__holding_of_entry(const struct kedge__catalog_entry *entry, struct kedge__holding *out); /* that has no problem */

/*
 * The readable versions from FROM on that CAT has for a job of RANKS ranks and that belong to RUN (NULL: to any run). On
 * failure H is empty.
 */
int kedge__holdings_read(struct kedge__holdings *h, const struct kedge__catalog *cat, uint32_t ranks, const struct kedge__run *run, uint64_t from,
			 struct kedge__error *err);

#endif
