/*
 * Every byte of every file, and what its loss means: a version is lost when a byte of it, here or in a version that it
 * depends on, is. Damage in blocks that a version does not use does not lose it.
 */
#include "store/internal.h"

#include <stdlib.h>

#define BATCH_BLOCKS 512

struct bad_block {
	uint64_t version;
	uint32_t rank;
	size_t block;
};

struct verify {
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	void (*found)(void *ctx, const struct kedge__finding *f);
	void *ctx;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	struct kedge__verify_report *report;
	uint64_t total;
	uint8_t *selected;                  /* one an entry, as are the next two */
	uint8_t *damaged;                   /* something of it was reported */
	uint8_t *vanished;                  /* replaced or removed by its owner while we looked */
	KEDGE__ARRAY(struct bad_block) bad; /* in order, once all segments were looked at */
	struct kedge__rank_list ranks;
};

static void report_finding(struct verify *v, const struct kedge__finding *f)
{
	v->report->findings++;
	if (v->found)
		v->found(v->ctx, f);
}

static void advance(struct verify *v, uint64_t bytes)
{
	v->report->bytes_checked += bytes;
	if (v->progress)
		v->progress(v->ctx, KEDGE__MIN(v->report->bytes_checked, v->total), v->total);
}

/* ------------------------------------------------------------------ blocks */

struct failure {
	size_t block;
	char *text;
};

struct block_check {
	const struct kedge__segment *seg;
	struct kedge__lineage *lineage; /* if it has a base that can be read */
	size_t first;
	size_t raw_room, stored_room;
	uint8_t **buffers; /* one a worker: raw, then stored */
	size_t workers;
	pthread_mutex_t mutex; /* over FAILURES */
	KEDGE__ARRAY(struct failure) failures;
};

/* What a base lacks is told where the base is: here the stored bytes are what they should be. */
static int read_block(const struct block_check *c, size_t block, uint8_t *raw, struct kedge__error *err)
{
	const struct kedge__block_record *b = &c->seg->blocks[block];
	uint64_t self = c->seg->header.version, bad = self;
	int rc;

	if (!c->lineage && kedge__codec_needs_base(b->codec, b->param))
		return kedge__segment_read_stored(c->seg, block, raw + c->raw_room, err);
	rc = kedge__lineage_read_block(c->lineage, c->seg, block, raw, raw + c->raw_room, &bad, err);
	return bad == self ? rc : 0;
}

static int check_block(void *ctx, size_t i, int worker)
{
	struct block_check *c = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t block = c->first + i;
	struct failure failure = {block, NULL};
	int rc;

	rc = read_block(c, block, c->buffers[worker], &err);
	if (!rc) {
		kedge__error_done(&err);
		return 0;
	}
	failure.text = kedge__strdup(kedge__error_text(&err));
	kedge__error_done(&err);
	pthread_mutex_lock(&c->mutex);
	rc = failure.text && kedge__array_push(&c->failures, failure) ? 0 : KEDGE_E_NOMEM;
	pthread_mutex_unlock(&c->mutex);
	if (rc)
		kedge__free(failure.text);
	return rc;
}

static void block_check_done(struct block_check *c)
{
	for (size_t i = 0; c->buffers && i < c->workers; i++)
		kedge__free(c->buffers[i]);
	kedge__free(c->buffers);
	for (size_t i = 0; i < c->failures.count; i++)
		kedge__free(c->failures.at[i].text);
	kedge__array_done(&c->failures);
	kedge__lineage_close(c->lineage);
	pthread_mutex_destroy(&c->mutex);
}

static int block_check_init(struct block_check *c, const struct kedge__segment *seg, struct verify *v,
			    struct kedge__error *err)
{
	*c = (struct block_check){.seg = seg, .workers = v->pool ? (size_t)kedge__pool_threads(v->pool) : 1};
	pthread_mutex_init(&c->mutex, NULL);
	if (seg->base != KEDGE__NO_VERSION)
		(void)kedge__lineage_open(&v->cat, 1, seg->header.version, seg->header.rank, &c->lineage, NULL);
	for (size_t i = 0; i < seg->block_count; i++) {
		c->raw_room = KEDGE__MAX(c->raw_room, seg->blocks[i].raw_bytes);
		c->stored_room = KEDGE__MAX(c->stored_room, seg->blocks[i].stored_bytes);
	}
	c->buffers = kedge__calloc(c->workers, sizeof(*c->buffers));
	for (size_t i = 0; c->buffers && i < c->workers; i++) {
		c->buffers[i] = kedge__malloc(c->raw_room + c->stored_room + 1);
		if (!c->buffers[i])
			break;
	}
	if (c->buffers && c->buffers[c->workers - 1])
		return 0;
	block_check_done(c);
	return kedge__error_nomem(err);
}

