/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge restore: the files of a version, byte for byte. */
#include "restore.h"
#include "restore_pages.h"
#include "tool_files.h"
#include "tool_keyed.h"
#include "tool_pages.h"
#include "tool_tree.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

/* Regions are filled in groups, so that the read of many small ones is one pass, and few large files are open at a
 * time. */
enum { GROUP_FILES = 4096, GROUP_LARGE = 128 };
#define PLAIN_LARGE (GROUP_LARGE / 8)    /* as many others: until it is packed, it takes room beside the file */
#define GROUP_HELD  (UINT64_C(64) << 20) /* bytes of small files in memory */
#define LARGE       (UINT64_C(1) << 20)

static void trees_free(struct kedge__restore *r)
{
	for (size_t i = 0; i < r->trees.count; i++) {
		kedge__restore_tree_done(r->trees.at[i]);
		kedge__free(r->trees.at[i]);
	}
	kedge__array_done(&r->trees);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int sig)
{
	interrupted = sig;
}

bool kedge__restore_interrupted(void)
{
	return interrupted;
}

void kedge__restore_catch_signals(void)
{
	kedge__tool_on_ending(interrupt, (int)SA_RESETHAND);
}

/* ------------------------------------------------------------------ one group of regions */

struct group {
	struct kedge__restore_target targets[GROUP_FILES];
	size_t outputs[GROUP_FILES]; /* the output of each target */
	size_t count, files, large;
	uint64_t held;
};

static void note_region(struct kedge__restore *r, uint32_t rank, const struct kedge__region_record *region,
			const struct kedge__output_spec *spec)
{
	uint64_t of;
	json_t *o;

	r->bytes += spec->file_bytes;
	r->files++;
	if (!r->place.json)
		return;
	o = kedge__json_object();
	kedge__json_text(o, "region", region->name);
	if (r->wanted.grouping)
		kedge__json_uint(o, "segment", rank);
	if (!r->wanted.grouping ||
	    kedge__rank_of(r->wanted.grouping->pattern, region->name, &of) == KEDGE__RANK_PRESENT)
		kedge__json_uint(o, "rank", r->wanted.grouping ? of : rank);
	kedge__json_uint(o, "bytes", spec->file_bytes);
	if (spec->form == KEDGE__FILLED_PLAIN)
		kedge__json_bool(o, "equal", true);
	kedge__json_add(r->regions, o);
}

/* RC says why FILE cannot be had. With salvage that is said, and the others follow: 0; else RC. */
static int leave_out(struct kedge__restore *r, const char *file, int rc, struct kedge__error *err)
{
	int status;

	if (!rc || !r->salvage || rc == KEDGE_E_NOMEM || rc == KEDGE_E_CANCELED)
		return rc;
	status = kedge__tool_fail(r->usage.command, err, "%s was left out", file);
	r->left_out++;
	r->left_status = KEDGE__MAX(r->left_status, status == KEDGE__EXIT_FAILURE ? KEDGE__EXIT_NO : status);
	return 0;
}

/* Room for what is not zero, so that a full disk shows now. */
static int reserve_data(struct kedge__restore *r, struct kedge__lineage *l, const struct kedge__region_record *record,
			struct kedge__error *err)
{
	struct kedge__range all = {(uint64_t)record->slot * KEDGE__SLOT_BYTES, record->bytes};
	struct kedge__span_list spans = {0};
	int rc = kedge__lineage_resolve(l, &all, 1, &spans, err);

	for (size_t i = 0; !rc && i < spans.count; i++)
		if (!spans.at[i].fill || spans.at[i].src)
			rc = kedge__outputs_reserve(&r->outputs, spans.at[i].addr - all.start, spans.at[i].len, err);
	kedge__span_list_done(&spans);
	return rc;
}

