/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FORMAT.md, "Differences of REGN": what one table of regions has that another has not. Both are texts, the same that
 * image ids are computed from; what is unchanged is copied as it is.
 */
#include "format/wire.h"

enum change { DIGEST = 0, REMOVED = 1, ADDED = 2, CONTENTS = 3 };

#define CHANGE_BITS  2u
#define DIGEST_BYTES 16

struct text { /* part of a section */
	const uint8_t *at;
	size_t bytes;
};

struct record {
	struct text all;      /* as in the section */
	struct text name;     /* with its length */
	struct text contents; /* type, shape and size */
	struct text digest;
	uint64_t slot;
};

struct table { /* being read */
	struct kedge__wire_in in;
	uint64_t left;  /* records */
	uint64_t after; /* slot of the last one, plus 1 */
};

static struct text text_since(const struct kedge__wire_in *in, const uint8_t *start)
{
	return (struct text){start, (size_t)(in->at - start)};
}

static bool text_equal(struct text a, struct text b)
{
	return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

static struct table table_init(const void *data, size_t bytes)
{
	struct table t = {.in = kedge__wire_in_init(data, bytes)};

	t.left = kedge__wire_get_varint(&t.in);
	return t;
}

static void get_contents(struct kedge__wire_in *in, struct text *contents, struct text *digest)
{
	const uint8_t *start = in->at;
	uint64_t ndims;

	(void)kedge__wire_get_varint(in); /* type */
	ndims = kedge__wire_get_varint_max(in, KEDGE_MAX_DIMS);
	for (uint64_t i = 0; i <= ndims && !in->failed; i++) /* and the size */
		(void)kedge__wire_get_varint(in);
	*contents = text_since(in, start);
	*digest = (struct text){kedge__wire_get(in, DIGEST_BYTES), DIGEST_BYTES};
}

/* A record with its slot counted from AFTER. */
static bool get_record(struct kedge__wire_in *in, uint64_t after, struct record *r)
{
	const uint8_t *start = in->at;

	(void)kedge__wire_get(in, (size_t)kedge__wire_get_varint_max(in, KEDGE_REGION_NAME_MAX));
	r->name = text_since(in, start);
	r->slot = after + kedge__wire_get_varint_max(in, KEDGE__SLOT_LIMIT);
	get_contents(in, &r->contents, &r->digest);
	r->all = text_since(in, start);
	return !in->failed && r->slot < KEDGE__SLOT_LIMIT;
}

/* The next record of T; false: there is none, or it is malformed. */
static bool table_next(struct table *t, struct record *r)
{
	if (t->left == 0 || !get_record(&t->in, t->after, r))
		return false;
	t->left--;
	t->after = r->slot + 1;
	return true;
}

static void put_text(struct kedge__wire_out *w, struct text text)
{
	kedge__wire_put(w, text.at, text.bytes);
}

/* ------------------------------------------------------------------ finding it */

struct finder {
	struct table old, new;
	struct record was, is;
	bool have_was, have_is;
	uint64_t unchanged; /* records since the last change */
	struct kedge__wire_out w;
	bool failed;
};

static void next_old(struct finder *f)
{
	f->have_was = f->old.left > 0;
	if (f->have_was)
		f->failed |= !table_next(&f->old, &f->was);
}

static void next_new(struct finder *f)
{
	f->have_is = f->new.left > 0;
	if (f->have_is)
		f->failed |= !table_next(&f->new, &f->is);
}

static void put_change(struct finder *f, enum change change)
{
	kedge__wire_put_varint(&f->w, f->unchanged << CHANGE_BITS | (unsigned)change);
	f->unchanged = 0;
}

static void put_added(struct finder *f)
{
	put_change(f, ADDED);
	put_text(&f->w, f->is.all);
	next_new(f);
}

static void put_removed(struct finder *f)
{
	put_change(f, REMOVED);
	next_old(f);
}

/* Both tables have a record in this slot. */
static void compare(struct finder *f)
{
	if (!text_equal(f->was.name, f->is.name)) {
		put_removed(f);
		put_added(f);
		return;
	}
	if (!text_equal(f->was.contents, f->is.contents)) {
		put_change(f, CONTENTS);
		put_text(&f->w, f->is.contents);
		put_text(&f->w, f->is.digest);
	} else if (!text_equal(f->was.digest, f->is.digest)) {
		put_change(f, DIGEST);
		put_text(&f->w, f->is.digest);
	} else {
		f->unchanged++;
	}
	next_old(f);
	next_new(f);
}

int kedge__regions_subtract(const void *base, size_t base_bytes, const void *data, size_t bytes,
			    struct kedge__bytes *out, struct kedge__error *err)
{
	struct finder f = {
	    .old = table_init(base, base_bytes), .new = table_init(data, bytes), .w = kedge__wire_out_init(out)};

	next_old(&f);
	next_new(&f);
	while ((f.have_was || f.have_is) && !f.failed) {
		if (!f.have_is || (f.have_was && f.was.slot < f.is.slot))
			put_removed(&f);
		else if (!f.have_was || f.is.slot < f.was.slot)
			put_added(&f);
		else
			compare(&f);
	}
	if (f.failed) {
		kedge__wire_out_undo(&f.w);
		return kedge__error_set(err, KEDGE_E_ARG, 0, "section REGN: a table is malformed");
	}
	return kedge__wire_out_finish(&f.w, err);
}

/* ------------------------------------------------------------------ applying it */

struct applier {
	struct table old;
	struct kedge__wire_in in; /* the changes */
	struct kedge__bytes records;
	struct kedge__wire_out w; /* to RECORDS */
	uint64_t count;
	uint64_t after; /* slot of the last record, plus 1 */
};

static bool put_record(struct applier *a, const struct record *r, struct text contents, struct text digest)
{
	if (r->slot < a->after)
		return false;
	put_text(&a->w, r->name);
	kedge__wire_put_varint(&a->w, r->slot - a->after);
	put_text(&a->w, contents);
	put_text(&a->w, digest);
	a->after = r->slot + 1;
	a->count++;
	return true;
}

/* The next N records of the old table, as they are. */
static bool keep(struct applier *a, uint64_t n)
{
	const uint8_t *start = a->old.in.at;
	struct record r;

	if (n > a->old.left)
		return false;
	/* Slots are counted from record to record: all but the first can be copied at once. */
	for (uint64_t i = 0; i < n; i++) {
		bool same = a->after == a->old.after;

		if (!table_next(&a->old, &r))
			return false;
		if (i == 0 && !same) {
			start = a->old.in.at;
			if (!put_record(a, &r, r.contents, r.digest))
				return false;
			continue;
		}
		a->after = a->old.after;
		a->count++;
	}
	put_text(&a->w, text_since(&a->old.in, start));
	return true;
}

static bool apply_change(struct applier *a)
{
	uint64_t head = kedge__wire_get_varint(&a->in);
	enum change change = (enum change)(head & ((1u << CHANGE_BITS) - 1));
	struct text contents = {0}, digest = {0};
	struct record r;

	if (a->in.failed || !keep(a, head >> CHANGE_BITS))
		return false;
	if (change == ADDED)
		return get_record(&a->in, a->after, &r) && put_record(a, &r, r.contents, r.digest);
	if (!table_next(&a->old, &r))
		return false;
	switch (change) {
	case DIGEST:
		contents = r.contents;
		digest = (struct text){kedge__wire_get(&a->in, DIGEST_BYTES), DIGEST_BYTES};
		break;
	case CONTENTS:
		get_contents(&a->in, &contents, &digest);
		break;
	default:
		return true; /* REMOVED */
	}
	return !a->in.failed && put_record(a, &r, contents, digest);
}

int kedge__regions_apply(const void *base, size_t base_bytes, const void *data, size_t bytes, struct kedge__bytes *out,
			 struct kedge__error *err)
{
	struct applier a = {.old = table_init(base, base_bytes), .in = kedge__wire_in_init(data, bytes)};
	struct kedge__wire_out w = kedge__wire_out_init(out);
	bool good = !a.old.in.failed;
	int rc;

	if (bytes == 0) {
		kedge__wire_put(&w, base, base_bytes);
		return kedge__wire_out_finish(&w, err);
	}
	a.w = kedge__wire_out_init(&a.records);
	while (good && a.in.left > 0)
		good = apply_change(&a);
	good = good && keep(&a, a.old.left);
	kedge__wire_put_varint(&w, a.count);
	kedge__wire_put(&w, a.records.at, a.records.count);
	w.failed |= a.w.failed;
	kedge__bytes_done(&a.records);
	if (good)
		return kedge__wire_out_finish(&w, err);
	rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the difference does not fit the table that it is based on");
	kedge__wire_out_undo(&w);
	return rc;
}
