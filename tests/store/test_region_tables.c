/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A version of many regions stores what its table has that its parent's has not. Whatever happens to the versions that
 * it continues, it has its own regions, all of them, or is refused.
 */
#include "fixture.h"

#include "../lib/reseal.h"

#define COUNT  40 /* regions */
#define MANY   64 /* at most */
#define EACH   UINT64_C(64)
#define CHAIN  50
#define LONGER 270

struct model_region {
	char name[32];
	uint32_t slot;
	uint64_t bytes;
	uint8_t data[2 * EACH];
};

struct model { /* the regions of a version, in the order of their slots */
	struct model_region at[MANY];
	size_t count;
	uint64_t version;
};

static struct model models[LONGER + 1]; /* by version */

static void model_init(struct model *m)
{
	uint64_t seed = 1;

	memset(m, 0, sizeof(*m));
	for (m->count = 0; m->count < COUNT; m->count++) {
		struct model_region *r = &m->at[m->count];

		snprintf(r->name, sizeof(r->name), "region-%zu", m->count);
		r->slot = (uint32_t)(2 * m->count + 1);
		r->bytes = EACH;
		for (size_t i = 0; i < EACH; i++)
			r->data[i] = (uint8_t)draw(&seed);
	}
}

static void region_remove(struct model *m, size_t i)
{
	memmove(&m->at[i], &m->at[i + 1], (--m->count - i) * sizeof(m->at[0]));
}

static void region_add(struct model *m, size_t at, uint32_t slot, uint64_t version)
{
	struct model_region r = {.slot = slot, .bytes = EACH / 2};

	snprintf(r.name, sizeof(r.name), "new-%llu", (unsigned long long)version);
	memset(r.data, (int)version, sizeof(r.data));
	memmove(&m->at[at + 1], &m->at[at], (m->count++ - at) * sizeof(m->at[0]));
	m->at[at] = r;
}

/* In turn: a byte changes; a region is added in front, behind, between; one goes; one grows; one has another name;
 * nothing. */
static void model_change(struct model *m, uint64_t version)
{
	size_t i = (size_t)version * 7 % m->count;

	switch (version % 8) {
	case 0:
		m->at[i].data[3] ^= (uint8_t)(version | 1);
		break;
	case 1:
		if (m->at[0].slot > 0)
			region_add(m, 0, 0, version);
		break;
	case 2:
		if (m->count < MANY - 2)
			region_add(m, m->count, m->at[m->count - 1].slot + 3, version);
		break;
	case 3:
		region_remove(m, i);
		break;
	case 4:
		m->at[i].bytes = m->at[i].bytes == EACH ? EACH + 17 : EACH;
		break;
	case 5:
		snprintf(m->at[i].name, sizeof(m->at[i].name), "renamed-%llu", (unsigned long long)version);
		break;
	case 6:
		if (i > 0 && m->at[i].slot > m->at[i - 1].slot + 1)
			region_add(m, i, m->at[i].slot - 1, version);
		break;
	}
}

static const struct model_region *find_slot(const struct model *m, uint32_t slot)
{
	for (size_t i = 0; m && i < m->count; i++)
		if (m->at[i].slot == slot)
			return &m->at[i];
	return NULL;
}

/* A region that its parent has as it is refers to it; every other one is a literal. */
static void reduce_model(const struct model *m, const struct model *parent, struct kedge__reduction *red)
{
	*red = (struct kedge__reduction){
	    .reducer = KEDGE__REDUCER_TREE, .chunk = CHUNK, .version = m->version, .parent = KEDGE__NO_VERSION};
	for (size_t i = 0; i < m->count; i++) {
		const struct model_region *r = &m->at[i], *old = find_slot(parent, r->slot);
		struct kedge__extent e = {.addr = address((int)r->slot, 0), .len = r->bytes};

		if (old && old->bytes >= r->bytes && memcmp(old->data, r->data, r->bytes) == 0) {
			e.kind = KEDGE__EXTENT_PARENT;
			red->parent = parent->version;
		} else {
			e.src = red->literal_bytes;
			add_literal(red, r->data, r->bytes, (int)i);
		}
		assert_ok(kedge__extent_tape_append(&red->map, e, true, err));
	}
}