static int group_add(struct kedge__restore *r, struct group *g, struct kedge__lineage *l, size_t region,
		     struct kedge__output_spec spec, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	const struct kedge__region_record *record = &top->regions[region];
	struct kedge__restore_target *target = &g->targets[g->count];
	size_t before = r->outputs.list.count;
	int rc;

	spec.bytes = record->bytes;
	spec.holes = spec.entry && spec.entry->flags & KEDGE__TREE_SPARSE && record->bytes > LARGE &&
		     spec.form == KEDGE__FILLED_FILE;
	rc = kedge__outputs_add(&r->outputs, &spec, &target->data, err);
	if (!rc && spec.holes)
		rc = reserve_data(r, l, record, err);
	if (rc) {
		r->output_failed = true;
		if (r->outputs.list.count > before)
			kedge__outputs_drop(&r->outputs, before);
		return leave_out(r, spec.name, rc, err);
	}
	target->region = region;
	target->zeroed = spec.holes;
	g->outputs[g->count] = before;
	g->count += record->bytes > 0;
	g->files++;
	g->large += record->bytes <= LARGE ? 0 : spec.form == KEDGE__FILLED_FILE ? 1 : PLAIN_LARGE;
	g->held += record->bytes > LARGE ? 0 : record->bytes;
	note_region(r, top->header.rank, record, &spec);
	r->outputs.list.at[before].noted = r->files;
	return 0;
}

static bool group_full(const struct group *g)
{
	return g->files == GROUP_FILES || g->large >= GROUP_LARGE || g->held >= GROUP_HELD;
}

static int settle(struct kedge__restore *r, struct kedge__error *err)
{
	int rc = kedge__outputs_settle(&r->outputs, err);

	if (rc == 0 && interrupted)
		rc = kedge__error_set(err, KEDGE_E_CANCELED, 0, "interrupted");
	if (rc)
		r->output_failed = true;
	return rc;
}

static int group_fill(struct kedge__restore *r, struct kedge__lineage *l, const struct group *g, size_t first,
		      size_t count, struct kedge__error *err)
{
	struct kedge__restore_stats stats = {0};
	int rc = kedge__restore_fill(l, r->pool, kedge__job_settings_io(&r->place.settings), g->targets + first, count,
				     kedge__bar_update, &r->bar, &stats, err);

	r->bytes_read += stats.bytes_read;
	return rc;
}

/* Something in the group is damaged: each by itself, so that it is known what. */
static int group_salvage(struct kedge__restore *r, struct kedge__lineage *l, struct group *g, struct kedge__error *err)
{
	int rc = 0;

	kedge__error_done(err);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
	for (size_t i = 0; !rc && i < g->count; i++) {
		const struct kedge__region_record *record;

		g->targets[i].zeroed = false; /* the attempt before may have left anything there */
		rc = group_fill(r, l, g, i, 1, err);
		if (!rc)
			continue;
		record = &kedge__lineage_top(l)->regions[g->targets[i].region];
		kedge__outputs_drop(&r->outputs, g->outputs[i]);
		rc = leave_out(r, record->name, rc, err);
	}
	return rc;
}

/* Fill and close the files of the group. */
static int group_restore(struct kedge__restore *r, struct kedge__lineage *l, struct group *g, struct kedge__error *err)
{
	int rc = g->count ? group_fill(r, l, g, 0, g->count, err) : 0;

	if (rc && r->salvage && rc != KEDGE_E_NOMEM)
		rc = group_salvage(r, l, g, err);
	if (rc)
		return rc;
	g->count = g->files = g->large = 0;
	g->held = 0;
	return settle(r, err);
}

/* ------------------------------------------------------------------ one rank of a version */

/* By its name, word I is of a rank, but not of the one that was asked for. */
static bool is_of_another(const struct kedge__wanted *w, size_t i)
{
	uint64_t rank;

	return w->grouping && w->rank != UINT64_MAX && w->names[i] &&
	       kedge__rank_of(w->grouping->pattern, w->names[i], &rank) == KEDGE__RANK_PRESENT && rank != w->rank;
}

