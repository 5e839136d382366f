/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_gpu_finder.c: two reducers see the same versions, one with its finder on the host, one with it on a GPU. They
 * find the same, say the same, and their finders have the same entries in the same places, whatever happens.
 */
#include "there.h"

#include "reduce/gpu.h"

static const uint8_t seed_bytes[KEDGE__DIGEST_SEED_BYTES] = {3, 1, 4};

struct pair {
	struct kedge__reducer *host, *device;
	struct there there;
	uint64_t limit; /* of memory on the device, besides the image; 0: none */
	struct kedge__pool *pool;
	bool alone;          /* the device was given up: both are right, but they need not be the same */
	bool renewed;        /* nothing of the first slab was known */
	uint64_t found[4];   /* origins of each kind */
	uint64_t finders[3]; /* versions that ended with one in this state */
};

static void pair_init(struct pair *p, struct kedge__reducer_options o)
{
	memset(p, 0, sizeof(*p));
	o.seed = seed_bytes;
	assert_int_equal(kedge__reducer_new(&o, &p->host, NULL), 0);
	assert_int_equal(kedge__reducer_new(&o, &p->device, NULL), 0);
	assert_int_equal(kedge__pool_new(3, &p->pool, NULL), 0);
}

static void pair_done(struct pair *p)
{
	kedge__reducer_free(p->host);
	kedge__reducer_free(p->device);
	there_done(&p->there);
	kedge__pool_free(p->pool);
	assert_int_equal(gpu->taken, 0);
}

static void same_finder(struct pair *p)
{
	const struct kedge__finder *x = &p->host->record.finder, *y = &p->device->record.finder;
	uint64_t bytes = kedge__finder_bytes(x);
	void *got;

	assert_int_equal(x->state, y->state);
	assert_int_equal(x->used, y->used);
	assert_int_equal(bytes, kedge__finder_bytes(y));
	assert_null(y->at);
	if (!bytes || !y->device)
		return;
	got = malloc(bytes);
	assert_non_null(got);
	gpu_get(got, y->device->buckets.at, bytes);
	assert_memory_equal(got, x->at, bytes);
	free(got);
}

static void same_origins(struct pair *p)
{
	const struct kedge__txn *t = &p->host->txn, *u = &p->device->txn;

	assert_int_equal(t->changes, u->changes);
	assert_int_equal(t->slabs.at[0].apart_count, u->slabs.at[0].apart_count);
	p->renewed = !t->slabs.at[0].apart_count;
	assert_int_equal(t->hits, u->hits);
	assert_int_equal(t->searched, u->searched);
	assert_int_equal(!t->origins, !u->origins);
	if (!t->origins)
		return;
	assert_memory_equal(t->origins, u->origins, t->changes * sizeof(*t->origins));
	for (size_t i = 0; i < t->changes; i++)
		p->found[kedge__origin_kind(t->origins[i])]++;
	if (t->hits && !p->alone) {
		kedge__origin *got = malloc(t->changes * sizeof(*got));

		gpu_get(got, kedge__gpu_origins(p->device), t->changes * sizeof(*got));
		assert_memory_equal(got, t->origins, t->changes * sizeof(*got));
		free(got);
	}
}

static void pair_take(struct pair *p, struct lab *lab, uint64_t version, bool rollback)
{
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image_region there[LAB_REGIONS];
	struct kedge__image image = {regions, lab_image(lab, regions)},
			    other = {there, there_image(&p->there, lab, there)};
	struct kedge__reduce_device device = {.gpu = gpu, .room = pinned_room, .ctx = &p->there};
	struct kedge__reduce_how how = {.device = &device};
	struct kedge__reduction a = {0}, b = {0};
	int rc;
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__reducer_reduce(p->host, p->pool, version, &image, NULL, &a, NULL), 0);
	gpu->limit = p->limit ? p->limit + there_bytes(&p->there) : 0;
	rc = kedge__reducer_reduce(p->device, NULL, version, &other, &how, &b, &err);
	gpu->limit = 0;
	if (rc && (rc != KEDGE_E_NOMEM || !p->limit))
		fail_msg("reduce: %s", kedge__error_text(&err));
	kedge__error_done(&err);
	p->alone = rc || !p->device->record.finder.device;
	if (rc) { /* nothing of it was taken: the host can do it */
		assert_int_equal(kedge__reducer_reduce(p->device, NULL, version, &image, NULL, &b, NULL), 0);
		reductions_equal(&a, &b, image.count);
	}
	if (!p->alone) {
		same_origins(p);
		reductions_equal(&a, &b, image.count);
		same_finder(p);
	}
	kedge__reduction_done(&a);
	kedge__reduction_done(&b);
	if (rollback) {
		kedge__reducer_rollback(p->host);
		kedge__reducer_rollback(p->device);
	} else {
		kedge__reducer_commit(p->host);
		kedge__reducer_commit(p->device);
		kedge__reducer_identify(p->host, (struct kedge__image_key){version, {version, 1}});
		kedge__reducer_identify(p->device, (struct kedge__image_key){version, {version, 1}});
	}
	if (!p->alone)
		same_finder(p);
	p->finders[p->host->record.finder.state]++;
}