static void describe_model(const struct model *m, struct kedge__region_record *records)
{
	for (size_t i = 0; i < m->count; i++)
		records[i] = (struct kedge__region_record){
		    .name = (char *)m->at[i].name,
		    .slot = m->at[i].slot,
		    .type = KEDGE_U8,
		    .bytes = m->at[i].bytes,
		    .digest = kedge__sum_digest(kedge__sum_of(m->at[i].data, m->at[i].bytes, 0), m->at[i].bytes)};
}

/* Write M, which may refer to PARENT, and publish it; the bytes of its metadata. */
static uint64_t save_model(struct kedge__catalog *cat, const struct model *m, const struct model *parent)
{
	struct kedge__region_record records[MANY];
	struct kedge__source_record source = {0};
	struct kedge__set_part part = {0};
	struct kedge__reduction red;
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = m->version,
					   .ranks = 1,
					   .next_slot = 1 << 19,
					   .regions = records,
					   .region_count = m->count,
					   .reduction = &red,
					   .sources = &source,
					   .block_bytes = 4096};
	struct kedge__set set = {.name = NAME,
				 .version = m->version,
				 .parent = KEDGE__NO_VERSION,
				 .created_ns = 1,
				 .reducer = KEDGE__REDUCER_TREE,
				 .ranks = 1,
				 .parts = &part,
				 .sources = &source.version};

	assert_ok(kedge__codec_choice_parse("none", &spec.codec, err));
	describe_model(m, records);
	reduce_model(m, parent, &red);
	if (red.parent != KEDGE__NO_VERSION) {
		source.version = set.parent = red.parent;
		source.image_id = kedge__catalog_find(cat, red.parent)->set.parts[0].image_id;
		set.source_count = spec.source_count = 1;
	}
	assert_ok(kedge__catalog_pin(cat, err));
	assert_ok(kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	kedge__catalog_unpin(cat);
	kedge__free(red.literals.at);
	kedge__extent_tape_done(&red.map);
	return part.metadata_bytes;
}

static void compare_model(const struct kedge__lineage *l, const struct model *m)
{
	const struct kedge__segment *top = kedge__lineage_top(l);

	assert_int_equal(top->region_count, m->count);
	for (size_t i = 0; i < m->count; i++) {
		uint8_t bytes[2 * EACH];

		assert_string_equal(top->regions[i].name, m->at[i].name);
		assert_int_equal(top->regions[i].slot, m->at[i].slot);
		assert_int_equal(top->regions[i].bytes, m->at[i].bytes);
		assert_ok(kedge__lineage_read((struct kedge__lineage *)l, address((int)m->at[i].slot, 0), bytes,
					      m->at[i].bytes, err));
		assert_memory_equal(bytes, m->at[i].data, m->at[i].bytes);
	}
}

/* By a catalogue that remembers nothing. */
static void assert_version(const char *dir, uint64_t version)
{
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__lineage *l;

	assert_ok(kedge__lineage_open(&cat, 1, version, 0, &l, err));
	compare_model(l, &models[version]);
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
}

static void assert_intact(const char *dir, size_t versions)
{
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;

	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.versions_intact, versions);
	assert_int_equal(report.versions_lost, 0);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
}

/* The section of VERSION, and its flags. */
static uint32_t table_flags(struct kedge__catalog *cat, uint64_t version, size_t *bytes)
{
	char *path = kedge__segment_path(cat, version, 0, kedge__catalog_find(cat, version)->set.parts[0].generation);
	struct sealed im = {.version = version};
	const struct section *s;
	uint32_t flags;

	path_make(im.path, "%s", path);
	sealed_load(&im);
	s = sealed_section(&im, KEDGE__SECTION_REGIONS);
	flags = s->flags;
	if (bytes)
		*bytes = s->data.bytes;
	sealed_free(&im);
	kedge__free(path);
	return flags;
}

