/* SPDX-License-Identifier: BSD-3-Clause */
/* What is on the L1 of all nodes, as all ranks learn it: manifests, segments and shields, of any rank. */
#include "job/recovery.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ which versions count */

static bool set_later(const struct kedge__set *a, const struct kedge__set *b)
{
	if (a->run.epoch != b->run.epoch)
		return a->run.epoch > b->run.epoch;
	if (a->created_ns != b->created_ns)
		return a->created_ns > b->created_ns;
	return a->run.id > b->run.id;
}

int64_t kedge__recovery_keep(const kedge_t *k)
{
	const struct kedge__keep *keep = &k->levels.keep[KEDGE__L1];

	return keep->bytes || kedge__keep_by_time(keep) ? 0 : (int64_t)keep->last;
}

/* SETS ascend; MARK what the newest KEEP of RUN's history need, or all of it. */
void kedge__recovery_scope(const struct kedge__set *const *sets, size_t n, const struct kedge__run *run, uint32_t ranks,
			   int64_t keep, bool *mark)
{
	int64_t left = keep > 0 ? keep : INT64_MAX;

	for (size_t i = n; i-- > 0;) {
		bool ours = sets[i] && sets[i]->ranks == ranks && kedge__history_has(run, sets[i]);

		mark[i] = ours && (mark[i] || left > 0 || sets[i]->labels);
		left -= ours && left > 0;
		for (size_t s = 0; mark[i] && s < sets[i]->source_count; s++)
			for (size_t j = 0; j < i; j++)
				mark[j] = mark[j] || (sets[j] && sets[j]->version == sets[i]->sources[s]);
	}
}

/* ------------------------------------------------------------------ what is where */

enum { TELL_SET = 1, TELL_FILE = 2 };

struct set_line { /* a manifest that can be read, or (BYTES 0) cannot */
	uint32_t tag, bytes;
	uint64_t version;
	uint64_t seal; /* of run and segments: manifests that differ only in what people wrote there are one set */
	uint64_t labelled;
};

struct file_line { /* followed by the header, if it is a shield */
	uint32_t tag, header;
	uint64_t version, bytes;
	uint32_t rank, generation;
	struct kedge__digest seal; /* of a segment */
};

static bool put(struct kedge__bytes *out, const void *data, size_t bytes)
{
	if (!kedge__array_reserve(out, out->count + bytes + 1))
		return false;
	if (bytes)
		memcpy(out->at + out->count, data, bytes);
	out->count += bytes;
	return true;
}

static int tell_sets(const struct kedge__catalog *cat, struct kedge__bytes *out, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < kedge__catalog_count(cat) && !rc; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
		struct set_line line = {.tag = TELL_SET, .version = e->version};
		struct kedge__bytes text = {0};

		if (!e->problem.code)
			rc = kedge__set_encode(&e->set, &text, err);
		line.bytes = (uint32_t)text.count;
		if (!e->problem.code) {
			line.seal = kedge__set_files(&e->set) + e->set.run.id;
			line.labelled = e->set.labels || e->set.note;
		}
		if (!rc && !put(out, &line, sizeof(line)))
			rc = kedge__error_nomem(err);
		kedge__bytes_done(&text);
	}
	return rc;
}

/* Damaged files, as far as they are seen to be, are none. */
static int tell_file(void *ctx, const struct kedge__found_file *f, struct kedge__error *err)
{
	struct kedge__bytes *out = ctx, header = {0};
	struct file_line line = {.tag = TELL_FILE, .version = f->version, .rank = f->rank, .generation = f->generation};
	struct kedge__shield_file shield = {.fd = -1};
	bool there = f->shield || kedge__segment_glance(f->path, &line.bytes, &line.seal);
	int rc = 0;

	if (f->shield) {
		rc = kedge__shield_open(f->path, &shield, NULL);
		there = !rc;
		rc = rc == KEDGE_E_NOMEM ? kedge__error_nomem(err) : 0;
		if (there)
			rc = kedge__shield_encode(&shield.shield, &header, err);
		line.header = (uint32_t)header.count;
	}
	if (!rc && there && !(put(out, &line, sizeof(line)) && put(out, header.at, header.count)))
		rc = kedge__error_nomem(err);
	kedge__shield_close(&shield);
	kedge__bytes_done(&header);
	return rc;
}

/* Of each directory, by its leader. */
static int tell(kedge_t *k, struct kedge__texts *texts, struct kedge__error *err)
{
	struct kedge__job_level *l1 = &k->levels.at[KEDGE__L1];
	struct kedge__bytes out = {0};
	int rc = l1->leads ? tell_sets(l1->write, &out, err) : 0;

	if (!rc && l1->leads)
		rc = kedge__catalog_files(l1->write, tell_file, &out, err);
	rc = kedge__spread(&k->channels.front, rc, out.at, out.count, texts, err);
	kedge__bytes_done(&out);
	return rc;
}

/* ---- manifests */

struct offer { /* of a manifest: by the lowest rank that has it, with a label or a note if there is one */
	uint64_t version, seal;
	uint32_t rank, bytes;
	bool labelled;
};