static int check_wanted(struct kedge__restore *r, struct kedge__error *err)
{
	for (size_t i = 0; i < r->wanted.count; i++) {
		if (r->wanted.found[i])
			continue;
		r->output_failed = true;
		if (is_of_another(&r->wanted, i))
			return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s is not of rank %llu", r->wanted.words[i],
						(unsigned long long)r->rank);
		if (r->wanted.grouping && r->rank != UINT64_MAX)
			return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it has no file '%s' of rank %llu",
						r->wanted.words[i], (unsigned long long)r->rank);
		r->lacks = r->wanted.words[i];
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it has no file or region '%s'", r->lacks);
	}
	return 0;
}

static int fill_one(struct kedge__restore *r, struct kedge__lineage *l, size_t region, void *data,
		    struct kedge__error *err)
{
	const struct kedge__restore_target target = {.region = region, .data = data};
	struct kedge__restore_stats stats = {0};
	int rc = kedge__restore_fill(l, r->pool, kedge__job_settings_io(&r->place.settings), &target, 1, NULL, NULL,
				     &stats, err);

	r->bytes_read += stats.bytes_read;
	return rc;
}

/* What the files of this rank are beside their bytes, if the version says; else NULL. */
static int read_tree(struct kedge__restore *r, struct kedge__lineage *l, struct kedge__restore_tree **out,
		     struct kedge__error *err)
{
	struct kedge__restore_tree *t = kedge__calloc(1, sizeof(*t));
	int rc;

	if (!t || !kedge__array_push(&r->trees, t))
		kedge__tool_no_memory();
	rc = kedge__tool_tree_read(l, r->pool, kedge__job_settings_io(&r->place.settings), &t->tree, &t->present,
				   &r->bytes_read, err);
	t->present = t->present && !rc;
	if (rc && !r->to_stdout)
		rc = leave_out(r, "what the files are beside their bytes", rc, err);
	if (!rc && t->present)
		kedge__restore_tree_choose(t, &r->wanted);
	*out = t->present ? t : NULL;
	return rc;
}

/* A page image becomes its two files again, unless regions are asked for by their names. */
static int restore_image(struct kedge__restore *r, struct kedge__lineage *l, int64_t folder, bool *image,
			 struct kedge__error *err)
{
	const struct kedge__restore_pages pages = {.lineage = l,
						   .pool = r->pool,
						   .io = kedge__job_settings_io(&r->place.settings),
						   .outputs = &r->outputs,
						   .folder = folder,
						   .name = r->pages ? r->pages : "pages.idx",
						   .bar = &r->bar,
						   .output_failed = &r->output_failed};
	struct kedge__restore_stats stats = {0};
	size_t count = 0;
	int rc = kedge__wanted_some(&r->wanted) ? 0 : kedge__restore_pages(&pages, &stats, &count, err);

	*image = count > 0;
	r->bytes_read += stats.bytes_read;
	r->page_count += count;
	if (rc == 0 && *image)
		rc = settle(r, err);
	return rc;
}

/* The regions that are files by themselves. */
static bool is_file(const char *name, bool image)
{
	return !image || (strcmp(name, KEDGE__PAGES_REGION) != 0 && strcmp(name, KEDGE__PAGES_INDEX) != 0);
}

/* What region NAME becomes; false: nothing. A region that no tree has is what an application protected. */
static bool choose(struct kedge__restore *r, const struct kedge__restore_tree *t, const struct kedge__segment *top,
		   size_t region, int64_t folder, struct kedge__output_spec *spec)
{
	const char *name = top->regions[region].name;
	const struct kedge__tree_entry *own = t ? kedge__tree_find(&t->tree, name) : NULL;

	*spec = (struct kedge__output_spec){.rank = folder, .name = name, .file_bytes = top->regions[region].bytes};
	if ((t || r->salvage) && strcmp(name, KEDGE__TREE_REGION) == 0)
		return false;
	if (!t && kedge__segment_find_region(top, KEDGE__TREE_REGION))
		spec->form = KEDGE__FILLED_ANY;
	if (!own)
		return kedge__wanted_fits(&r->wanted, name, false);
	if (own->flags & KEDGE__TREE_PLAIN) {
		spec->form = KEDGE__FILLED_PLAIN;
		spec->file_bytes = own->size;
	}
	spec->entry = kedge__restore_tree_output(t, name);
	if (spec->entry)
		spec->name = spec->entry->name;
	return spec->entry;
}