/* Versions 1 to LAST, each following the one before it. */
static struct kedge__catalog *save_chain(const char *dir, uint64_t last)
{
	struct kedge__catalog *cat = open_store(dir);

	model_init(&models[1]);
	for (uint64_t v = 1; v <= last; v++) {
		if (v > 1) {
			models[v] = models[v - 1];
			model_change(&models[v], v);
		}
		models[v].version = v;
		save_model(cat, &models[v], v > 1 ? &models[v - 1] : NULL);
		assert_int_equal(table_flags(cat, v, NULL) & KEDGE__SECTION_CHANGES,
				 v > 1 ? KEDGE__SECTION_CHANGES : 0);
	}
	return cat;
}

static void test_chain(void **state)
{
	char *dir = make_dir();

	(void)state;
	kedge__catalog_close(save_chain(dir, CHAIN));
	for (uint64_t v = 1; v <= CHAIN; v++)
		assert_version(dir, v);
	assert_intact(dir, CHAIN);
	remove_dir(dir);
}

/* All regions together take more; and what refers to no parent has all of its table. */
static void test_unchanged_costs_nothing(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	size_t bytes;
	uint64_t first;

	(void)state;
	model_init(&models[1]);
	models[1].version = 1;
	first = save_model(cat, &models[1], NULL);
	models[2] = models[1];
	models[2].version = 2;
	assert_in_range(save_model(cat, &models[2], &models[1]), 1, 400);
	assert_true(first > 1000);
	assert_int_equal(table_flags(cat, 2, &bytes), KEDGE__SECTION_REQUIRED | KEDGE__SECTION_CHANGES);
	assert_int_equal(bytes, 0);
	models[3] = models[2];
	models[3].version = 3;
	save_model(cat, &models[3], NULL);
	assert_int_equal(table_flags(cat, 3, NULL) & KEDGE__SECTION_CHANGES, 0);
	kedge__catalog_close(cat);
	for (uint64_t v = 1; v <= 3; v++)
		assert_version(dir, v);
	assert_intact(dir, 3);
	remove_dir(dir);
}

/* Reading must not get longer for ever: now and then there is a table that needs no other. */
static void test_chains_end(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	size_t full = 0;

	(void)state;
	model_init(&models[1]);
	for (uint64_t v = 1; v <= LONGER; v++) {
		if (v > 1)
			models[v] = models[v - 1];
		models[v].version = v;
		save_model(cat, &models[v], v > 1 ? &models[v - 1] : NULL);
		full += !(table_flags(cat, v, NULL) & KEDGE__SECTION_CHANGES);
		if (v % 100 == 0) { /* what is remembered is not needed to know how long the chain is */
			kedge__catalog_close(cat);
			cat = open_store(dir);
		}
	}
	assert_int_equal(full, 2);
	kedge__catalog_close(cat);
	assert_version(dir, LONGER);
	remove_dir(dir);
}

static void test_coalesced_in_the_middle(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = save_chain(dir, 30);
	struct kedge__coalesce_options options = {.version = 15, .block_bytes = 4096};
	struct kedge__coalesce_report report;

	(void)state;
	assert_ok(kedge__codec_choice_parse("none", &options.codec, err));
	assert_ok(kedge__coalesce(cat, NULL, &options, &report, err));
	assert_int_equal(report.versions_removed, 14);
	assert_int_equal(table_flags(cat, 15, NULL) & KEDGE__SECTION_CHANGES, 0);
	kedge__catalog_close(cat);
	for (uint64_t v = 15; v <= 30; v++)
		assert_version(dir, v);
	assert_intact(dir, 16);

	cat = open_store(dir); /* part of what is left: 22 to 27 as one, on top of 21 */
	options.version = 27;
	options.from = 22;
	assert_ok(kedge__coalesce(cat, NULL, &options, &report, err));
	assert_int_equal(report.versions_removed, 5);
	assert_int_equal(table_flags(cat, 27, NULL) & KEDGE__SECTION_CHANGES, KEDGE__SECTION_CHANGES);
	kedge__catalog_close(cat);
	for (uint64_t v = 15; v <= 30; v += v == 21 ? 6 : 1)
		assert_version(dir, v);
	assert_intact(dir, 11);
	remove_dir(dir);
}