static void pair_retain(struct pair *p, const uint64_t *versions, size_t n)
{
	struct kedge__image_key keys[LAB_VERSIONS * 4];

	for (size_t i = 0; i < n; i++)
		keys[i] = (struct kedge__image_key){versions[i], {versions[i], 1}};
	kedge__reducer_retain(p->host, keys, n);
	kedge__reducer_retain(p->device, keys, n);
	same_finder(p);
}

/* ---- random scripts */

/* Some versions are forgotten; sometimes the last one, too. */
static void forget_some(struct pair *p, uint64_t *seed, uint64_t *versions, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		bool keep = draw_below(seed, 4) > 0 || (i + 1 == *n && draw_below(seed, 8) > 0);

		versions[kept] = versions[i];
		kept += keep;
	}
	*n = kept;
	pair_retain(p, versions, kept);
}

static void run_script(uint64_t seed, struct kedge__reducer_options o, uint64_t largest, uint64_t count, struct pair *p)
{
	static struct lab lab;
	uint64_t versions[LAB_VERSIONS * 4];
	size_t n = 0;

	memset(&lab, 0, sizeof(lab));
	lab.seed = seed;
	pair_init(p, o);
	for (int i = 0; i < 3; i++)
		lab_resize(&lab, (int)draw_below(&lab.seed, LAB_REGIONS), 17 + draw_below(&lab.seed, largest));
	for (uint64_t version = 1; version <= count; version++) {
		uint64_t edits = draw_below(&lab.seed, 6);

		if (draw_below(&lab.seed, 6) == 0) {
			pair_take(p, &lab, version * 3, true);
			lab_edit(&lab, o.chunk, largest);
		}
		if (draw_below(&lab.seed, 8) == 0)
			forget_some(p, &lab.seed, versions, &n);
		pair_take(p, &lab, version * 3, false);
		versions[n++] = version * 3;
		for (uint64_t i = 0; i < edits; i++)
			lab_edit(&lab, o.chunk, largest);
	}
	pair_done(p);
	lab_done(&lab);
}

static void test_scripts(void **state)
{
	static const uint64_t masks[] = {0, 0xff, 0xffff, 0, 0x3f};
	uint64_t found[4] = {0}, scripts = much ? 200 : LAB_SCALE(16);

	(void)state;
	for (uint64_t s = 0; s < scripts; s++) {
		struct kedge__reducer_options o = {.id = s % 2 ? KEDGE__REDUCER_TREE : KEDGE__REDUCER_LIST,
						   .chunk = s % 3 ? 64 : 128,
						   .record_bytes = LAB_UNLIMITED,
						   .digest_mask = masks[s % 5]};
		struct pair p;

		if (s % 4 == 3) /* full buckets, and a log that soon begins again */
			o.record_bytes = 4096 + s * 700;
		run_script(s + 1, o, o.chunk * (s % 7 ? 60 : 400), 10, &p);
		for (int i = 0; i < 4; i++)
			found[i] += p.found[i];
	}
	for (int i = 0; i < 4; i++)
		assert_true(found[i] > 0);
}

/* ---- what scripts seldom meet */

static struct kedge__reducer_options options_of(uint32_t chunk)
{
	return (struct kedge__reducer_options){
	    .id = KEDGE__REDUCER_TREE, .chunk = chunk, .record_bytes = LAB_UNLIMITED};
}

/* BYTES bytes in which one chunk in EVERY is one of a few others. */
static void lab_repeat(struct lab *lab, int slot, uint64_t bytes, uint32_t chunk, uint64_t every)
{
	lab_resize(lab, slot, bytes);
	draw_bytes(&lab->seed, lab->data[slot], bytes);
	for (uint64_t i = 0; every && i < bytes / chunk; i++)
		if (draw_below(&lab->seed, every) == 0)
			memcpy(lab->data[slot] + i * chunk, lab->data[slot] + draw_below(&lab->seed, 9) * chunk, chunk);
}

static void lab_touch(struct lab *lab, int slot, uint32_t chunk, uint64_t every)
{
	for (uint64_t i = draw_below(&lab->seed, every); i < lab->bytes[slot] / chunk;
	     i += 1 + draw_below(&lab->seed, 2 * every))
		draw_bytes(&lab->seed, lab->data[slot] + i * chunk, chunk);
}