static int compare_failures(const void *a, const void *b)
{
	size_t x = ((const struct failure *)a)->block, y = ((const struct failure *)b)->block;

	return x < y ? -1 : x > y;
}

static int report_failures(struct verify *v, struct block_check *c, struct kedge__error *err)
{
	const struct kedge__segment *seg = c->seg;

	if (c->failures.count)
		qsort(c->failures.at, c->failures.count, sizeof(*c->failures.at), compare_failures);
	for (size_t i = 0; i < c->failures.count; i++) {
		size_t block = c->failures.at[i].block;
		struct kedge__finding finding = {.version = seg->header.version,
						 .rank = seg->header.rank,
						 .file = seg->path,
						 .block = (int64_t)block,
						 .region = seg->regions[seg->blocks[block].region].name,
						 .text = c->failures.at[i].text};

		report_finding(v, &finding);
		if (!kedge__array_push(&v->bad, ((struct bad_block){seg->header.version, seg->header.rank, block})))
			return kedge__error_nomem(err);
	}
	return 0;
}

static int check_blocks(struct verify *v, const struct kedge__segment *seg, bool *sound, struct kedge__error *err)
{
	struct block_check c;
	int rc;

	rc = block_check_init(&c, seg, v, err);
	if (rc)
		return rc;
	for (c.first = 0; c.first < seg->block_count && !rc; c.first += BATCH_BLOCKS) {
		size_t n = KEDGE__MIN(BATCH_BLOCKS, seg->block_count - c.first);
		uint64_t bytes = 0;

		rc = kedge__pool_for(v->pool, n, check_block, &c);
		for (size_t i = 0; i < n; i++)
			bytes += seg->blocks[c.first + i].stored_bytes;
		advance(v, bytes);
	}
	if (rc)
		(void)kedge__error_nomem(err);
	else
		rc = report_failures(v, &c, err);
	v->report->blocks += seg->block_count;
	*sound = c.failures.count == 0;
	block_check_done(&c);
	return rc;
}

/* ------------------------------------------------------------------ segments and sets */

/* Did the owner put another set in the place of the one we know? */
static bool was_replaced(const struct verify *v, const struct kedge__set *set, uint32_t rank)
{
	struct kedge__set now;
	bool same;

	if (kedge__catalog_read_set(v->cat, set->version, &now, NULL) != 1)
		return true;
	same = rank < now.ranks && kedge__digest_equal(now.parts[rank].seal, set->parts[rank].seal);
	kedge__set_done(&now);
	return !same;
}

static int check_segment(struct verify *v, size_t entry, uint32_t rank, struct kedge__error *err)
{
	const struct kedge__set *set = &v->cat->entries.at[entry]->set;
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__finding finding = {.version = set->version, .rank = rank, .block = -1};
	char *path = kedge__segment_path(v->cat, set->version, rank, set->parts[rank].generation);
	struct kedge__segment_place place;
	struct kedge__segment *seg;
	bool sound = false;
	int rc;

	if (!path)
		return kedge__error_nomem(err);
	finding.file = path;
	place = (struct kedge__segment_place){.path = path, .part = &set->parts[rank], .set = set, .fd = -1};
	rc = kedge__segment_load(&place, KEDGE__SEGMENT_ALL, &finding.section, &seg, &problem);
	if (!rc) {
		v->report->segments++;
		rc = check_blocks(v, seg, &sound, err);
		advance(v, seg->footer.file_bytes - seg->footer.payload_bytes);
		kedge__segment_close(seg);
	} else if (rc == KEDGE_E_NOMEM) {
		(void)kedge__error_nomem(err);
	} else {
		rc = 0;
		v->vanished[entry] |= was_replaced(v, set, rank);
		finding.text = kedge__error_text(&problem);
		if (!v->vanished[entry])
			report_finding(v, &finding);
	}
	if (!sound && !v->vanished[entry])
		v->damaged[entry] = 1;
	kedge__error_done(&problem);
	kedge__free(path);
	return rc;
}