struct offers {
	struct offer *at;
	size_t count, room;
};

/* The length of the line at TEXT, or 0: it is none. */
static size_t line_bytes(const char *text, size_t left, uint32_t *tag)
{
	struct file_line file;

	if (left < sizeof(struct set_line))
		return 0;
	*tag = kedge__get32(text);
	if (*tag == TELL_SET)
		return sizeof(struct set_line);
	if (*tag != TELL_FILE || left < sizeof(file))
		return 0;
	memcpy(&file, text, sizeof(file));
	return file.header <= left - sizeof(file) ? sizeof(file) + file.header : 0;
}

static int offer_take(struct offers *o, const char *text, uint32_t rank, struct kedge__error *err)
{
	struct set_line line;
	size_t i = 0;

	memcpy(&line, text, sizeof(line));
	while (i < o->count && (o->at[i].version != line.version || o->at[i].seal != line.seal))
		i++;
	if (!line.bytes || (i < o->count && (o->at[i].labelled || !line.labelled)))
		return 0;
	if (i == o->count && !kedge__array_push(o, (struct offer){0}))
		return kedge__error_nomem(err);
	o->at[i] = (struct offer){line.version, line.seal, rank, line.bytes, line.labelled};
	return 0;
}

static int compare_offers(const void *a, const void *b)
{
	const struct offer *x = a, *y = b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return x->seal < y->seal ? -1 : x->seal > y->seal;
}

static int offers_collect(const struct kedge__recovery *r, const struct kedge__texts *texts, struct offers *o,
			  struct kedge__error *err)
{
	int rc = 0;

	for (uint32_t rank = 0; rank < r->ranks && !rc; rank++) {
		size_t left, n;
		const char *at = kedge__texts_at(texts, (int)rank, &left);
		uint32_t tag;

		for (; !rc && (n = line_bytes(at, left, &tag)); at += n, left -= n)
			if (tag == TELL_SET)
				rc = offer_take(o, at, rank, err);
	}
	if (o->count)
		qsort(o->at, o->count, sizeof(*o->at), compare_offers);
	return rc;
}

static int recovered_add(struct kedge__recovery *r, const void *text, const struct offer *o, struct kedge__error *err)
{
	struct kedge__recovered v = {.barred = -1};
	int rc = kedge__set_decode(text, o->bytes, &v.set, err);

	if (rc)
		return rc;
	v.has = kedge__calloc(r->ranks, 1);
	v.paths = kedge__calloc(r->ranks, sizeof(*v.paths));
	if (v.has && v.paths && kedge__array_push(&r->list, v))
		return 0;
	kedge__free(v.has);
	kedge__free(v.paths);
	kedge__set_done(&v.set);
	return kedge__error_nomem(err);
}

/* What this rank offers, and room for any of them: before the first is sent. */
static int texts_make(const struct kedge__recovery *r, const struct offers *o, struct kedge__bytes *texts,
		      uint8_t **room, struct kedge__error *err)
{
	size_t most = 1;
	int rc = texts ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < o->count && !rc; i++) {
		const struct kedge__catalog_entry *e;

		most = KEDGE__MAX(most, o->at[i].bytes);
		if (o->at[i].rank != (uint32_t)r->k->group.rank)
			continue;
		e = kedge__catalog_find(r->k->levels.at[KEDGE__L1].write, o->at[i].version);
		rc = kedge__set_encode(&e->set, &texts[i], err);
	}
	*room = rc ? NULL : kedge__malloc(most);
	return rc || *room ? rc : kedge__error_nomem(err);
}

static int set_share(struct kedge__recovery *r, const struct offer *o, const struct kedge__bytes *text, uint8_t *room,
		     struct kedge__error *err)
{
	struct kedge__channel *ch = &r->k->channels.front;
	int rc;

	if (text->count == o->bytes)
		memcpy(room, text->at, text->count);
	rc = kedge__share(ch, (int)o->rank, room, o->bytes, err);
	return rc ? rc : kedge__agree(ch, KEDGE__STEP_RECOVER, 4, recovered_add(r, room, o, err), NULL, err);
}

static int sets_share(struct kedge__recovery *r, const struct offers *o, int rc, struct kedge__error *err)
{
	struct kedge__bytes *texts = kedge__calloc(o->count + 1, sizeof(*texts));
	uint8_t *room = NULL;

	if (!rc)
		rc = texts_make(r, o, texts, &room, err);
	rc = kedge__agree(&r->k->channels.front, KEDGE__STEP_RECOVER, 3, rc, NULL, err);
	for (size_t i = 0; i < o->count && !rc; i++)
		rc = set_share(r, &o->at[i], &texts[i], room, err);
	for (size_t i = 0; texts && i < o->count; i++)
		kedge__bytes_done(&texts[i]);
	kedge__free(texts);
	kedge__free(room);
	return rc;
}

/* ---- which of them, and their files */

