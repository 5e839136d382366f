/*
 * One rank without memory: whichever allocation fails, in whatever call, no rank waits for another that does not come,
 * and all are told the same. The ranks' allgather fails at once where one would wait for ever.
 */
#include "ranks.h"

#define LIMIT 5000 /* allocations of a call; far more than there are */
#define STEP  (SANITIZED ? 3 : 1)

/* The N-th allocation from now on fails on rank 1. */
static void fault_begin(struct rank *r, uint64_t n)
{
	kedge_t *k = NULL;
	char fault[32];

	text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)n);
	CHECK(kedge__fault_set(r->rank == 1 ? fault : NULL, NULL) == 0);
}

/* FAILED is the same on all ranks; true if there were N allocations on rank 1. */
static bool fault_end(struct rank *r, uint64_t n, bool failed)
{
	struct {
		uint64_t count;
		bool failed;
	} own = {.count = kedge__fault_alloc_count(), .failed = failed}, all[RANKS];
	kedge_t *k = NULL;

	CHECK(kedge__fault_set(NULL, NULL) == 0);
	CHECK(meet(&r->front, &own, sizeof(own), all) == 0);
	for (int i = 0; i < r->size; i++)
		CHECK(all[i].failed == failed);
	CHECK(n < LIMIT);
	return all[1].count >= n;
}

static void opens(struct rank *r)
{
	bool more = true;
	int failures = 0;

	for (uint64_t n = 1; more; n += STEP) {
		kedge_t *k = NULL;
		int rc;

		fault_begin(r, n);
		rc = open_rc(r, &k);
		more = fault_end(r, n, rc != 0);
		CHECK(rc == 0 || rc == (r->rank == 1 ? KEDGE_E_NOMEM : KEDGE_E_GROUP));
		CHECK((k != NULL) == (rc == 0));
		failures += rc != 0;
		if (!rc)
			CHECK(kedge_close(k) == 0);
	}
	if (failures < 20)
		rank_end(&r->front, &r->back, 1);
}

/* The newest version that all were told is complete. */
static uint64_t checkpoints(struct rank *r, kedge_t *k)
{
	uint64_t newest = 0, version = 0;
	bool more = true;

	for (uint64_t n = 1; more; n += STEP) {
		int taken, waited;

		state_make(m, r->rank, ++version);
		fault_begin(r, n);
		taken = kedge_checkpoint(k, version);
		waited = kedge_wait(k);
		more = fault_end(r, n, taken || waited);
		if (!taken && !waited)
			newest = version;
		CHECK(taken == 0 || taken == (r->rank == 1 ? KEDGE_E_NOMEM : KEDGE_E_GROUP));
	}
	CHECK(newest == version);
	return newest;
}

static void restarts(struct rank *r, kedge_t *k, uint64_t newest)
{
	bool more = true;

	for (uint64_t n = 1; more; n += STEP) {
		uint64_t got = 0;
		int rc;

		memset(m, 0, BYTES);
		fault_begin(r, n);
		rc = kedge_restart(k, KEDGE_NEWEST, &got);
		more = fault_end(r, n, rc != 0);
		state_make(want, r->rank, newest);
		CHECK(rc || (got == newest && memcmp(m, want, BYTES) == 0));
	}
	comes_back(r, k, KEDGE_NEWEST, newest);
}

static void closes(struct rank *r, uint64_t newest)
{
	bool more = true;

	for (uint64_t n = 1; more; n += STEP) {
		kedge_t *k = rank_open(r);

		CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
		comes_back(r, k, KEDGE_NEWEST, newest);
		take(r, k, newest + 1, newest + 1);
		CHECK(kedge_wait(k) == 0);
		newest++;
		fault_begin(r, n);
		(void)kedge_close(k);
		more = fault_end(r, n, false);
	}
}

static void whole_life(struct rank *r)
{
	uint64_t newest;
	kedge_t *k;

	opens(r);
	k = rank_open(r);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	newest = checkpoints(r, k);
	CHECK(newest > 20);
	restarts(r, k, newest);
	CHECK(kedge_close(k) == 0);
	closes(r, newest);
}

static void life(void **state, enum threading threading, bool own_dirs, const char *capture)
{
	ranks_run(*state,
		  (struct plan){2, threading, own_dirs, true,
				MORE("reducer=tree", "chunk=512", "keep=3", "l2_keep=2", "copy_memory=1M", capture)},
		  whole_life);
}

static void test_sync(void **state)
{
	life(state, NO_THREAD, true, "capture=sync");
}

static void test_sync_shared(void **state)
{
	life(state, ANY_THREAD_TWO_CHANNELS, false, "capture=sync");
}

static void test_copy(void **state)
{
	life(state, ANY_THREAD, false, "capture=copy");
}

static void test_cow(void **state)
{
	life(state, ANY_THREAD_TWO_CHANNELS, true, "capture=cow");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_sync), JOB(test_sync_shared), JOB(test_copy), JOB(test_cow)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