/* Versions that are needed for their table stay, because they are needed for their bytes. */
static void test_gc_keeps_what_is_continued(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = save_chain(dir, 20);
	struct kedge__gc_report report;

	(void)state;
	models[21] = models[20];
	models[21].version = 21;
	save_model(cat, &models[21], NULL);
	for (uint64_t v = 22; v <= 25; v++) {
		models[v] = models[v - 1];
		model_change(&models[v], v);
		models[v].version = v;
		save_model(cat, &models[v], &models[v - 1]);
	}
	assert_ok(kedge__gc(cat, 3, false, &report, err));
	assert_int_equal(report.removed, 20);
	kedge__gc_report_done(&report);
	kedge__catalog_close(cat);
	for (uint64_t v = 21; v <= 25; v++)
		assert_version(dir, v);
	assert_intact(dir, 5);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ another level */

static void publish_copy(struct kedge__catalog *to, const struct kedge__set *set, struct kedge__set_part part,
			 const uint64_t *parent)
{
	struct kedge__set copy = *set;

	copy.parts = &part;
	copy.parent = parent ? *parent : KEDGE__NO_VERSION;
	copy.sources = (uint64_t *)parent;
	copy.source_count = parent ? 1 : 0;
	assert_ok(kedge__set_publish(to, &copy, err));
}

static void test_copied_to_another_level(void **state)
{
	char *dir = make_dir(), *far = make_dir();
	struct kedge__catalog *cat = save_chain(dir, 20), *to = open_store(far);

	(void)state;
	assert_ok(kedge__catalog_pin(to, err));
	for (uint64_t v = 1; v <= 20; v++) {
		const struct kedge__set *set = &kedge__catalog_find(cat, v)->set;
		struct kedge__set_part part;

		assert_ok(
		    kedge__level_copy(cat, to, v, 0, false, (struct kedge__io){0}, NULL, NULL, NULL, NULL, &part, err));
		publish_copy(to, set, part, set->source_count ? set->sources : NULL);
	}
	kedge__catalog_unpin(to);
	kedge__catalog_close(cat);
	kedge__catalog_close(to);
	remove_dir(dir);
	for (uint64_t v = 1; v <= 20; v++)
		assert_version(far, v);
	assert_intact(far, 20);
	remove_dir(far);
}

/* There the parent is another one: the newest that was taken there. */
static void test_batches_on_another_level(void **state)
{
	static const uint64_t taken[] = {4, 9, 10, 20};
	char *dir = make_dir(), *far = make_dir();
	struct kedge__catalog *cat = save_chain(dir, 20), *to = open_store(far);

	(void)state;
	assert_ok(kedge__catalog_pin(to, err));
	for (size_t i = 0; i < KEDGE__COUNT(taken); i++) {
		const struct kedge__set *set = &kedge__catalog_find(cat, taken[i])->set;
		struct kedge__batch batch = {.image = {taken[i], set->parts[0].image_id},
					     .parent = {.version = KEDGE__NO_VERSION},
					     .block_bytes = 4096};
		struct kedge__set_part part;
		bool refers;

		assert_ok(kedge__codec_choice_parse("none", &batch.codec, err));
		if (i)
			batch.parent = (struct kedge__source_record){
			    taken[i - 1], kedge__catalog_find(to, taken[i - 1])->set.parts[0].image_id};
		assert_ok(kedge__batch_write(&cat, 1, to, &batch, &part, &refers, err));
		assert_int_equal(refers, i > 0);
		publish_copy(to, set, part, i ? &taken[i - 1] : NULL);
		assert_int_equal(table_flags(to, taken[i], NULL) & KEDGE__SECTION_CHANGES,
				 i ? KEDGE__SECTION_CHANGES : 0);
	}
	kedge__catalog_unpin(to);
	kedge__catalog_close(cat);
	kedge__catalog_close(to);
	remove_dir(dir);
	for (size_t i = 0; i < KEDGE__COUNT(taken); i++)
		assert_version(far, taken[i]);
	assert_intact(far, KEDGE__COUNT(taken));
	remove_dir(far);
}

/* ------------------------------------------------------------------ damage */

static int try_version(const char *dir, const char *far, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *levels[2] = {open_store(dir), far ? open_store(far) : NULL};
	struct kedge__lineage *l = NULL;
	int rc = kedge__lineage_open(levels, far ? 2 : 1, version, 0, &l, err);

	if (!rc)
		compare_model(l, &models[version]);
	kedge__lineage_close(l);
	kedge__catalog_close(levels[0]);
	kedge__catalog_close(levels[1]);
	return rc;
}

static char *segment_path(const char *dir, uint64_t version)
{
	return kedge__asprintf("%s/" NAME "/v%020llu/r0000000-g0.seg", dir, (unsigned long long)version);
}

/* Where section REGN of the segment is. */
static void find_table(const char *path, size_t *at, size_t *bytes)
{
	struct kedge__section_entry entries[KEDGE__SECTION_LIMIT];
	struct kedge__segment_footer f;
	size_t n;
	uint8_t *file = file_read(path, &n);

	assert_ok(kedge__segment_footer_decode(file + n - KEDGE__SEGMENT_FOOTER_BYTES, n, &f, err));
	assert_ok(kedge__section_index_decode(file + f.index_offset, n - KEDGE__SEGMENT_FOOTER_BYTES - f.index_offset,
					      &f, entries, err));
	for (size_t i = 0; i < f.section_count; i++)
		if (entries[i].type == KEDGE__SECTION_REGIONS) {
			*at = (size_t)entries[i].offset;
			*bytes = (size_t)entries[i].bytes;
		}
	free(file);
}

static void found(void *ctx, const struct kedge__finding *f)
{
	uint64_t *versions = ctx;

	versions[0] |= UINT64_C(1) << f->version;
	versions[1] |= strcmp(f->section ? f->section : "", "REGN") == 0 ? UINT64_C(1) << f->version : 0;
}

/* VERSION and all that follow it are lost, and only VERSION is damaged. */
static void assert_lost_from(const char *dir, uint64_t version, uint64_t last)
{
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;
	uint64_t damaged[2] = {0};

	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, found, damaged, NULL, &report, err));
	assert_int_equal(report.versions_lost, last - version + 1);
	assert_int_equal(damaged[0], UINT64_C(1) << version);
	assert_int_equal(damaged[1], UINT64_C(1) << version);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
}