/* A finder of several blocks; A, B, A; many changes and few. */
static void test_blocks(void **state)
{
	struct lab lab = {.seed = 7};
	struct pair p;
	uint32_t chunk = 32;
	uint64_t bytes = (UINT64_C(45000) * (much ? 20 : 1) / (LAB_SANITIZED ? 4 : 1)) * chunk;
	uint8_t *first = malloc(bytes);

	(void)state;
	assert_non_null(first);
	pair_init(&p, options_of(chunk));
	lab_repeat(&lab, 1, bytes, chunk, 3);
	memcpy(first, lab.data[1], bytes);
	pair_take(&p, &lab, 1, false);
	for (uint64_t v = 2; v < 6; v++) {
		lab_touch(&lab, 1, chunk, v == 3 ? 4 : 100);
		pair_take(&p, &lab, 2 * v, v == 4);
	}
	memcpy(lab.data[1], first, bytes);
	pair_take(&p, &lab, 20, false);
	assert_true(p.found[KEDGE__ORIGIN_LOG] > 100 && p.found[KEDGE__ORIGIN_HERE] > 1000);
	pair_done(&p);
	lab_done(&lab);
	free(first);
}

/* All chunks are the same, and not constant; then others, all the same, too. */
static void test_one_digest(void **state)
{
	struct lab lab = {.seed = 9};
	struct pair p;

	(void)state;
	pair_init(&p, options_of(64));
	lab_resize(&lab, 0, 64 * 5000);
	for (uint64_t v = 1; v < 6; v++) {
		draw_bytes(&lab.seed, lab.data[0], 64);
		for (uint64_t i = 1; i < 5000; i++)
			memcpy(lab.data[0] + i * 64, lab.data[0], 64);
		lab_touch(&lab, 0, 64, 700);
		pair_take(&p, &lab, v, false);
	}
	assert_true(p.found[KEDGE__ORIGIN_HERE] > 20000);
	pair_done(&p);
	lab_done(&lab);
}

/* A, B, A of few digests, of which each slab has many chunks. */
static void test_few_digests(void **state)
{
	struct lab lab = {.seed = 15};
	struct pair p;
	uint64_t chunks = 20000;
	uint8_t *first = malloc(chunks * 32);

	(void)state;
	assert_non_null(first);
	pair_init(&p, options_of(32));
	lab_resize(&lab, 0, chunks * 32);
	for (uint64_t v = 1; v < 7; v++) {
		for (uint64_t i = 0; i < chunks; i++) {
			memset(lab.data[0] + i * 32, (int)(v % 3), 32);
			lab.data[0][i * 32] =
			    (uint8_t)(i % 3 + draw_below(&lab.seed, 400) / 399 * draw_below(&lab.seed, 200));
		}
		if (v == 2)
			memcpy(first, lab.data[0], chunks * 32);
		if (v == 4)
			memcpy(lab.data[0], first, chunks * 32);
		pair_take(&p, &lab, v, v == 5);
	}
	assert_true(p.found[KEDGE__ORIGIN_LOG] > 10000 && p.found[KEDGE__ORIGIN_HERE] > 20000);
	pair_done(&p);
	lab_done(&lab);
	free(first);
}

/* A version with a lower number than the last one cannot refer to it; rolled back or not, nothing is lost. */
static void test_lower_number(void **state)
{
	struct lab lab = {.seed = 19};
	struct pair p;

	(void)state;
	for (int commits = 0; commits < 2; commits++) {
		pair_init(&p, options_of(64));
		lab_repeat(&lab, 0, 64 * 2000, 64, 4);
		pair_take(&p, &lab, 10, false);
		lab_touch(&lab, 0, 64, 30);
		pair_take(&p, &lab, 5, !commits);
		pair_take(&p, &lab, 11, false);
		lab_touch(&lab, 0, 64, 30);
		pair_take(&p, &lab, 12, false);
		pair_done(&p);
	}
	lab_done(&lab);
}

/* More versions than ages can count. */
static void test_ages(void **state)
{
	struct lab lab = {.seed = 11};
	struct pair p;

	(void)state;
	pair_init(&p, options_of(64));
	lab_repeat(&lab, 0, 64 * 300, 64, 4);
	for (uint64_t v = 1; v < 300; v++) {
		uint8_t *at = lab.data[0] + draw_below(&lab.seed, 290) * 64;

		if (v % 3)
			draw_bytes(&lab.seed, at, 64);
		else
			memmove(at, lab.data[0] + draw_below(&lab.seed, 290) * 64, 640);
		pair_take(&p, &lab, v, false);
		if (v % 50 == 0)
			pair_retain(&p, (uint64_t[]){v - 7, v}, 2);
	}
	assert_true(p.found[KEDGE__ORIGIN_LAST] > 100);
	pair_done(&p);
	lab_done(&lab);
}

