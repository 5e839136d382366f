/* SPDX-License-Identifier: BSD-3-Clause */
/* make_golden DIR: write the golden stores and what is expected of them into a new directory. */
#include "make_golden.h"
#include "../lib/files.h"
#include "../lib/ranks.h"
#include "store/store.h"

#include <pthread.h>
#include <sys/stat.h>

#define BUNDLES_L1 "bundles-l1" /* goes when the store is there */

static const char *root;
static FILE *expected;
static pthread_mutex_t expected_lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ contents */

struct region {
	const char *name;
	enum kedge_type type;
	int ndims;
	size_t dims[2];
	uint8_t *data; /* bytes */
	size_t bytes;
};

/* Not draw() of tests/lib: what these stores contain stays the same. */
static uint64_t golden_draw(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

static void fill_random(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)golden_draw(&seed);
}

static void fill_smooth(uint8_t *p, size_t n, double scale)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		double v = scale * (double)(i / 8 + 1);

		memcpy(p + i, &v, 8);
	}
}

static void fill_text(uint8_t *p, size_t n, unsigned from)
{
	char line[32];
	size_t at = 0;

	while (at < n) {
		int len = snprintf(line, sizeof(line), "line %u of the record\n", from++);
		size_t part = KEDGE__MIN(n - at, (size_t)len);

		memcpy(p + at, line, part);
		at += part;
	}
}

static void region_resize(struct region *r, size_t bytes)
{
	uint8_t *p = calloc(1, bytes + 1);

	REQUIRE(p);
	if (r->data)
		memcpy(p, r->data, KEDGE__MIN(bytes, r->bytes));
	free(r->data);
	r->data = p;
	r->bytes = bytes;
	if (r->ndims == 2)
		r->dims[0] = bytes / kedge_type_size(r->type) / r->dims[1];
}

/* ------------------------------------------------------------------ one checkpoint */

struct job {
	kedge_t *k;
	const char *store;
	int rank;
	struct region regions[40];
	size_t count;
};

static struct region *job_region(struct job *j, const char *name, enum kedge_type type, size_t bytes, size_t columns)
{
	struct region *r = &j->regions[j->count++];

	*r = (struct region){.name = name, .type = type, .ndims = columns ? 2 : 0, .dims = {0, columns}};
	region_resize(r, bytes);
	return r;
}

static void job_open(struct job *j, const char *store, const char *reducer, const char *chunk, const char *codec,
		     const struct kedge_group *group)
{
	char l1[4096], l2[4096], settings[5][64];
	const char *list[] = {l1, settings[0], settings[1], settings[2], settings[3], settings[4], NULL, NULL, NULL};

	snprintf(l1, sizeof(l1), "l1=%s/%s", root, store);
	if (strcmp(store, "bundles") == 0) { /* as it is on L2 */
		snprintf(l1, sizeof(l1), "l1=%s/" BUNDLES_L1, root);
		snprintf(l2, sizeof(l2), "l2=%s/%s", root, store);
		list[6] = l2;
		list[7] = "group_size=2";
	}
	snprintf(settings[0], 64, "reducer=%s", reducer);
	snprintf(settings[1], 64, "chunk=%s", chunk);
	snprintf(settings[2], 64, "codec=%s", codec);
	snprintf(settings[3], 64, "block=%d", strcmp(store, "pages") == 0 ? 16384 : 4096);
	snprintf(settings[4], 64, "threads=1");
	*j = (struct job){.store = store, .rank = group ? group->rank : 0};
	if (group)
		REQUIRE(kedge_open_group(GOLDEN_NAME, NULL, list, group, &j->k) == 0);
	else
		REQUIRE(kedge_open(GOLDEN_NAME, NULL, list, &j->k) == 0);
}

static void job_expect(const struct job *j, uint64_t version)
{
	pthread_mutex_lock(&expected_lock);
	for (size_t i = 0; i < j->count; i++) {
		const struct region *r = &j->regions[i];
		struct kedge__digest d = kedge__seal(r->data, r->bytes);

		fprintf(expected, "%s %llu %d %s %zu %016llx%016llx\n", j->store, (unsigned long long)version, j->rank,
			r->name, r->bytes, (unsigned long long)d.hi, (unsigned long long)d.lo);
	}
	pthread_mutex_unlock(&expected_lock);
}