static void flip(const char *path, size_t at, int bit)
{
	size_t n;
	uint8_t *file = file_read(path, &n);

	file[at] ^= (uint8_t)(1 << bit);
	file_write(path, file, n);
	free(file);
}

static void test_every_flip_is_found(void **state)
{
	char *dir = make_dir();
	size_t at = 0, bytes = 0;
	char *path;

	(void)state;
	kedge__catalog_close(save_chain(dir, 10));
	path = segment_path(dir, 6);
	find_table(path, &at, &bytes);
	assert_in_range(bytes, 1, 200);
	for (size_t i = 0; i < bytes; i++)
		for (int bit = 0; bit < 8; bit++) {
			flip(path, at + i, bit);
			for (uint64_t v = 5; v <= 10; v++) {
				struct kedge__error problem = KEDGE__ERROR_INIT;

				assert_int_equal(try_version(dir, NULL, v, &problem), v < 6 ? 0 : KEDGE_E_DAMAGED);
				assert_true(v < 6 || strstr(kedge__error_text(&problem), "section REGN"));
				kedge__error_done(&problem);
			}
			if (i % 8 == 0 && bit == 0)
				assert_lost_from(dir, 6, 10);
			flip(path, at + i, bit);
		}
	assert_intact(dir, 10);
	kedge__free(path);
	remove_dir(dir);
}