/* Told once, however many versions there are: such a store is one of several that are local to a node, or half lost. */
static void report_absent_rank(struct verify *v, size_t entry, uint32_t rank)
{
	struct kedge__finding finding = {
	    .version = v->cat->entries.at[entry]->version,
	    .rank = rank,
	    .file = v->cat->dir,
	    .block = -1,
	    .section = "rank",
	    .text = "no segment of this rank is in this store; if it is local to a node, look on the "
		    "rank's own node"};

	v->damaged[entry] = 1;
	for (size_t i = 0; i < entry; i++) {
		const struct kedge__catalog_entry *older = v->cat->entries.at[i];

		if (v->selected[i] && !older->problem.code && rank < older->set.ranks)
			return;
	}
	report_finding(v, &finding);
}

static int check_entry(struct verify *v, size_t i, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = v->cat->entries.at[i];
	struct kedge__finding finding = {.version = entry->version, .block = -1, .section = "manifest"};
	char *path = kedge__catalog_set_path(v->cat, entry->version);
	int rc = path ? 0 : kedge__error_nomem(err);

	v->report->sets++;
	if (!rc && entry->problem.code) {
		finding.file = path;
		finding.text = kedge__error_text(&entry->problem);
		v->damaged[i] = 1;
		report_finding(v, &finding);
	}
	kedge__free(path);
	for (uint32_t rank = 0; !rc && !entry->problem.code && rank < entry->set.ranks; rank++) {
		if (kedge__rank_list_has(&v->ranks, rank))
			rc = check_segment(v, i, rank, err);
		else
			report_absent_rank(v, i, rank);
	}
	return rc;
}

/* ------------------------------------------------------------------ what is lost */

static int compare_bad(const void *a, const void *b)
{
	const struct bad_block *x = a, *y = b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

/* The first bad block of (version, rank) that is not below BLOCK, or NULL. */
static const struct bad_block *find_bad(const struct verify *v, struct bad_block from)
{
	size_t low = 0, high = v->bad.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_bad(&v->bad.at[middle], &from) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == v->bad.count || v->bad.at[low].version != from.version || v->bad.at[low].rank != from.rank)
		return NULL;
	return &v->bad.at[low];
}

/* Any of SPANS is in a block that is known to be bad. */
static bool meets_bad_block(const struct verify *v, const struct kedge__lineage *l,
			    const struct kedge__span_list *spans)
{
	uint32_t rank = kedge__lineage_top(l)->header.rank;

	for (size_t i = 0; v->bad.count && i < spans->count; i++) {
		const struct kedge__span *s = &spans->at[i];
		const struct kedge__segment *seg;
		const struct bad_block *bad;

		if (s->fill)
			continue;
		seg = kedge__lineage_segment(l, s->version);
		bad = find_bad(v, (struct bad_block){s->version, rank, kedge__segment_find_block(seg, s->src)});
		if (bad && bad->block <= kedge__segment_find_block(seg, s->src + s->len - 1))
			return true;
	}
	return false;
}

/* A block that was packed against bytes in a bad block is as bad. */
static int spread_to_block(const struct verify *v, struct kedge__lineage *l, size_t i, bool *bad,
			   struct kedge__error *err)
{
	const struct kedge__segment *seg = kedge__lineage_top(l);
	const struct kedge__block_record *b = &seg->blocks[i];
	struct kedge__span_list spans = {0};
	int rc;

	*bad = false;
	if (!kedge__codec_needs_base(b->codec, b->param))
		return 0;
	rc = kedge__base_resolve(l, seg->base, &seg->places, b->position, b->raw_bytes, &spans, err);
	*bad = !rc && meets_bad_block(v, l, &spans);
	kedge__span_list_done(&spans);
	return rc;
}

static int spread_to_segment(struct verify *v, uint64_t version, uint32_t rank, struct kedge__error *err)
{
	KEDGE__ARRAY(struct bad_block) more = {0}; /* none of them is the base of another */
	struct kedge__lineage *l;
	int rc = 0;

	if (kedge__lineage_open(&v->cat, 1, version, rank, &l, NULL) != 0)
		return 0;
	for (size_t i = 0; kedge__lineage_top(l)->base != KEDGE__NO_VERSION && i < kedge__lineage_top(l)->block_count &&
			   rc != KEDGE_E_NOMEM;
	     i++) {
		bool bad;

		rc = spread_to_block(v, l, i, &bad, err);
		if (bad && !kedge__array_push(&more, ((struct bad_block){version, rank, i})))
			rc = kedge__error_nomem(err);
	}
	for (size_t i = 0; i < more.count && rc != KEDGE_E_NOMEM; i++)
		if (!kedge__array_push(&v->bad, more.at[i]))
			rc = kedge__error_nomem(err);
	if (more.count)
		qsort(v->bad.at, v->bad.count, sizeof(*v->bad.at), compare_bad);
	kedge__array_done(&more);
	kedge__lineage_close(l);
	return rc == KEDGE_E_NOMEM ? rc : 0;
}