static int restore_regions(struct kedge__restore *r, struct kedge__lineage *l, const struct kedge__restore_tree *t,
			   int64_t folder, struct kedge__error *err)
{
	struct group g = {.count = 0};
	bool image;
	int rc = restore_image(r, l, folder, &image, err);

	for (size_t i = 0; rc == 0 && i < kedge__lineage_top(l)->region_count; i++) {
		/* A group that was restored may have turned to another copy of the segment. */
		const struct kedge__segment *top = kedge__lineage_top(l);
		struct kedge__output_spec spec;

		if (!choose(r, t, top, i, folder, &spec))
			continue;
		if (!is_file(top->regions[i].name, image)) {
			note_region(r, top->header.rank, &top->regions[i], &spec);
			continue;
		}
		rc = group_add(r, &g, l, i, spec, err);
		if (rc == 0 && group_full(&g))
			rc = group_restore(r, l, &g, err);
	}
	if (rc == 0 && g.files)
		rc = group_restore(r, l, &g, err);
	return rc;
}

static int restore_files(struct kedge__restore *r, struct kedge__lineage *l, int64_t folder, struct kedge__error *err)
{
	struct kedge__restore_tree *t;
	int rc = read_tree(r, l, &t, err);

	if (rc)
		return rc;
	if (t) {
		rc = kedge__restore_tree_directories(t, &r->outputs, folder, err);
		r->output_failed = rc != 0;
	}
	if (!rc)
		rc = restore_regions(r, l, t, folder, err);
	if (!rc && t) {
		rc = kedge__restore_tree_links(t, &r->outputs, folder, err);
		r->output_failed = rc != 0;
	}
	return rc;
}

/* Where a file that goes to standard output is put together: in memory, or if it is large in a file without a name. */
struct scratch {
	void *data;
	uint64_t bytes;
	int fd; /* -1: memory */
};

static int scratch_open(struct scratch *s, uint64_t bytes, struct kedge__error *err)
{
	int rc;

	*s = (struct scratch){.bytes = bytes, .fd = -1};
	if (bytes <= GROUP_HELD) {
		s->data = bytes ? kedge__map_alloc(bytes) : NULL;
		return bytes && !s->data ? kedge__error_nomem(err) : 0;
	}
	rc = kedge__temporary_file(&s->fd, err);
	if (!rc)
		rc = kedge__fs_allocate(s->fd, bytes, "a temporary file", err);
	if (rc)
		return rc;
	s->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->data != MAP_FAILED)
		return 0;
	s->data = NULL;
	return kedge__error_set(err, KEDGE_E_IO, errno, "cannot map a temporary file");
}

static void scratch_close(struct scratch *s)
{
	if (s->fd < 0)
		kedge__map_free(s->data, s->bytes);
	else if (s->data)
		munmap(s->data, s->bytes);
	kedge__fs_close(s->fd);
}

static int print_one(const struct kedge__restore *r, const struct scratch *s, const struct kedge__output_spec *spec,
		     struct kedge__error *err)
{
	if (spec->form == KEDGE__FILLED_PLAIN)
		return kedge__output_print(s->data, s->bytes, spec->name, r->pool, err);
	if (s->bytes && fwrite(s->data, 1, s->bytes, stdout) != s->bytes)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot write to standard output");
	return 0;
}

static int restore_one(struct kedge__restore *r, struct kedge__lineage *l, size_t region,
		       const struct kedge__output_spec *spec, struct kedge__error *err)
{
	uint64_t bytes = kedge__lineage_top(l)->regions[region].bytes;
	struct scratch s;
	int rc = scratch_open(&s, bytes, err);

	if (rc) {
		r->output_failed = true;
		(void)kedge__error_prefix(err, "cannot write a temporary copy in %s", kedge__temporary_directory());
	}
	if (!rc && bytes)
		rc = fill_one(r, l, region, s.data, err);
	if (!rc) {
		rc = print_one(r, &s, spec, err);
		r->output_failed = rc != 0;
	}
	r->written = r->written || rc == 0;
	scratch_close(&s);
	return rc;
}