/* A table is known by its image: another level will do. */
static void test_the_table_of_another_level(void **state)
{
	char *dir = make_dir(), *far = make_dir(), *path;
	size_t at = 0, bytes = 0;

	(void)state;
	kedge__catalog_close(save_chain(far, 10));
	kedge__catalog_close(save_chain(dir, 10));
	path = segment_path(dir, 6);
	find_table(path, &at, &bytes);
	flip(path, at, 0);
	assert_ok(try_version(dir, far, 10, err));
	assert_int_equal(unlink(path), 0);
	assert_ok(try_version(dir, far, 10, err));
	kedge__free(path);
	remove_dir(dir);
	remove_dir(far);
}

/* Put together again with all checksums, so that only the image id knows. */
static void reseal_table(const char *dir, uint64_t version, const void *data, size_t bytes, uint32_t flags)
{
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__set set = kedge__catalog_find(cat, version)->set;
	struct kedge__set_part part = set.parts[0];
	char *path = segment_path(dir, version);
	struct sealed im = {.version = version};
	struct section *s;

	path_make(im.path, "%s", path);
	sealed_load(&im);
	s = sealed_section(&im, KEDGE__SECTION_REGIONS);
	piece_set(&s->data, data, bytes);
	s->flags = flags;
	sealed_write(&im, &part);
	part.image_id = set.parts[0].image_id;
	set.parts = &part;
	assert_ok(kedge__catalog_pin(cat, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	kedge__catalog_unpin(cat);
	kedge__catalog_close(cat);
	sealed_free(&im);
	kedge__free(path);
}

static void assert_reseal_refused(const char *dir, const char *text, size_t bytes, const char *says)
{
	reseal_table(dir, 6, text, bytes, KEDGE__SECTION_REQUIRED | KEDGE__SECTION_CHANGES);
	assert_fails(KEDGE_E_DAMAGED, says, try_version(dir, NULL, 6, err));
	assert_fails(KEDGE_E_DAMAGED, "version 6", try_version(dir, NULL, 7, err));
}

static void test_differences_that_are_wrong(void **state)
{
	char *dir = make_dir();

	(void)state;
	kedge__catalog_close(save_chain(dir, 7));
	assert_reseal_refused(dir, "", 0, "image id");             /* the parent's table */
	assert_reseal_refused(dir, "\x01", 1, "image id");         /* without its first region */
	assert_reseal_refused(dir, "\xff\x7f", 2, "does not fit"); /* more regions than there are */
	assert_reseal_refused(dir, "\x80", 1, "does not fit");     /* half a number */
	assert_reseal_refused(dir, "\0short of a digest", 10, "does not fit");
	assert_reseal_refused(dir, "\2\1x\0\2\0\1", 7, "does not fit"); /* a region without a digest */
	remove_dir(dir);
}

/* A difference to nothing: SUMM and LINE must name what it continues. */
static void test_no_parent(void **state)
{
	char *dir = make_dir();
	struct kedge__segment *seg;
	char *path;

	(void)state;
	kedge__catalog_close(save_chain(dir, 2));
	path = segment_path(dir, 2);
	assert_fails(KEDGE_E_MISSING, "no store was named", kedge__segment_open(NULL, path, NULL, &seg, err));
	kedge__free(path);
	reseal_table(dir, 1, "", 0, KEDGE__SECTION_REQUIRED | KEDGE__SECTION_CHANGES);
	assert_fails(KEDGE_E_DAMAGED, "LINE does not have the parent", try_version(dir, NULL, 1, err));
	remove_dir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_chain),
	    cmocka_unit_test(test_unchanged_costs_nothing),
	    cmocka_unit_test(test_chains_end),
	    cmocka_unit_test(test_coalesced_in_the_middle),
	    cmocka_unit_test(test_gc_keeps_what_is_continued),
	    cmocka_unit_test(test_copied_to_another_level),
	    cmocka_unit_test(test_batches_on_another_level),
	    cmocka_unit_test(test_every_flip_is_found),
	    cmocka_unit_test(test_the_table_of_another_level),
	    cmocka_unit_test(test_differences_that_are_wrong),
	    cmocka_unit_test(test_no_parent),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