/* All of a large version is new, or all but a chunk that the sample has: what was known is given up, or is not. */
static void test_novelty(void **state)
{
	struct lab lab = {.seed = 21};
	struct pair p;
	uint32_t chunk = 16;
	uint64_t chunks = KEDGE__LARGE + 77;
	uint8_t *old = malloc(chunks * chunk);

	(void)state;
	assert_non_null(old);
	pair_init(&p, options_of(chunk));
	lab_repeat(&lab, 2, chunks * chunk + 5, chunk, 0);
	pair_take(&p, &lab, 1, false);
	memcpy(old, lab.data[2], chunks * chunk);
	draw_bytes(&lab.seed, lab.data[2], lab.bytes[2]);
	pair_take(&p, &lab, 2, true);
	assert_true(p.renewed);
	draw_bytes(&lab.seed, lab.data[2], lab.bytes[2]);
	pair_take(&p, &lab, 3, false);
	memcpy(old, lab.data[2], chunks * chunk);
	draw_bytes(&lab.seed, lab.data[2], lab.bytes[2]);
	memcpy(lab.data[2], old + chunks / 2 * chunk, chunks / 20 * chunk); /* elsewhere */
	pair_take(&p, &lab, 4, false);
	assert_false(p.renewed);
	pair_done(&p);
	lab_done(&lab);
	free(old);
}

/* So many chunks that samples decide: a version without duplicates, one with some, and again none, and a rollback. */
static void test_samples(void **state)
{
	struct lab lab = {.seed = 13};
	struct pair p;
	uint32_t chunk = 16;
	uint64_t chunks = KEDGE__LARGE + 5000;

	(void)state;
	pair_init(&p, options_of(chunk));
	lab_repeat(&lab, 2, chunks * chunk, chunk, 0);
	pair_take(&p, &lab, 1, false);
	lab_touch(&lab, 2, chunk, 5); /* nothing of it is known: a sparse finder */
	pair_take(&p, &lab, 2, true);
	lab_touch(&lab, 2, chunk, 5);
	pair_take(&p, &lab, 3, false);
	if (!LAB_SANITIZED) {
		memmove(lab.data[2], lab.data[2] + 1000 * chunk, 40000 * chunk); /* the sample shows it: a dense one */
		pair_take(&p, &lab, 4, false);
		lab_touch(&lab, 2, chunk, 30);
		pair_take(&p, &lab, 5, false);
		assert_true(p.finders[KEDGE__FINDER_DENSE] > 0);
	}
	assert_true(p.finders[KEDGE__FINDER_SPARSE] > 0);
	pair_done(&p);
	lab_done(&lab);
}

/* ---- failures */

static void notices_count(void *user, enum kedge_log_level level, const char *text)
{
	uint64_t *count = user;

	*count += level == KEDGE_LOG_NOTICE && strstr(text, "looked up on the host, because memory is short: ");
}

/* Every allocation of device memory fails in turn: the version is reduced all the same, and it is said if the finder is
 * on the host for that. */
static void test_short_of_memory(void **state)
{
	struct lab lab = {.seed = 17};
	uint64_t given_up = 0, said, all_said = 0;

	(void)state;
	kedge_set_log(notices_count, &said);
	for (uint64_t limit = 4096; limit < 2000000; limit += limit / 2) {
		struct pair p;

		said = 0;
		pair_init(&p, options_of(64));
		p.limit = limit;
		lab_repeat(&lab, 0, 64 * 3000, 64, 3);
		for (uint64_t v = 1; v < 4 && !p.alone; v++) {
			pair_take(&p, &lab, v, false);
			lab_touch(&lab, 0, 64, 10);
		}
		assert_int_equal(said, p.device->replicas && p.device->replicas->no_finder);
		all_said += said;
		given_up += p.alone;
		p.alone = false;
		pair_done(&p);
	}
	kedge_set_log(NULL, NULL);
	assert_in_range(given_up, 3, 20);
	assert_true(all_said > 0);
	lab_done(&lab);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_scripts),         cmocka_unit_test(test_blocks),
	    cmocka_unit_test(test_one_digest),      cmocka_unit_test(test_lower_number),
	    cmocka_unit_test(test_few_digests),     cmocka_unit_test(test_ages),
	    cmocka_unit_test(test_samples),         cmocka_unit_test(test_novelty),
	    cmocka_unit_test(test_short_of_memory),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