/* Files one after the other, each written when it was checked. */
static int restore_stdout(struct kedge__restore *r, struct kedge__lineage *l, struct kedge__error *err)
{
	struct kedge__restore_tree *t;
	int rc = read_tree(r, l, &t, err);

	for (size_t i = 0; rc == 0 && i < kedge__lineage_top(l)->region_count; i++) {
		const struct kedge__region_record *record = &kedge__lineage_top(l)->regions[i];
		struct kedge__output_spec spec;

		if (!choose(r, t, kedge__lineage_top(l), i, -1, &spec))
			continue;
		note_region(r, kedge__lineage_top(l)->header.rank, record, &spec);
		rc = restore_one(r, l, i, &spec, err);
	}
	return rc;
}

static int restore_rank(struct kedge__restore *r, uint64_t version, uint32_t rank, int64_t folder,
			struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc = kedge__lineage_open_by(r->pool, r->place.levels, r->place.level_count, version, rank, &l, err);

	if (rc)
		return rc;
	rc = r->to_stdout ? restore_stdout(r, l, err) : restore_files(r, l, folder, err);
	kedge__lineage_close(l);
	return rc;
}

/* ------------------------------------------------------------------ versions */

static int lacks_rank(struct kedge__restore *r, struct kedge__error *err)
{
	r->output_failed = true;
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it has no files of rank %llu", (unsigned long long)r->rank);
}

/* First the segments that names point to; then the others, unless all is found. */
static int restore_grouped(struct kedge__restore *r, uint64_t version, struct kedge__error *err)
{
	bool *first = kedge__restore_segments(&r->wanted), settled = false;
	const struct kedge__tree *tree = NULL;
	int rc = first ? 0 : lacks_rank(r, err);

	for (int turn = 1; turn >= 0 && !rc && !settled; turn--) {
		for (uint32_t i = 0; !rc && i < r->wanted.grouping->count; i++) {
			if (first[i] != (turn == 1))
				continue;
			rc = restore_rank(r, version, i, -1, err);
			if (!rc && i == 0 && r->trees.count && r->trees.at[r->trees.count - 1]->present)
				tree = &r->trees.at[r->trees.count - 1]->tree;
		}
		settled = kedge__restore_settled(&r->wanted, tree);
	}
	kedge__free(first);
	if (!rc && r->rank != UINT64_MAX && !r->wanted.of_rank)
		rc = lacks_rank(r, err);
	return rc ? rc : check_wanted(r, err);
}

static int restore_ranks(struct kedge__restore *r, uint64_t version, uint32_t ranks, struct kedge__error *err)
{
	int rc = 0;

	memset(r->wanted.found, 0, r->wanted.count * sizeof(*r->wanted.found));
	r->wanted.of_rank = 0;
	if (r->wanted.grouping)
		return restore_grouped(r, version, err);
	if (r->rank != UINT64_MAX && r->rank >= ranks) {
		r->output_failed = true;
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it only has ranks 0 to %u", ranks - 1);
	}
	if (r->rank != UINT64_MAX)
		rc = restore_rank(r, version, (uint32_t)r->rank, -1, err);
	for (uint32_t rank = 0; rc == 0 && r->rank == UINT64_MAX && rank < ranks; rank++)
		rc = restore_rank(r, version, rank, ranks > 1 ? (int64_t)rank : -1, err);
	return rc ? rc : check_wanted(r, err);
}

/* All files of VERSION under temporary names. */
static int restore_version(struct kedge__restore *r, uint64_t version, struct kedge__error *err)
{
	const struct kedge__catalog_entry *e = kedge__place_find(&r->place, version);

	r->bytes = r->bytes_read = 0;
	r->files = r->page_count = 0;
	json_array_clear(r->regions);
	if (!e) {
		r->output_failed = true;
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "no such version");
	}
	if (e->problem.code)
		return kedge__error_set(err, e->problem.code, 0, "%s", kedge__error_text(&e->problem));
	r->wanted.grouping = e->set.grouping;
	r->wanted.rank = r->rank;
	return restore_ranks(r, version, e->set.ranks, err);
}