static void wanted_mark(struct kedge__recovery *r, const struct kedge__set **sets, bool *mark)
{
	const struct kedge__set *head = NULL;
	size_t n = r->list.count;

	for (size_t i = 0; i < n; i++) {
		sets[i] = &r->list.at[i].set;
		if (!head || set_later(sets[i], head))
			head = sets[i];
	}
	for (size_t best = 0, j = 1; j < n;
	     j++) { /* of those with one number, the one of the history; else the latest */
		bool first = kedge__history_has(&head->run, sets[best]),
		     second = kedge__history_has(&head->run, sets[j]);
		bool same = sets[best]->version == sets[j]->version;
		size_t worse = best;

		if (same && (first == second ? set_later(sets[best], sets[j]) : first))
			worse = j;
		else
			best = j;
		if (same)
			sets[worse] = NULL;
	}
	if (n)
		kedge__recovery_scope(sets, n, &head->run, r->ranks, kedge__recovery_keep(r->k), mark);
	for (size_t i = 0; i < n; i++)
		r->list.at[i].wanted = mark[i];
}

struct kedge__recovered *kedge__recovery_find(struct kedge__recovery *r, uint64_t version)
{
	for (size_t i = 0; i < r->list.count; i++)
		if (r->list.at[i].wanted && r->list.at[i].set.version == version)
			return &r->list.at[i];
	return NULL;
}

static int shield_take(struct kedge__recovery *r, struct kedge__recovered *v, const char *text, size_t bytes,
		       struct kedge__item *item, bool *fits, struct kedge__error *err)
{
	struct kedge__shield *s = kedge__calloc(1, sizeof(*s));
	size_t header;

	*fits =
	    s && kedge__shield_decode(text, bytes, s, &header, NULL) == 0 && kedge__shield_fits(s, &v->set, item->rank);
	if (*fits && kedge__array_push(&r->shields, s)) {
		item->shield = s;
		return 0;
	}
	if (s && !*fits) {
		kedge__free(s);
		return 0;
	}
	kedge__free(s);
	return kedge__error_nomem(err);
}

static int file_take(struct kedge__recovery *r, const char *text, uint32_t place, struct kedge__error *err)
{
	struct file_line line;
	struct kedge__recovered *v;
	struct kedge__item item = {.place = place};
	const struct kedge__set_part *part;
	bool fits = true;
	int rc = 0;

	memcpy(&line, text, sizeof(line));
	v = kedge__recovery_find(r, line.version);
	if (!v || line.rank >= v->set.ranks)
		return 0;
	part = &v->set.parts[line.rank];
	item.rank = line.rank;
	if (line.generation != part->generation ||
	    (!line.header && (line.bytes != part->file_bytes || !kedge__digest_equal(line.seal, part->seal))))
		return 0;
	if (line.header)
		rc = shield_take(r, v, text + sizeof(line), line.header, &item, &fits, err);
	if (!rc && fits && !kedge__array_push(&v->items, item))
		rc = kedge__error_nomem(err);
	return rc;
}

static void set_note(struct kedge__recovery *r, const struct offers *o, const char *text, uint32_t place)
{
	struct kedge__recovered *v;
	struct set_line line;

	memcpy(&line, text, sizeof(line));
	v = kedge__recovery_find(r, line.version);
	if (!v)
		return;
	v->has[place] = 2;
	for (size_t i = 0; i < o->count; i++)
		if (&r->list.at[i] == v && o->at[i].seal == line.seal && line.bytes)
			v->has[place] = 1;
}

static int files_take(struct kedge__recovery *r, const struct kedge__texts *texts, const struct offers *o,
		      struct kedge__error *err)
{
	int rc = 0;

	for (uint32_t rank = 0; rank < r->ranks && !rc; rank++) {
		size_t left, n;
		const char *at = kedge__texts_at(texts, (int)rank, &left);
		uint32_t tag;

		for (; !rc && (n = line_bytes(at, left, &tag)); at += n, left -= n) {
			if (tag == TELL_FILE)
				rc = file_take(r, at, rank, err);
			else
				set_note(r, o, at, rank);
		}
	}
	return rc;
}

int kedge__recovery_inventory(struct kedge__recovery *r, struct kedge__error *err)
{
	struct kedge__texts texts = {0};
	struct offers offers = {0};
	const struct kedge__set **sets = NULL;
	bool *mark = NULL;
	int rc = tell(r->k, &texts, err);

	if (rc)
		return rc;
	rc = sets_share(r, &offers, offers_collect(r, &texts, &offers, err), err);
	if (!rc) {
		sets = kedge__calloc(r->list.count + 1, sizeof(*sets));
		mark = kedge__calloc(r->list.count + 1, sizeof(*mark));
		if (sets && mark)
			wanted_mark(r, sets, mark);
		rc = sets && mark ? files_take(r, &texts, &offers, err) : kedge__error_nomem(err);
		rc = kedge__agree(&r->k->channels.front, KEDGE__STEP_RECOVER, 5, rc, NULL, err);
	}
	kedge__free(sets);
	kedge__free(mark);
	kedge__array_done(&offers);
	kedge__texts_done(&texts);
	return rc;
}