/* Without EXPECT the version will not stay. */
static void job_write(struct job *j, uint64_t version, bool expect)
{
	for (size_t i = 0; i < j->count; i++) {
		struct region *r = &j->regions[i];

		if (r->ndims)
			REQUIRE(kedge_protect_array(j->k, r->name, r->data, r->type, r->ndims, r->dims) == 0);
		else
			REQUIRE(kedge_protect(j->k, r->name, r->data, r->bytes / kedge_type_size(r->type), r->type) ==
				0);
	}
	REQUIRE(kedge_checkpoint(j->k, version) == 0);
	if (expect)
		job_expect(j, version);
}

static void job_checkpoint(struct job *j, uint64_t version)
{
	job_write(j, version, true);
}

static void job_close(struct job *j)
{
	REQUIRE(kedge_close(j->k) == 0);
	for (size_t i = 0; i < j->count; i++)
		free(j->regions[i].data);
}

/* ------------------------------------------------------------------ the stores */

static void make_full(const char *store)
{
	struct job j;
	struct region *state;

	job_open(&j, store, "full", "64", "none", NULL);
	state = job_region(&j, "state", KEDGE_U8, 700, 0);
	job_region(&j, "empty", KEDGE_F64, 0, 0);
	fill_random(state->data, 700, 1);
	job_checkpoint(&j, 0);
	fill_random(state->data, 350, 2);
	job_checkpoint(&j, 7);
	job_close(&j);
}

static void make_basic(void)
{
	struct job j;
	struct region *field, *step;

	job_open(&j, "basic", "basic", "32", "lz4", NULL);
	field = job_region(&j, "field", KEDGE_F64, 3200, 10);
	step = job_region(&j, "step", KEDGE_I32, 4, 0);
	fill_smooth(field->data, 3200, 0.5);
	step->data[0] = 1;
	job_checkpoint(&j, 1);
	fill_smooth(field->data + 640, 640, -0.25);
	step->data[0] = 2;
	job_checkpoint(&j, 2);
	region_resize(field, 3280);
	fill_smooth(field->data + 3200, 80, 7);
	step->data[0] = 3;
	job_checkpoint(&j, 3);
	job_close(&j);
}

static void make_list(void)
{
	struct job j;
	struct region *a, *b;

	job_open(&j, "list", "list", "64", "zstd", NULL);
	a = job_region(&j, "a", KEDGE_BYTES, 2001, 0);
	b = job_region(&j, "b", KEDGE_BYTES, 1000, 0);
	fill_text(a->data, 2001, 1);
	fill_random(b->data, 1000, 3);
	job_checkpoint(&j, 1);
	memmove(a->data + 128, a->data, 1280);
	fill_text(a->data, 128, 900);
	job_checkpoint(&j, 2);
	memcpy(b->data + 64, a->data + 192, 640);
	memcpy(a->data + 1024, b->data, 64);
	job_checkpoint(&j, 3);
	job_close(&j);
}

static void make_tree(void)
{
	struct job j;

	job_open(&j, "tree", "tree", "64", "auto", NULL);
	fill_smooth(job_region(&j, "temperature", KEDGE_F64, 4096, 16)->data, 4096, 1.25);
	fill_random(job_region(&j, "particles", KEDGE_U32, 3000, 0)->data, 3000, 4);
	job_region(&j, "zeros", KEDGE_C64, 5000, 0);
	memset(job_region(&j, "ones", KEDGE_I16, 1002, 0)->data, 1, 1002);
	fill_text(job_region(&j, "notes/text.txt", KEDGE_BYTES, 777, 0)->data, 777, 1);
	job_checkpoint(&j, 1);
	memmove(j.regions[1].data + 256, j.regions[1].data + 64, 1024);
	fill_random(j.regions[2].data + 1000, 100, 5);
	job_checkpoint(&j, 2);
	REQUIRE(kedge_unprotect(j.k, "notes/text.txt") == 0);
	free(j.regions[--j.count].data);
	region_resize(&j.regions[0], 2048);
	region_resize(&j.regions[1], 4500);
	memcpy(j.regions[1].data + 3000, j.regions[1].data + 512, 1500);
	job_checkpoint(&j, 3);
	fill_text(job_region(&j, "back", KEDGE_I8, 333, 0)->data, 333, 1);
	memset(j.regions[3].data, 2, 500);
	job_checkpoint(&j, 4);
	job_close(&j);
}