/* A pack has one version, and no other level. */
static bool is_pack(const struct kedge__restore *r)
{
	return kedge__pack_is_at(r->place.settings.l1);
}

/* The exit code, after a message. */
static int fail_version(struct kedge__restore *r, struct kedge__error *err)
{
	const char *store = r->place.settings.l1;

	if (is_pack(r) && r->lacks) {
		kedge__tool_say(r->usage.command, "%s has no file '%s'; 'kedge ls %s' lists them", store, r->lacks,
				store);
		kedge__error_done(err);
		return KEDGE__EXIT_NOTFOUND;
	}
	if (r->copy && r->output_failed && err->code != KEDGE_E_CANCELED)
		return kedge__tool_fail(r->usage.command, err, "cannot write a temporary copy in %s",
					kedge__temporary_directory());
	if (is_pack(r))
		return kedge__tool_fail(r->usage.command, err, "cannot unpack %s", store);
	return kedge__tool_fail(r->usage.command, err, "cannot restore version %llu of %s",
				(unsigned long long)r->version, r->place.name);
}

static void pass_over(struct kedge__restore *r, uint64_t version, struct kedge__error *err)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "version", version);
	kedge__json_text(o, "cause", kedge__error_text(err));
	kedge__json_add(r->passed, o);
	if (!r->place.quiet)
		kedge__tool_say(r->usage.command, "note: skipping version %llu: %s", (unsigned long long)version,
				kedge__error_text(err));
	kedge__error_done(err);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
	kedge__outputs_done(&r->outputs);
	trees_free(r);
}

/* Whoever wants errors only wants to know why there is one. */
static void say_lost(const struct kedge__restore *r)
{
	kedge__tool_say(r->usage.command,
			"cannot restore %s: no version is intact; 'kedge verify' shows what is damaged", r->place.name);
	for (size_t i = 0; r->place.quiet && i < json_array_size(r->passed); i++) {
		const json_t *o = json_array_get(r->passed, i);

		kedge__tool_say(r->usage.command, "version %lld: %s",
				(long long)json_integer_value(json_object_get(o, "version")),
				json_string_value(json_object_get(o, "cause")));
	}
}

/* The newest version that is intact, unless one was asked for. */
static int restore_newest(struct kedge__restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t n;
	uint64_t *versions = kedge__place_versions(&r->place, KEDGE__WITH_SPARE, &n);
	int status = KEDGE__EXIT_NOTFOUND;

	if (n == 0)
		kedge__tool_say(r->usage.command, "%s has no versions", r->place.name);
	while (n > 0) {
		r->version = versions[--n];
		if (restore_version(r, r->version, &err) == 0) {
			status = 0;
			break;
		}
		if (r->output_failed || r->written || err.code == KEDGE_E_NOMEM || is_pack(r)) {
			status = fail_version(r, &err);
			break;
		}
		pass_over(r, r->version, &err);
		status = KEDGE__EXIT_DAMAGED;
		if (n == 0)
			say_lost(r);
	}
	kedge__free(versions);
	return status;
}

static int restore_asked(struct kedge__restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	return restore_version(r, r->version, &err) == 0 ? 0 : fail_version(r, &err);
}

/* What was noted and left out later, by a full disk say, is not among what is there. From the last on, so that numbers
 * stay what they are. */
static void forget_lost(struct kedge__restore *r)
{
	for (size_t i = r->outputs.list.count; i-- > 0;) {
		const struct kedge__output *out = &r->outputs.list.at[i];

		if (out->kind != KEDGE__OUTPUT_GONE || !out->noted)
			continue;
		r->files--;
		r->bytes -= out->file_bytes;
		json_array_remove(r->regions, out->noted - 1);
	}
}

