/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job to test the store with: its regions change from version to version, the maps that describe the changes
 * are made here, chunk by chunk, and every version's bytes are remembered: the store must give them back.
 */
#ifndef KEDGE_TESTS_STORE_FIXTURE_H
#define KEDGE_TESTS_STORE_FIXTURE_H

#include "../lib/cases.h"
#include "../lib/damage.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK        32
#define REGIONS      3
#define RANKS_MAX    2
#define VERSIONS_MAX 32
#define NAME         "job"

#define assert_ok(call)                                                                                                \
	do {                                                                                                           \
		struct kedge__error err_ = KEDGE__ERROR_INIT, *err = &err_;                                            \
		int rc_ = (call);                                                                                      \
		if (rc_ != 0)                                                                                          \
			fail_msg("%s: %d: %s", #call, rc_, kedge__error_text(err));                                    \
		kedge__error_done(err);                                                                                \
	} while (0)

/* CALL uses `err`. It must fail with WANTED, and SAY it. */
#define assert_fails(wanted, says, call)                                                                               \
	do {                                                                                                           \
		struct kedge__error err_ = KEDGE__ERROR_INIT, *err = &err_;                                            \
		int rc_ = (call);                                                                                      \
		if (rc_ != (wanted) || err->code != (wanted) || !strstr(kedge__error_text(err), says))                 \
			fail_msg("%s: %d, not %d \"%s\": %s", #call, rc_, wanted, says, kedge__error_text(err));       \
		kedge__error_done(err);                                                                                \
	} while (0)

/* Without /proc nothing can be known of another process. */
static inline bool proof_is_to_be_had(void)
{
	char text[64];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return strtol(text, NULL, 10) == (long)getpid();
}

/* ------------------------------------------------------------------ directories */

static inline char *make_dir(void)
{
	char path[FILES_PATH];

	scratch_make(path, sizeof(path), "store");
	return kedge__strdup(path);
}

static inline void remove_dir(char *path)
{
	scratch_remove(path);
	kedge__free(path);
}

/* The names of all files and directories below PATH but the index, each with its size, in one string. */
static inline char *tree_text(const char *path, const char *prefix, char *text)
{
	char **names;
	size_t count;

	if (kedge__fs_list(path, &names, &count, NULL) != 0)
		return text;
	for (size_t i = 0; i < count; i++) {
		char *full = kedge__asprintf("%s/%s", path, names[i]),
		     *name = kedge__asprintf("%s/%s", prefix, names[i]);
		char *longer;
		struct stat st;

		if (strcmp(names[i], "index") == 0) {
			kedge__free(full);
			kedge__free(name);
			continue;
		}
		assert_int_equal(stat(full, &st), 0);
		longer =
		    kedge__asprintf("%s%s %ld\n", text ? text : "", name, S_ISDIR(st.st_mode) ? -1L : (long)st.st_size);
		kedge__free(text);
		text = longer;
		if (S_ISDIR(st.st_mode))
			text = tree_text(full, name, text);
		kedge__free(full);
		kedge__free(name);
	}
	kedge__fs_list_free(names, count);
	return text;
}

/* ------------------------------------------------------------------ the job */

struct image {
	uint8_t *data[REGIONS];
	uint64_t bytes[REGIONS];
};

struct job {
	uint32_t ranks;
	uint32_t fulls; /* a bit for each rank whose part of the next version is full, whatever that of others is */
	uint32_t rows;  /* a bit for each index whose region digests are as they were up to format 1.7 */
	uint64_t scale; /* bytes of the first region */
	size_t count;
	uint64_t versions[VERSIONS_MAX];
	struct image images[VERSIONS_MAX][RANKS_MAX];
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	struct kedge__io io;
	struct kedge__pool *pool;
	bool base; /* each version may be packed against the one before it */
	struct kedge__codec_memory *memory;
	struct kedge__segment_stats *stats; /* NULL, or those of what was written last */
	struct kedge__companion *companion;
	const struct kedge__literal_source *source;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

static inline struct job job_new(uint32_t ranks, uint64_t scale)
{
	struct job job = {.ranks = ranks, .scale = scale, .block_bytes = 96};

	assert_ok(kedge__codec_choice_parse("none", &job.codec, err));
	return job;
}

static inline void job_done(struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		for (uint32_t rank = 0; rank < job->ranks; rank++)
			for (int r = 0; r < REGIONS; r++)
				free(job->images[i][rank].data[r]);
	job->count = 0;
}

/* Region 0 keeps its size, region 1 grows (odd sizes), region 2 is empty. */
static inline uint64_t region_bytes(const struct job *job, int region, size_t index)
{
	return region == 0 ? job->scale : region == 1 ? job->scale / 4 + 3 + 40 * index : 0;
}

/* The next version of rank RANK: mostly the last one, with some chunks new, moved, zero or of one value. */
static inline struct image image_next(const struct job *job, uint32_t rank, uint64_t version)
{
	uint64_t seed = version * 1000 + rank + 112; /* of many: tests count on what is drawn here */
	struct image image = {0};

	for (int r = 0; r < REGIONS; r++) {
		const struct image *last = job->count ? &job->images[job->count - 1][rank] : NULL;
		uint64_t bytes = region_bytes(job, r, job->count);

		image.bytes[r] = bytes;
		image.data[r] = malloc(bytes + 1);
		for (uint64_t i = 0; i < bytes; i++)
			image.data[r][i] = (uint8_t)draw(&seed);
		if (last)
			memcpy(image.data[r], last->data[r], KEDGE__MIN(bytes, last->bytes[r]));
		for (uint64_t at = 0; at + CHUNK <= bytes; at += CHUNK) {
			uint64_t dice = draw(&seed) % 10;

			if (dice == 0)
				for (int i = 0; i < CHUNK; i++)
					image.data[r][at + i] = (uint8_t)draw(&seed);
			else if (dice == 1)
				memset(image.data[r] + at, 0, CHUNK);
			else if (dice == 2)
				memset(image.data[r] + at, (int)(version + 1), CHUNK);
			else if (dice == 3)
				memmove(image.data[r] + at, image.data[r] + draw(&seed) % (bytes / CHUNK) * CHUNK,
					CHUNK);
		}
	}
	return image;
}

/* ------------------------------------------------------------------ maps */

static inline uint64_t address(int region, uint64_t offset)
{
	return ((uint64_t)region << KEDGE__SLOT_SHIFT) + offset;
}

static inline bool is_constant(const uint8_t *data, uint64_t len, uint64_t *pattern)
{
	for (uint64_t i = 8; i < len; i++)
		if (data[i] != data[i & 7])
			return false;
	if (len < 8)
		return false;
	*pattern = kedge__get64(data);
	return true;
}

struct mapper {
	const struct job *job;
	size_t index;
	uint32_t rank;
	enum kedge__reducer_id how;
	struct kedge__reduction *red;
};

static inline void add_reference(struct kedge__reduction *red, uint64_t version)
{
	size_t at = 0;

	while (at < red->source_count && red->sources[at] < version)
		at++;
	if (at < red->source_count && red->sources[at] == version)
		return;
	memmove(red->sources + at + 1, red->sources + at, (red->source_count - at) * sizeof(*red->sources));
	red->sources[at] = version;
	red->source_count++;
}

/* A chunk of an older version, or a literal of this one, that has the same bytes. */
static inline bool find_copy(const struct mapper *m, const uint8_t *data, uint64_t len, struct kedge__extent *e)
{
	struct kedge__extent_reader map = kedge__extents_of_tape(&m->red->map);
	struct kedge__extent old;

	for (size_t v = 0; v < m->index; v++)
		for (int r = 0; r < REGIONS; r++) {
			const struct image *image = &m->job->images[v][m->rank];

			for (uint64_t at = 0; at + len <= image->bytes[r]; at += CHUNK)
				if (memcmp(image->data[r] + at, data, len) == 0) {
					e->version = m->job->versions[v];
					e->src = address(r, at);
					add_reference(m->red, e->version);
					return true;
				}
		}
	while (kedge__extent_next(&map, &old)) {
		const struct image *image = &m->job->images[m->index][m->rank];
		uint64_t offset = old.addr & (KEDGE__SLOT_BYTES - 1);

		if (old.kind == KEDGE__EXTENT_LITERAL && old.len >= len &&
		    memcmp(image->data[old.addr >> KEDGE__SLOT_SHIFT] + offset, data, len) == 0) {
			e->version = m->job->versions[m->index];
			e->src = old.addr;
			return true;
		}
	}
	return false;
}

static inline void add_literal(struct kedge__reduction *red, const uint8_t *data, uint64_t len, int region)
{
	struct kedge__literal *last = red->literals.count ? &red->literals.at[red->literals.count - 1] : NULL;

	red->literal_bytes += len;
	if (last && last->region == (uint32_t)region && (const uint8_t *)last->data + last->bytes == data)
		last->bytes += len;
	else
		assert_true(
		    kedge__array_push(&red->literals, ((struct kedge__literal){data, len, (uint32_t)region, 0})));
}

static inline void map_chunk(const struct mapper *m, int r, uint64_t at, uint64_t len)
{
	const struct image *image = &m->job->images[m->index][m->rank];
	const struct image *last = m->index ? &m->job->images[m->index - 1][m->rank] : NULL;
	const uint8_t *data = image->data[r] + at;
	struct kedge__extent e = {.addr = address(r, at), .len = len, .src = m->red->literal_bytes};

	if (m->how != KEDGE__REDUCER_FULL && last && at + len <= last->bytes[r] &&
	    memcmp(last->data[r] + at, data, len) == 0) {
		e.kind = KEDGE__EXTENT_PARENT;
		e.src = 0;
		m->red->parent = m->job->versions[m->index - 1];
		add_reference(m->red, m->red->parent);
	} else if (m->how >= KEDGE__REDUCER_LIST && is_constant(data, len, &e.src)) {
		e.kind = KEDGE__EXTENT_FILL;
	} else if (m->how >= KEDGE__REDUCER_LIST && find_copy(m, data, len, &e)) {
		e.kind = KEDGE__EXTENT_COPY;
	} else {
		e.src = m->red->literal_bytes;
		e.kind = KEDGE__EXTENT_LITERAL;
		add_literal(m->red, data, len, r);
	}
	assert_ok(kedge__extent_tape_append(&m->red->map, e, m->how != KEDGE__REDUCER_LIST, err));
}

static inline void reduce_image(const struct job *job, size_t index, uint32_t rank, enum kedge__reducer_id how,
				struct kedge__reduction *red)
{
	const struct mapper m = {job, index, rank, how, red};
	const struct image *image = &job->images[index][rank];

	memset(red, 0, sizeof(*red));
	red->reducer = how;
	red->chunk = how == KEDGE__REDUCER_FULL ? 0 : CHUNK;
	red->version = job->versions[index];
	red->parent = KEDGE__NO_VERSION;
	red->sources = kedge__calloc(VERSIONS_MAX, sizeof(*red->sources));
	red->region_digests = kedge__calloc(REGIONS, sizeof(*red->region_digests));
	for (int r = 0; r < REGIONS; r++) {
		red->raw_bytes += image->bytes[r];
		red->region_digests[r] =
		    kedge__sum_digest(kedge__sum_of(image->data[r], image->bytes[r], 0), image->bytes[r]);
		for (uint64_t at = 0; at < image->bytes[r]; at += CHUNK)
			map_chunk(&m, r, at, KEDGE__MIN(CHUNK, image->bytes[r] - at));
	}
}

/* ------------------------------------------------------------------ save and compare */

static inline void describe_regions(const struct image *image, struct kedge__region_record regions[REGIONS])
{
	static char names[REGIONS][8] = {"alpha", "beta", "gamma"};

	memset(regions, 0, REGIONS * sizeof(*regions));
	for (int r = 0; r < REGIONS; r++)
		regions[r] = (struct kedge__region_record){.name = names[r],
							   .slot = (uint32_t)r,
							   .type = r == 0 ? KEDGE_F64 : KEDGE_U8,
							   .bytes = image->bytes[r]};
}

/* The caller may leave the digests in the records. */
static inline void digest_by_rows(const struct image *image, struct kedge__region_record regions[REGIONS],
				  struct kedge__reduction *red)
{
	kedge__free(red->region_digests);
	red->region_digests = NULL;
	for (int r = 0; r < REGIONS; r++) {
		struct kedge__sum sum = kedge__sum_ruled(KEDGE__SUM_ROWS, image->data[r], image->bytes[r], 0);

		regions[r].digest = kedge__sum_digest(sum, image->bytes[r]);
		regions[r].rule = KEDGE__SUM_ROWS;
	}
}

struct base_ctx {
	struct kedge__catalog *cat;
	uint64_t version;
	uint32_t rank;
};

static inline int open_base(void *ctx, struct kedge__lineage **out, struct kedge__error *err)
{
	const struct base_ctx *b = ctx;
	struct kedge__catalog *cat = b->cat;

	return kedge__lineage_open(&cat, 1, b->version, b->rank, out, err);
}

/* Write the segment of one rank of version INDEX of JOB. */
static inline int write_rank(struct kedge__catalog *cat, const struct job *job, size_t index, uint32_t rank,
			     enum kedge__reducer_id how, bool sync, struct kedge__set *set, struct kedge__error *err)
{
	struct base_ctx base = {cat, index ? job->versions[index - 1] : 0, rank};
	struct kedge__region_record regions[REGIONS];
	struct kedge__source_record sources[VERSIONS_MAX];
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = job->versions[index],
					   .rank = rank,
					   .ranks = job->ranks,
					   .next_slot = REGIONS,
					   .regions = regions,
					   .region_count = REGIONS,
					   .codec = job->codec,
					   .memory = job->memory,
					   .base = {job->base && index ? open_base : NULL, &base},
					   .block_bytes = job->block_bytes,
					   .io = job->io,
					   .sync = sync,
					   .progress = job->progress,
					   .progress_ctx = job->progress_ctx,
					   .companion = job->companion,
					   .source = job->source};
	struct kedge__segment_stats stats;
	struct kedge__reduction red;
	int rc;

	describe_regions(&job->images[index][rank], regions);
	reduce_image(job, index, rank, how, &red);
	if (job->rows >> index & 1)
		digest_by_rows(&job->images[index][rank], regions, &red);
	for (size_t i = 0; i < red.source_count; i++) {
		sources[i] = (struct kedge__source_record){
		    red.sources[i], kedge__catalog_find(cat, red.sources[i])->set.parts[rank].image_id};
		set->sources[set->source_count++] =
		    red.sources[i]; /* put in order, each once, when all ranks are there */
	}
	if (red.parent != KEDGE__NO_VERSION)
		set->parent = red.parent;
	spec.reduction = &red;
	spec.sources = sources;
	spec.source_count = red.source_count;
	rc = kedge__catalog_next_generation(cat, spec.version, rank, &spec.generation, err);
	if (!rc)
		rc = kedge__segment_write(cat, job->pool, &spec, &set->parts[rank], &stats, err);
	if (!rc && stats.base != KEDGE__NO_VERSION)
		set->sources[set->source_count++] = stats.base;
	if (!rc && job->stats)
		*job->stats = stats;
	kedge__free(red.sources);
	kedge__free(red.region_digests);
	kedge__free(red.literals.at);
	kedge__extent_tape_done(&red.map);
	return rc;
}

static inline int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Write and publish version INDEX, as the job would; on failure the segments that were written are taken back. */
static inline int save_index(struct kedge__catalog *cat, const struct job *job, size_t index,
			     enum kedge__reducer_id how, bool sync, struct kedge__error *err)
{
	struct kedge__set_part parts[RANKS_MAX] = {0};
	uint64_t sources[RANKS_MAX * (VERSIONS_MAX + 1)];
	struct kedge__set set = {.name = NAME,
				 .version = job->versions[index],
				 .parent = KEDGE__NO_VERSION,
				 .created_ns = 1,
				 .reducer = how,
				 .ranks = job->ranks,
				 .parts = parts,
				 .sources = sources};
	size_t kept = 0;
	uint32_t rank;
	int rc;

	rc = kedge__catalog_pin(cat, err);
	if (rc)
		return rc;
	for (rank = 0; rank < job->ranks && !rc; rank++)
		rc = write_rank(cat, job, index, rank, job->fulls & 1u << rank ? KEDGE__REDUCER_FULL : how, sync, &set,
				err);
	qsort(sources, set.source_count, sizeof(*sources), compare_u64);
	for (size_t i = 0; i < set.source_count; i++)
		if (!kept || sources[kept - 1] != sources[i])
			sources[kept++] = sources[i];
	set.source_count = kept;
	if (!rc)
		rc = kedge__set_publish(cat, &set, err);
	for (rank = 0; rc && rank < job->ranks; rank++)
		if (parts[rank].file_bytes)
			(void)kedge__segment_discard(cat, set.version, rank, parts[rank].generation, NULL);
	kedge__catalog_unpin(cat);
	return rc;
}

/* A new version of the job in memory alone; returns its index. */
static inline size_t job_step(struct job *job, uint64_t version)
{
	struct image next[RANKS_MAX];

	assert_true(job->count < VERSIONS_MAX);
	for (uint32_t rank = 0; rank < job->ranks; rank++)
		next[rank] = image_next(job, rank, version);
	memcpy(job->images[job->count], next, sizeof(next));
	job->versions[job->count] = version;
	return job->count++;
}

static inline void save_next(struct kedge__catalog *cat, struct job *job, uint64_t version, enum kedge__reducer_id how)
{
	size_t index = job_step(job, version);

	assert_ok(save_index(cat, job, index, how, false, err));
}

/* A test that sets it opens every lineage twice, in one thread and in several, with the same result. */
static struct kedge__pool *open_pool;

static inline int open_lineage(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank,
			       struct kedge__lineage **out, struct kedge__error *err)
{
	int rc = kedge__lineage_open(levels, n, version, rank, out, err);

	if (!open_pool)
		return rc;
	if (!rc)
		kedge__lineage_close(*out);
	assert_int_equal(kedge__lineage_open_by(open_pool, levels, n, version, rank, out, err), rc);
	return rc;
}

/* 0, an error of the store, or 1 if it gave other bytes than it got. */
static inline int compare_rank(struct kedge__catalog *const *levels, size_t n, const struct job *job, size_t index,
			       uint32_t rank, struct kedge__error *err)
{
	const struct image *image = &job->images[index][rank];
	const struct kedge__segment *top;
	struct kedge__lineage *l;
	int rc;

	rc = open_lineage(levels, n, job->versions[index], rank, &l, err);
	if (rc)
		return rc;
	top = kedge__lineage_top(l);
	if (top->region_count != REGIONS)
		rc = 1;
	for (int r = 0; r < REGIONS && !rc; r++) {
		uint8_t *bytes = malloc(image->bytes[r] + 1);

		if (top->regions[r].bytes != image->bytes[r])
			rc = 1;
		else
			rc = kedge__lineage_read(l, address((int)top->regions[r].slot, 0), bytes, image->bytes[r], err);
		if (!rc && memcmp(bytes, image->data[r], image->bytes[r]) != 0)
			rc = 1;
		free(bytes);
	}
	kedge__lineage_close(l);
	return rc;
}

static inline int compare_index(struct kedge__catalog *const *levels, size_t n, const struct job *job, size_t index,
				struct kedge__error *err)
{
	int rc = 0;

	for (uint32_t rank = 0; rank < job->ranks && !rc; rank++)
		rc = compare_rank(levels, n, job, index, rank, err);
	return rc;
}

static inline size_t index_of(const struct job *job, uint64_t version)
{
	for (size_t i = job->count; i-- > 0;)
		if (job->versions[i] == version)
			return i;
	fail_msg("version %llu is not one of the job's", (unsigned long long)version);
	return 0;
}

/* Every set in the catalogue must give back what was saved. */
static inline void assert_all_intact(struct kedge__catalog *cat, const struct job *job)
{
	struct kedge__verify_report report;

	for (size_t i = 0; i < kedge__catalog_count(cat); i++)
		assert_ok(compare_index(&cat, 1, job, index_of(job, kedge__catalog_at(cat, i)->version), err));
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.strays, 0);
	assert_int_equal(report.versions_lost, 0);
	assert_int_equal(report.versions_intact, kedge__catalog_count(cat));
	kedge__verify_report_done(&report);
}

/* Nobody knows any more what there is: it has to be looked for. */
static inline void drop_index(const char *dir)
{
	char *path = kedge__asprintf("%s/" NAME "/index", dir);

	assert_int_equal(unlink(path), 0);
	kedge__free(path);
}

static inline struct kedge__catalog *open_store(const char *dir)
{
	struct kedge__catalog *cat = NULL;

	assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	return cat;
}

/* Run STEP in a child process; returns its wait status. */
static inline int run_child(void (*step)(void *ctx), void *ctx)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		step(ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#endif