/* Bases are older, so that one pass from the oldest on is enough. */
static int spread_bad(struct verify *v, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; v->bad.count && i < v->cat->entries.count && !rc; i++) {
		const struct kedge__catalog_entry *entry = v->cat->entries.at[i];

		if (!v->selected[i] || entry->problem.code)
			continue;
		for (uint32_t rank = 0; rank < entry->set.ranks && !rc; rank++)
			rc = spread_to_segment(v, entry->version, rank, err);
	}
	return rc;
}

static int resolve_rank(struct verify *v, uint64_t version, uint32_t rank, bool *lost, struct kedge__error *err)
{
	struct kedge__span_list spans = {0};
	struct kedge__lineage *l;
	int rc;

	rc = kedge__lineage_open(&v->cat, 1, version, rank, &l, err);
	if (rc)
		return rc;
	rc = kedge__lineage_resolve(l, NULL, 0, &spans, err);
	if (!rc && meets_bad_block(v, l, &spans))
		*lost = true;
	kedge__span_list_done(&spans);
	kedge__lineage_close(l);
	return rc;
}

/* Something among what entry I depends on was reported, or vanished, already. */
static bool depends_on(const struct verify *v, size_t i, const uint8_t *what)
{
	uint8_t *marks = kedge__calloc(v->cat->entries.count + 1, 1);
	bool found = false;

	if (!marks)
		return false;
	(void)kedge__catalog_mark(v->cat, v->cat->entries.at[i]->version, true, marks, NULL);
	for (size_t k = 0; k <= i && !found; k++)
		found = marks[k] && what[k];
	kedge__free(marks);
	return found;
}

static int resolve_entry(struct verify *v, size_t i, bool *lost, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = v->cat->entries.at[i];
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path = kedge__catalog_set_path(v->cat, entry->version);
	int rc = 0;

	*lost = entry->problem.code != 0;
	for (uint32_t rank = 0; !*lost && !rc && rank < entry->set.ranks; rank++) {
		struct kedge__finding finding = {
		    .version = entry->version, .rank = rank, .file = path, .block = -1, .section = "lineage"};

		rc = path ? resolve_rank(v, entry->version, rank, lost, &problem) : KEDGE_E_NOMEM;
		if (!rc || rc == KEDGE_E_NOMEM)
			continue;
		rc = 0;
		*lost = true;
		finding.text = kedge__error_text(&problem);
		if (!depends_on(v, i, v->damaged) && !depends_on(v, i, v->vanished))
			report_finding(v, &finding);
	}
	kedge__error_done(&problem);
	kedge__free(path);
	return rc ? kedge__error_nomem(err) : 0;
}

static int count_lost(struct verify *v, struct kedge__error *err)
{
	struct kedge__verify_report *report = v->report;
	int rc = 0;

	if (v->bad.count)
		qsort(v->bad.at, v->bad.count, sizeof(*v->bad.at), compare_bad);
	rc = spread_bad(v, err);
	if (rc)
		return rc;
	report->lost = kedge__calloc(v->cat->entries.count + 1, sizeof(*report->lost));
	if (!report->lost)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < v->cat->entries.count && !rc; i++) {
		bool lost;

		if (!v->selected[i] || v->vanished[i])
			continue;
		rc = resolve_entry(v, i, &lost, err);
		if (rc || (lost && depends_on(v, i, v->vanished)))
			continue;
		if (lost)
			report->lost[report->versions_lost++] = v->cat->entries.at[i]->version;
		else
			report->versions_whole++;
	}
	return rc;
}

/* ------------------------------------------------------------------ what is not in a set */

static void report_stray(struct verify *v, uint64_t version, const char *path)
{
	struct kedge__finding finding = {.version = version,
					 .file = path,
					 .block = -1,
					 .section = "stray",
					 .text =
					     "not part of any set: left by a crash, or by a job that is writing now"};

	v->report->strays++;
	if (v->found)
		v->found(v->ctx, &finding);
}