static void print_result(struct kedge__restore *r, double seconds)
{
	char bytes[KEDGE__TEXT_ROOM], time[KEDGE__TEXT_ROOM], files[KEDGE__TEXT_ROOM];
	json_t *o;

	if (!r->place.json) {
		if (r->place.pack && !r->place.quiet && !r->to_stdout)
			kedge__print(stdout, "%s: %s, %s unpacked to %s, %s\n", r->place.store,
				     kedge__text_count(r->files, "file", "files", files),
				     kedge__text_bytes(r->bytes, bytes), r->dir, kedge__text_seconds(seconds, time));
		else if (!r->place.quiet && !r->to_stdout)
			kedge__print(stdout, "version %llu of %s: %s, %s restored to %s, %s\n",
				     (unsigned long long)r->version, r->place.name,
				     kedge__text_count(r->files, "file", "files", files),
				     kedge__text_bytes(r->bytes, bytes), r->dir, kedge__text_seconds(seconds, time));
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "name", r->place.name);
	kedge__json_uint(o, "version", r->version);
	kedge__json_text(o, "directory", r->dir);
	kedge__json_uint(o, "bytes", r->bytes);
	if (r->page_count)
		kedge__json_uint(o, "pages", r->page_count);
	kedge__json_uint(o, "bytes_read", r->bytes_read);
	kedge__json_real(o, "seconds", seconds);
	if (r->salvage)
		kedge__json_uint(o, "left_out", r->left_out + r->outputs.left_out);
	kedge__json_set(o, "passed_over", json_incref(r->passed));
	kedge__json_set(o, "regions", json_incref(r->regions));
	kedge__json_print(o);
}

/* ------------------------------------------------------------------ the directory for the files */

/* PATH becomes the directory that it is in; false: there is none in it. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	while (slash && !slash[1]) {
		*slash = '\0';
		slash = strrchr(path, '/');
	}
	if (slash)
		*slash = '\0';
	return slash && *path;
}

static char *own_dir(const struct kedge__restore *r)
{
	char *own = kedge__strdup(r->dir);

	if (!own)
		kedge__tool_no_memory();
	return own;
}

static int make_dir(struct kedge__restore *r, struct kedge__error *err)
{
	char *path = own_dir(r);

	for (bool more = *path; more && !kedge__fs_exists(path); more = go_up(path))
		r->made++;
	kedge__free(path);
	return kedge__fs_mkdirs(r->dir, err);
}

/* There was nothing to restore: what was made for it goes again, unless something is in it. */
static void remove_dir(const struct kedge__restore *r)
{
	char *path = own_dir(r);

	for (size_t i = 0; i < r->made && kedge__fs_rmdir(path, NULL) == 0 && go_up(path); i++)
		;
	kedge__free(path);
}

/* ------------------------------------------------------------------ all of it */

static void pace(struct kedge__restore *r)
{
	kedge__job_bucket_init(&r->bucket, r->rate == UINT64_MAX ? r->place.settings.restore_rate : r->rate);
	for (size_t i = 0; i < r->place.level_count; i++)
		kedge__catalog_pace(r->place.levels[i], &r->bucket);
}

int kedge__restore_run(struct kedge__restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	double began = kedge__clock_seconds();
	int status = kedge__place_open(&r->place, &r->usage, KEDGE__PLACE_READ);

	if (status == 0 && r->which)
		status = kedge__place_version(&r->place, &r->usage, r->which, &r->version);
	if (status)
		return status;
	pace(r);
	r->passed = kedge__json_array();
	r->regions = kedge__json_array();
	if (kedge__tool_pool(&r->place.settings, &r->pool, &err) != 0 || (!r->to_stdout && make_dir(r, &err) != 0))
		return kedge__tool_fail(r->usage.command, &err, "cannot restore to %s", r->dir);
	r->outputs.dir = r->dir;
	r->outputs.sync = r->place.settings.sync;
	r->outputs.notes.command = r->usage.command;
	r->outputs.salvage = r->salvage;
	r->outputs.pool = r->pool;
	kedge__restore_catch_signals();
	kedge__bar_init(&r->bar, "restore", !r->place.json && !r->place.quiet);
	status = r->version == KEDGE__NO_VERSION ? restore_newest(r) : restore_asked(r);
	kedge__bar_done(&r->bar);
	if (status == 0 && kedge__outputs_commit(&r->outputs, &err) != 0) {
		r->output_failed = true;
		status = fail_version(r, &err);
	}
	forget_lost(r);
	kedge__outputs_done(&r->outputs); /* with what is temporary in DIR */
	if (status && !r->to_stdout)
		remove_dir(r);
	if (status == 0)
		print_result(r, kedge__clock_seconds() - began);
	return status ? status : KEDGE__MAX(r->left_status, r->outputs.left_status);
}

