/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments that go through a staging server arrive whole, or not at all. */
#include "support.h"

#define LARGE 1000003

static int send_all(struct kedge__stage_client *client, uint64_t version, uint32_t rank, const uint8_t *data,
		    size_t bytes, struct kedge__error *err)
{
	const struct kedge__carrier *c = kedge__stage_carrier(client);
	void *file;
	int rc = c->begin(c->ctx, version, rank, 0, true, &file, err);

	if (rc)
		return rc;
	for (size_t at = 0, n; at < bytes && !rc; at += n) {
		n = KEDGE__MIN(bytes - at, (size_t)300000);
		rc = c->append(file, data + at, n, err);
	}
	if (!rc)
		rc = c->commit(file, err);
	if (rc)
		c->drop(file);
	return rc;
}

static void goes_through(const char *provider)
{
	uint8_t *data = malloc(LARGE);
	struct kedge__stage_client *c;
	struct place p;

	place_open(&p);
	snprintf(p.options.listen.provider, sizeof(p.options.listen.provider), "%s", provider);
	server_start(&p);
	c = client_of(&p, p.address);
	for (uint64_t v = 1; v <= 3; v++) {
		pattern(data, LARGE, v);
		assert_ok(send_all(c, v, 0, data, LARGE, err));
		assert_segment(&p, v, 0, data, LARGE);
	}
	assert_int_equal(kedge__stage_client_counters(c).segments, 3);
	assert_int_equal(kedge__stage_client_counters(c).connections, 1);
	kedge__stage_client_free(c);
	place_close(&p);
	free(data);
}

static void by_tcp(void **state)
{
	(void)state;
	goes_through("tcp");
}

static void by_shared_memory(void **state)
{
	(void)state;
	goes_through("shm");
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_tcp),
	    cmocka_unit_test(by_shared_memory),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, stage_here);
}