static void make_records(void)
{
	struct job j;
	struct region *r;

	job_open(&j, "records", "basic", "64", "records:24+lz4", NULL);
	r = job_region(&j, "atoms", KEDGE_BYTES, 6007, 0);
	for (size_t i = 0; i + 24 <= r->bytes; i += 24) {
		fill_smooth(r->data + i, 8, (double)i);
		fill_random(r->data + i + 8, 8, i);
		r->data[i + 16] = (uint8_t)(i / 24);
	}
	job_checkpoint(&j, 1);
	for (size_t i = 16; i + 24 <= r->bytes; i += 240)
		r->data[i] = 200;
	job_checkpoint(&j, 2);
	job_close(&j);
}

/* Blocks without a codec, of several pages, the last of which are short. */
static void make_pages(void)
{
	struct job j;
	struct region *r;

	job_open(&j, "pages", "tree", "64", "none", NULL);
	r = job_region(&j, "state", KEDGE_BYTES, 21000, 0);
	fill_random(r->data, r->bytes, 31);
	fill_random(job_region(&j, "small", KEDGE_BYTES, 300, 0)->data, 300, 32);
	job_checkpoint(&j, 1);
	fill_random(r->data + 4000, 9000, 33);
	job_checkpoint(&j, 2);
	job_close(&j);
}

/* Region digests by pages: of regions of several, of parts of one, of one word and of none. */
static void make_digests(void)
{
	struct job j;
	struct region *r;

	job_open(&j, "digests", "tree", "64", "none", NULL);
	r = job_region(&j, "field", KEDGE_F64, 3 * 4096 + 1000, 0);
	fill_smooth(r->data, r->bytes, 0.5);
	fill_text(job_region(&j, "text", KEDGE_BYTES, 4099, 0)->data, 4099, 5);
	fill_random(job_region(&j, "step", KEDGE_U8, 3, 0)->data, 3, 6);
	job_region(&j, "none", KEDGE_I32, 0, 0);
	job_checkpoint(&j, 1);
	fill_smooth(r->data + 4000, 200, -1);
	job_checkpoint(&j, 2);
	region_resize(r, 4096);
	j.regions[2].data[1]++;
	job_checkpoint(&j, 3);
	job_close(&j);
}

/* Pages of every kind, and pointers of every kind. */
static void make_rex(void)
{
	enum { PAGE = 4096 };
	struct job j;
	struct region *r;

	job_open(&j, "rex", "rex", "32", "zstd", NULL);
	r = job_region(&j, "memory", KEDGE_BYTES, 10 * PAGE + 100, 0);
	fill_text(r->data, r->bytes, 11);
	fill_text(job_region(&j, "stack", KEDGE_BYTES, 2 * PAGE, 0)->data, 2 * PAGE, 12);
	job_checkpoint(&j, 1);
	fill_random(r->data, 2 * PAGE, 13);                           /* literal pages */
	memset(r->data + 3 * PAGE, 0, 2 * PAGE);                      /* constant ones */
	memmove(r->data + 5 * PAGE + 1024, r->data + 5 * PAGE, 1024); /* within a page */
	memcpy(r->data + 6 * PAGE + 512, r->data + 64, 1024);         /* repeated */
	memset(r->data + 7 * PAGE, 0, 512);
	memset(r->data + 7 * PAGE + 512, 7, 512);
	for (int page = 8; page < 11; page++) /* with the same pointers */
		fill_random(r->data + page * PAGE + 32, 64, (uint64_t)page);
	job_checkpoint(&j, 2);
	memcpy(r->data + 9 * PAGE, r->data + 2 * PAGE + 24, PAGE);
	region_resize(&j.regions[1], PAGE + 77);
	job_checkpoint(&j, 3);
	job_close(&j);
}

