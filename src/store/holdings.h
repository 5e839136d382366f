/*
 * holdings: what a level holds at one moment. A value: made from a catalogue by one walk, then kept current by what is
 * published and removed; it does no I/O when it is asked, and needs no catalogue in a test.
 *
 * Part of store.h, which includes it: others include that.
 *
 * Distrust is absence: a version that is found damaged leaves the holdings, and with it all that need it are not usable.
 */
#ifndef KEDGE_STORE_HOLDINGS_H
#define KEDGE_STORE_HOLDINGS_H

#include "base/base.h"
#include "format/format.h"

struct kedge__catalog;
struct kedge__catalog_entry;

struct kedge__holding {
	uint64_t version;
	uint64_t image; /* of all ranks: with the same image it may be referred to, whatever its form */
	uint64_t files; /* of all ranks: with the same files it may be copied as it is */
	uint64_t run, created_ns;
	uint64_t bytes; /* of the largest rank's segment */
	size_t needs, need_count; /* versions that it refers to: in the holdings' `needs` */
	bool merged;    /* it was coalesced */
	bool usable;    /* all that it needs is held, and usable */
};

struct kedge__holdings {
	KEDGE__ARRAY(struct kedge__holding) list; /* ascending versions */
	KEDGE__ARRAY(uint64_t) needs;
	uint64_t digest;   /* over version and image of all that are usable, in any order */
	uint64_t removals; /* versions that were usable and are not any more, so far */
};

void kedge__holdings_done(struct kedge__holdings *h);
void kedge__holdings_clear(struct kedge__holdings *h);
/* Add or replace what H has under that version; `needs`, `need_count` and `usable` of FRESH are ignored; NEEDS is not H's. False: no
 * memory, and it is not held. */
bool kedge__holdings_add(struct kedge__holdings *h, struct kedge__holding fresh, const uint64_t *needs, size_t need_count);
void kedge__holdings_remove(struct kedge__holdings *h, uint64_t version);
const struct kedge__holding *kedge__holdings_find(const struct kedge__holdings *h, uint64_t version); /* or NULL */
const struct kedge__holding *kedge__holdings_newest(const struct kedge__holdings *h);                 /* that is usable, or NULL */
static inline const uint64_t *kedge__holding_needs(const struct kedge__holdings *h, const struct kedge__holding *v)
{
	return h->needs.at + v->needs;
}
/* Mark in MARKS (one for each holding) what VERSION needs, and itself. False: something of it is not held. */
bool kedge__holdings_mark(const struct kedge__holdings *h, uint64_t version, uint8_t *marks);

/* The image and the files of a set, as one number each. */
uint64_t kedge__set_image(const struct kedge__set *set);
uint64_t kedge__set_files(const struct kedge__set *set);
void kedge__holding_of(const struct kedge__set *set, struct kedge__holding *out);
void kedge__holding_of_entry(const struct kedge__catalog_entry *entry, struct kedge__holding *out); /* that has no problem */

/*
 * What CAT has for a job of RANKS ranks, of versions from FROM on that belong to RUN (NULL: of any run), that can be read.
 * On failure H is empty.
 */
int kedge__holdings_read(struct kedge__holdings *h, const struct kedge__catalog *cat, uint32_t ranks, const struct kedge__run *run, uint64_t from,
			 struct kedge__error *err);

#endif
