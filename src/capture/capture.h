/*
 * capture: what the application protects, and how its bytes are held still while they are saved.
 */
#ifndef KEDGE_CAPTURE_CAPTURE_H
#define KEDGE_CAPTURE_CAPTURE_H

#include "base/base.h"
#include "reduce/reduce.h"

/* ------------------------------------------------------------------ region.c: the table of protected regions */

struct kedge__region {
	char *name; /* owned by the table */
	void *data;
	uint64_t bytes;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
	uint32_t slot;  /* in the image space; kept as long as the name is known to the record */
	bool has_slot;
};

struct kedge__region_table; /* found by name in constant time */

int kedge__region_table_new(struct kedge__region_table **out, struct kedge__error *err);
void kedge__region_table_free(struct kedge__region_table *t);
/* Add or replace by name (a replaced region keeps its slot). Checks name, type, shape, overflow, KEDGE__SLOT_BYTES. */
int kedge__region_table_put(struct kedge__region_table *t, const char *name, void *data, size_t count, enum kedge_type type, int ndims, const size_t *dims, struct kedge__error *err);
int kedge__region_table_remove(struct kedge__region_table *t, const char *name, struct kedge__error *err); /* KEDGE_E_NOTFOUND, nearest name */
size_t kedge__region_table_count(const struct kedge__region_table *t);
struct kedge__region *kedge__region_table_at(const struct kedge__region_table *t, size_t i); /* in order of slot once assigned, else of protection */
struct kedge__region *kedge__region_table_find(const struct kedge__region_table *t, const char *name);
/* Slots for regions that have none, from *NEXT on; names that were ever known keep theirs. Then order by slot. KEDGE_E_LIMIT at KEDGE__SLOT_LIMIT. */
int kedge__region_table_assign(struct kedge__region_table *t, uint32_t *next, struct kedge__error *err);
/* A name that the record knows from a stored version. */
int kedge__region_table_remember(struct kedge__region_table *t, const char *name, uint32_t slot, struct kedge__error *err);

/* ------------------------------------------------------------------ snapshot.c: literals copied aside, so that the application may go on */

struct kedge__snapshot {
	void *memory;
	size_t bytes;
};

/* Copy all literals into one buffer and point them there. KEDGE_E_LIMIT if they exceed LIMIT. */
int kedge__snapshot_take(struct kedge__snapshot *s, struct kedge__pool *pool, struct kedge__literal_list *literals, uint64_t limit, struct kedge__error *err);
void kedge__snapshot_done(struct kedge__snapshot *s);

#endif