/* Tables of regions that continue the parent's, maps in columns, packed sections. */
static void make_many(void)
{
	static char names[32][16];
	struct job j;
	struct region *field;

	job_open(&j, "many", "tree", "32", "zstd", NULL);
	field = job_region(&j, "field", KEDGE_BYTES, 32768, 0);
	fill_text(field->data, field->bytes, 1);
	for (unsigned i = 0; i < 32; i++) {
		snprintf(names[i], sizeof(names[i]), "part-%u", i);
		fill_smooth(job_region(&j, names[i], KEDGE_F64, 128, i % 2 ? 4 : 0)->data, 128, i);
	}
	job_checkpoint(&j, 1);
	for (size_t at = 0; at + 8 <= field->bytes; at += 32 * (1 + at / 32 * 7 % 11))
		fill_random(field->data + at, 8, at);
	job_checkpoint(&j, 2);
	REQUIRE(kedge_unprotect(j.k, "part-31") == 0);
	free(j.regions[--j.count].data);
	fill_smooth(job_region(&j, "new", KEDGE_F32, 64, 0)->data, 64, 3);
	region_resize(&j.regions[5], 160);
	job_checkpoint(&j, 3);
	job_checkpoint(&j, 4);
	j.regions[9].data[0]++;
	job_checkpoint(&j, 5);
	job_close(&j);
}

static void coalesce(const char *store, uint64_t version, uint64_t from, bool keep_old)
{
	struct kedge__coalesce_options options = {
	    .version = version, .from = from, .keep_old = keep_old, .block_bytes = 4096};
	struct kedge__coalesce_report report;
	struct kedge__catalog *cat;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", root, store);
	REQUIRE(kedge__codec_choice_parse("zstd", &options.codec, NULL) == 0);
	REQUIRE(kedge__catalog_open(path, GOLDEN_NAME, KEDGE__CATALOG_CREATE, &cat, NULL) == 0);
	REQUIRE(kedge__coalesce(cat, NULL, &options, &report, NULL) == 0);
	kedge__catalog_close(cat);
}

/* Five versions; in the file of expectations only those that KEPT has a bit for. */
static void make_five(const char *store, unsigned kept)
{
	struct job j;
	struct region *r;

	job_open(&j, store, "tree", "32", "zstd", NULL);
	r = job_region(&j, "data", KEDGE_BYTES, 1500, 0);
	fill_random(r->data, 1500, 6);
	for (unsigned i = 0; i < 5; i++) {
		fill_random(r->data + 200 * i, 100, 10 + i);
		memmove(r->data + 1100, r->data + 64 * i + 8, 300);
		job_write(&j, 10 * (i + 1), kept & 1u << i);
	}
	job_close(&j);
}

/* ------------------------------------------------------------------ ranks, as threads */

static void rank_main(struct seat *front, struct seat *back, void *ctx)
{
	const struct kedge_group group = {
	    .rank = front->rank, .size = front->size, .any_thread = 1, .allgather = meet, .ctx = front};
	struct region *r;
	struct job j;

	(void)back;
	job_open(&j, ctx, "tree", "32", "lz4", &group);
	r = job_region(&j, "part", KEDGE_F32, 800, 20);
	fill_smooth(r->data, 800, 1 + front->rank);
	job_checkpoint(&j, 1);
	fill_random(r->data + 100 * (front->rank + 1), 60, (uint64_t)front->rank);
	job_checkpoint(&j, 2);
	if (front->size == 3) {
		fill_random(r->data, 800, (uint64_t)front->rank + 7);
		job_checkpoint(&j, 3);
	}
	job_close(&j);
}

static void make_ranks(void)
{
	ranks_threads(2, rank_main, "ranks");
}

/* Three ranks, two of which share a file on L2. */
static void make_bundles(void)
{
	char path[4096];

	ranks_threads(3, rank_main, "bundles");
	snprintf(path, sizeof(path), "%s/" BUNDLES_L1, root);
	REQUIRE(tree_remove(path) == 0);
}

int main(int argc, char **argv)
{
	char path[4096];

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIR\n", argv[0]);
		return 2;
	}
	root = argv[1];
	REQUIRE(mkdir(root, 0777) == 0);
	snprintf(path, sizeof(path), "%s/expected", root);
	expected = fopen(path, "w");
	REQUIRE(expected);
	make_full("full");
	make_basic();
	make_list();
	make_tree();
	make_records();
	make_pages();
	make_digests();
	make_five("batched", 0x1f);
	coalesce("batched", 40, 20, true);
	make_five("complete", 0x10);
	coalesce("complete", 50, 0, false);
	make_ranks();
	make_bundles();
	make_rex();
	make_many();
	make_full("later");
	snprintf(path, sizeof(path), "%s/later", root);
	golden_make_future(path, 7);
	REQUIRE(fclose(expected) == 0);
	return 0;
}