static int check_version_dir(struct verify *v, uint64_t version, const char *dir, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(v->cat, version);
	uint32_t rank, generation;
	char **names;
	size_t count;
	int rc = 0;

	if ((entry && entry->problem.code) || kedge__fs_list(dir, &names, &count, NULL) != 0)
		return 0;
	for (size_t i = 0; i < count && !rc; i++) {
		char *path = kedge__asprintf("%s/%s", dir, names[i]);

		if (!path)
			rc = kedge__error_nomem(err);
		else if (!entry || !kedge__segment_file_parse(names[i], &rank, &generation) ||
			 !kedge__set_names(&entry->set, rank, generation))
			report_stray(v, version, path);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

static bool is_known_name(const char *name)
{
	uint64_t version;

	return kedge__set_file_parse(name, &version) || strcmp(name, KEDGE__LOCK_NAME) == 0 ||
	       strcmp(name, KEDGE__GUARD_NAME) == 0 || strcmp(name, KEDGE__FILES_NAME) == 0 ||
	       strcmp(name, KEDGE__TIE_NAME) == 0 ||
	       (strncmp(name, KEDGE__RECORD_START, strlen(KEDGE__RECORD_START)) == 0 && !kedge__name_is_tmp(name));
}

static int check_strays(struct verify *v, struct kedge__error *err)
{
	char **names;
	size_t count;
	int rc;

	rc = kedge__fs_list(v->cat->dir, &names, &count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		char *path = kedge__catalog_path(v->cat, names[i]);
		uint64_t version;

		if (!path)
			rc = kedge__error_nomem(err);
		else if (kedge__version_dir_parse(names[i], &version))
			rc = check_version_dir(v, version, path, err);
		else if (!is_known_name(names[i]))
			report_stray(v, 0, path);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static void check_marker(struct verify *v)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__finding finding = {.block = -1, .section = "marker", .file = v->cat->store};

	if (kedge__marker_check(v->cat, &problem) != 0) {
		finding.text = kedge__error_text(&problem);
		report_finding(v, &finding);
	}
	kedge__error_done(&problem);
}

static int select_entries(struct verify *v, uint64_t version, struct kedge__error *err)
{
	size_t count = v->cat->entries.count;
	int rc = 0;

	v->selected = kedge__calloc(count + 1, 1);
	v->damaged = kedge__calloc(count + 1, 1);
	v->vanished = kedge__calloc(count + 1, 1);
	if (!v->selected || !v->damaged || !v->vanished)
		return kedge__error_nomem(err);
	if (version == KEDGE_NEWEST)
		memset(v->selected, 1, count);
	else
		rc = kedge__catalog_mark(v->cat, version, true, v->selected, err);
	for (size_t i = 0; i < count && !rc; i++)
		if (v->selected[i])
			v->total += kedge__set_disk_bytes(v->cat, v->cat->entries.at[i]->version);
	return rc;
}

static int verify_pinned(struct verify *v, uint64_t version, struct kedge__error *err)
{
	int rc;

	rc = kedge__catalog_scan(v->cat, err);
	if (!rc)
		rc = select_entries(v, version, err);
	if (!rc)
		rc = kedge__rank_list_init(&v->ranks, v->cat, err);
	if (rc)
		return rc;
	check_marker(v);
	for (size_t i = 0; i < v->cat->entries.count && !rc; i++)
		if (v->selected[i])
			rc = check_entry(v, i, err);
	if (!rc)
		rc = count_lost(v, err);
	if (!rc && version == KEDGE_NEWEST)
		rc = check_strays(v, err);
	if (!rc && v->progress)
		v->progress(v->ctx, v->total, v->total);
	return rc;
}

int kedge__verify(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version,
		  void (*found)(void *ctx, const struct kedge__finding *f), void *ctx,
		  void (*progress)(void *ctx, uint64_t done, uint64_t total), struct kedge__verify_report *report,
		  struct kedge__error *err)
{
	struct kedge__verify_report done = {0};
	struct verify v = {.cat = cat, .pool = pool, .found = found, .ctx = ctx, .progress = progress, .report = &done};
	int rc;

	rc = kedge__catalog_pin(cat, err);
	if (rc)
		return rc;
	rc = verify_pinned(&v, version, err);
	kedge__catalog_unpin(cat);
	kedge__free(v.selected);
	kedge__free(v.damaged);
	kedge__free(v.vanished);
	kedge__array_done(&v.bad);
	kedge__rank_list_done(&v.ranks);
	if (!rc && report)
		*report = done;
	else
		kedge__verify_report_done(&done);
	return rc;
}

void kedge__verify_report_done(struct kedge__verify_report *report)
{
	kedge__free(report->lost);
	*report = (struct kedge__verify_report){0};
}