void kedge__restore_done(struct kedge__restore *r)
{
	kedge__outputs_done(&r->outputs);
	trees_free(r);
	kedge__wanted_done(&r->wanted);
	kedge__pool_free(r->pool);
	kedge__place_done(&r->place);
	json_decref(r->passed);
	json_decref(r->regions);
}

static int check_usage(const struct kedge__restore *r)
{
	char *data = r->pages ? kedge__page_data_path(r->pages) : NULL;
	int status = 0;

	if (!r->dir || !*r->dir)
		status = kedge__usage_error(&r->usage, "-o DIR is missing");
	else if (r->pages && !data)
		status = kedge__usage_error(&r->usage, "--pages '%s' does not end in .idx", r->pages);
	else if (r->pages && r->wanted.count)
		status = kedge__usage_error(&r->usage, "--pages cannot be combined with names of regions");
	else if (r->to_stdout && !r->wanted.count)
		status = kedge__usage_error(&r->usage, "-o - needs the names of files");
	else if (r->to_stdout && r->place.json)
		status = kedge__usage_error(&r->usage, "-o - cannot be combined with --json");
	kedge__free(data);
	return status;
}

int kedge__tool_restore(int argc, char **argv)
{
	struct kedge__restore r = KEDGE__RESTORE_INIT;
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&r.place.store),
	    KEDGE__OPTION_NAME(&r.place.name),
	    KEDGE__OPTION_CHOOSE(&r.which, "the version to restore; default: the newest that is intact"),
	    {"output", 'o', KEDGE__OPTION_TEXT, &r.dir, "DIR",
	     "the directory for the files; created if it does not exist; '-': standard output"},
	    {"rank", 0, KEDGE__OPTION_UINT, &r.rank, "R",
	     "only this rank's files (default: all; DIR/rank-R/ if there are several)"},
	    {"pages", 0, KEDGE__OPTION_TEXT, &r.pages, "INDEX",
	     "name of a page image's index below DIR, NAME.idx; the data goes to NAME.pages (default: pages.idx)"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &r.rate, "BYTES",
	     "read at most this many bytes per second (default: no limit)"},
	    KEDGE__OPTION_L2(&r.place.l2),
	    KEDGE__OPTION_SET(&r.place.sets),
	    KEDGE__OPTION_JSON(&r.place.json),
	    KEDGE__OPTION_QUIET(&r.place.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge restore",
	    .operands = "[FILE|DIR|PATTERN]...",
	    .about =
		"Restores the files of a version below DIR, with modes, owners (as root), times, links and holes:\n"
		"all of them, or those named, in directories that are named, or that fit a pattern as '*.c'.\n"
		"Everything is verified before the first file gets its name; existing files are replaced in one step.\n"
		"Without -v, damaged versions are skipped, with a note, until an intact one is found.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge restore -s store -n home -o back work/thesis '*.bib'\n"
		       "kedge restore -s store -n home -o - work/notes.txt | less\n"
		       "kedge restore -s store -n process -o back --pages snap_01.idx",
	};
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status)) {
		kedge__wanted_init(&r.wanted, argv + first, (size_t)(argc - first));
		r.to_stdout = r.dir && strcmp(r.dir, "-") == 0;
		status = check_usage(&r) ? KEDGE__EXIT_USAGE : kedge__restore_run(&r);
	}
	kedge__restore_done(&r);
	return status;
}
