/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that the application writes, and what is looked at, read and removed without a restart. */
#include "support.h"

#define BYTES 300000

static uint8_t m[BYTES], want[BYTES];

static void route(kedge_t *k, const char *name, char *path)
{
	assert_ok(k, kedge_file_route(k, name, path, 600));
}

/* Sizes that grow, shrink and vanish; each version comes back as it was. */
static void file_series(const struct place *p, const char *capture)
{
	static const size_t sizes[] = {1000, BYTES, 0, 4097};
	char path[600], again[600];
	uint8_t step = 0;
	kedge_t *k = job_open(p, true, MORE(capture, "reducer=tree", "chunk=64"));

	route(k, "state.bin", path);
	assert_ok(k, kedge_protect(k, "step", &step, 1, KEDGE_U8));
	for (size_t v = 0; v < 4; v++) {
		step = (uint8_t)v;
		file_fill(path, sizes[v], v + 1);
		assert_ok(k, kedge_checkpoint(k, v));
		unlink(path);
	}
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1); /* all that is left is L2 */
	k = job_open(p, true, MORE(capture));
	assert_ok(k, kedge_protect(k, "step", &step, 1, KEDGE_U8));
	route(k, "state.bin", again);
	assert_string_equal(path, again);
	for (size_t v = 0; v < 4; v++) {
		assert_ok(k, kedge_restart(k, v, NULL));
		assert_int_equal(step, v);
		file_is(path, sizes[v], v + 1);
	}
	assert_ok(k, kedge_close(k));
}

static void test_file_sync(void **state)
{
	file_series(*state, "capture=sync");
}

static void test_file_copy(void **state)
{
	file_series(*state, "capture=copy");
}

/* ------------------------------------------------------------------ files that are understood */

#define VALUES 9000 /* of a variable */

static void put_big(uint8_t **at, uint32_t v)
{
	for (int i = 4; i-- > 0;)
		*(*at)++ = (uint8_t)(v >> 8 * i);
}

/* A classic netCDF file with variables a and b, of doubles, at odd places. Of every third value, the last byte is
 * STEP's. */
static size_t netcdf_make(uint8_t *file, uint8_t step)
{
	const uint32_t begin[] = {1001, 1001 + 8 * VALUES + 13};
	uint8_t *at = file;
	size_t bytes = begin[1] + 8 * VALUES + 3;

	for (size_t i = 0; i < bytes; i++)
		file[i] = (uint8_t)(i / 8 % 251);
	memcpy(at, "CDF\1", 4);
	at += 4;
	put_big(&at, 0);
	put_big(&at, 10), put_big(&at, 1); /* a dimension */
	put_big(&at, 1), put_big(&at, UINT32_C(0x78000000)), put_big(&at, VALUES);
	put_big(&at, 0), put_big(&at, 0);  /* no attributes */
	put_big(&at, 11), put_big(&at, 2); /* variables */
	for (uint32_t i = 0; i < 2; i++) {
		put_big(&at, 1), put_big(&at, UINT32_C(0x61000000) + (i << 24));
		put_big(&at, 1), put_big(&at, 0);
		put_big(&at, 0), put_big(&at, 0);
		put_big(&at, 6), put_big(&at, 8 * VALUES), put_big(&at, begin[i]);
		for (size_t k = 0; k < VALUES; k += 3)
			file[begin[i] + 8 * k + 7] = step;
	}
	return bytes;
}

/* The newest segment has section CLAS. */
static bool is_arranged(const struct place *p, uint64_t version)
{
	char dir[600], path[700];
	uint8_t *segment;
	size_t bytes;
	bool found;

	text_make(dir, sizeof(dir), "%s/job/v%020llu", p->l1, (unsigned long long)version);
	assert_true(file_find(dir, "r", ".seg", path, sizeof(path)));
	segment = file_read(path, &bytes);
	found = memmem(segment, bytes, "CLAS", 4) != NULL;
	free(segment);
	return found;
}

/* Versions of two such files come back as they were, whatever holds and reduces them. */
static void test_understood(void **state)
{
	static const char *const how[][4] = {
	    {"capture=sync", "reducer=tree", "chunk=256", "aggregate=aware"},
	    {"capture=sync", "reducer=auto", "chunk=4096", "aggregate=aware-block"},
	    {"capture=sync", "reducer=full", "chunk=256", "aggregate=aware"},
	    {"capture=copy", "reducer=basic", "chunk=65536", "aggregate=auto"},
	    {"capture=cow", "reducer=rex", "chunk=64", "aggregate=aware"},
	    {"capture=sync", "reducer=list", "chunk=64", "aggregate=agnostic-block"},
	};
	static uint8_t file[200000];

	for (size_t i = 0; i < KEDGE__COUNT(how); i++) {
		char a[600], b[600];
		kedge_t *k = job_open(*state, false, MORE(how[i][0], how[i][1], how[i][2], how[i][3], "codec=auto"));
		uint64_t first = 10 * i;

		route(k, "a.nc", a);
		route(k, "b.nc", b);
		for (uint8_t v = 1; v < 4; v++) {
			file_write(a, file, netcdf_make(file, (uint8_t)(first + v)));
			file_write(b, file, netcdf_make(file, (uint8_t)(100 + first + v)));
			assert_ok(k, kedge_checkpoint(k, first + v));
			assert_ok(k, kedge_wait(k));
			if (!is_arranged(*state, first + v))
				fail_msg("version %llu is not arranged: %s %s", (unsigned long long)(first + v),
					 how[i][0], how[i][1]);
		}
		for (uint8_t v = 3; v > 0; v--) {
			size_t bytes = netcdf_make(file, (uint8_t)(first + v)), n;
			uint8_t *back;

			assert_ok(k, kedge_restart(k, first + v, NULL));
			back = file_read(a, &n);
			assert_int_equal(n, bytes);
			assert_memory_equal(back, file, bytes);
			free(back);
		}
		assert_ok(k, kedge_close(k));
	}
}

static void test_file_region(void **state)
{
	struct kedge_region_entry *list;
	struct kedge_region_info info;
	char path[600];
	size_t n, fds;
	kedge_t *k = job_open(*state, false, NULL);

	route(k, "a", path);
	assert_int_equal(kedge_checkpoint(k, 1), KEDGE_E_NOTFOUND); /* routed, not written */
	file_fill(path, 5000, 9);
	assert_ok(k, kedge_checkpoint(k, 1));
	fds = fds_open();
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_int_equal(fds_open(), fds);
	assert_ok(k, kedge_region_stat(k, 1, KEDGE_FILE_PREFIX "a", &info));
	assert_int_equal(info.bytes, 5000);
	assert_ok(k, kedge_regions(k, KEDGE_NEWEST, &list, &n));
	assert_int_equal(n, 1);
	assert_string_equal(list[0].name, "files/a");
	assert_int_equal(list[0].info.bytes, 5000);
	kedge_free(list);
	assert_ok(k, kedge_unprotect(k, "files/a"));
	assert_ok(k, kedge_checkpoint(k, 3));
	assert_ok(k, kedge_regions(k, 3, &list, &n));
	assert_int_equal(n, 0);
	kedge_free(list);
	route(k, "a", path);
	unlink(path);
	assert_int_equal(kedge_restart(k, 3, NULL), KEDGE_E_MISMATCH);
	assert_int_equal(access(path, F_OK), -1);
	assert_ok(k, kedge_restart(k, 2, NULL));
	file_is(path, 5000, 9);
	assert_ok(k, kedge_close(k));
}

static void test_file_names(void **state)
{
	static const char *const bad[] = {"", ".", "..", "a/b", "/a"};
	char path[600] = "as it was", small[20] = "as it was";
	kedge_t *k = job_open(*state, false, NULL);

	for (size_t i = 0; i < KEDGE__COUNT(bad); i++)
		assert_int_equal(kedge_file_route(k, bad[i], path, sizeof(path)), KEDGE_E_ARG);
	assert_int_equal(kedge_file_route(k, NULL, path, sizeof(path)), KEDGE_E_ARG);
	assert_int_equal(kedge_file_route(k, "a", small, sizeof(small)), KEDGE_E_LIMIT);
	assert_string_equal(path, "as it was");
	assert_string_equal(small, "as it was");
	route(k, "a", path);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(kedge_checkpoint(k, 1), KEDGE_E_ARG);
	assert_int_equal(rmdir(path), 0);
	assert_ok(k, kedge_close(k));
}

/* A damaged newest version: the file of the one before comes back, and none of the other is left. */
static void test_file_damage(void **state)
{
	struct place *p = *state;
	char path[600];
	uint64_t version;
	kedge_t *k = job_open(p, false, MORE("reducer=full"));

	route(k, "a", path);
	for (uint64_t v = 1; v <= 2; v++) {
		file_fill(path, 5000, v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	segment_damage(p->l1, 2, 0);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 1);
	file_is(path, 5000, 1);
	assert_ok(k, kedge_close(k));
	*strrchr(path, '/') = '\0';
	assert_int_equal(entries_of(path), 3);
}

/* ------------------------------------------------------------------ find, read, discard */

static kedge_t *series(const struct place *p, uint64_t last, const char *const *more)
{
	kedge_t *k = job_open(p, true, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	for (uint64_t v = 1; v <= last; v++) {
		fill_random(m, BYTES, v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_wait(k));
	return k;
}

static void test_find(void **state)
{
	struct place *p = *state;
	kedge_t *k = series(p, 5, NULL);
	uint64_t version = 99;

	assert_ok(k, kedge_find(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 5);
	assert_ok(k, kedge_find(k, 3, &version));
	assert_int_equal(version, 3);
	assert_int_equal(kedge_find(k, 0, &version), KEDGE_E_NOTFOUND);
	assert_int_equal(version, 3);
	segment_damage(p->l1, 5, 0); /* L2 has it still */
	assert_ok(k, kedge_find(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 5);
	segment_damage(p->l2, 5, 0);
	fill_random(m, BYTES, 77);
	assert_ok(k, kedge_find(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 4);
	fill_random(want, BYTES, 77);
	assert_memory_equal(m, want, BYTES); /* memory is as it was */
	assert_ok(k, kedge_close(k));
}

static void test_read(void **state)
{
	static uint8_t buffer[BYTES + 10];
	struct kedge_target target = {"m", buffer, BYTES + 10};
	kedge_t *k = series(*state, 3, NULL);

	buffer[BYTES] = 0xaa;
	assert_ok(k, kedge_read(k, 2, &target, 1));
	fill_random(want, BYTES, 2);
	assert_memory_equal(buffer, want, BYTES);
	assert_int_equal(buffer[BYTES], 0xaa);
	target.room = BYTES - 1;
	assert_int_equal(kedge_read(k, 2, &target, 1), KEDGE_E_MISMATCH);
	target.name = "x";
	assert_int_equal(kedge_read(k, 2, &target, 1), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge_read(k, 7, &target, 1), KEDGE_E_VERSION);
	assert_ok(k, kedge_checkpoint(k, 4)); /* not a restart: 3 is still there */
	assert_int_equal(versions_count(k), 4);
	assert_ok(k, kedge_close(k));
}

static void test_restart_without_regions(void **state)
{
	uint64_t version;
	kedge_t *k = series(*state, 4, MORE("reducer=basic"));

	assert_ok(k, kedge_unprotect(k, "m"));
	assert_ok(k, kedge_restart(k, 2, &version));
	assert_int_equal(version, 2);
	fill_random(m, BYTES, 2);
	m[7]++;
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 9)); /* 3 and 4 are abandoned; 2 is known again, and only one chunk is new */
	assert_int_equal(versions_count(k), 3);
	struct kedge_stats stats;
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_in_range(stats.literal_bytes, 1, 4096);
	assert_ok(k, kedge_close(k));
}

static void test_discard(void **state)
{
	struct place *p = *state;
	uint64_t version;
	kedge_t *k = series(p, 5, MORE("reducer=tree"));

	assert_ok(k, kedge_discard(k, 4, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	assert_int_equal(versions_count(k), 3);
	assert_int_equal(kedge_test(k, 4), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge_test(k, 3), 1);
	assert_ok(k, kedge_discard(k, 0, KEDGE_LEVEL_1));
	assert_int_equal(versions_count(k), 3); /* on L2 */
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 3);
	fill_random(want, BYTES, 3);
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_checkpoint(k, 4));
	assert_ok(k, kedge_discard(k, 0, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	assert_int_equal(versions_count(k), 0);
	assert_int_equal(kedge_test(k, 3), KEDGE_E_NOTFOUND);
	assert_ok(k, kedge_checkpoint(k, 5)); /* stands alone */
	assert_ok(k, kedge_close(k));
	k = job_open(p, true, NULL);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 5);
	assert_ok(k, kedge_close(k));
}

static size_t on_l2(kedge_t *k)
{
	struct kedge_version_info *list;
	size_t n, found = 0;

	assert_ok(k, kedge_versions(k, &list, &n));
	for (size_t i = 0; i < n; i++)
		found += list[i].levels >> 1 & 1;
	kedge_free(list);
	return found;
}

static void test_l2_interval(void **state)
{
	kedge_t *k = series(*state, 3, MORE("l2_interval=1000000", "reducer=full"));

	assert_int_equal(on_l2(k), 1); /* the first */
	assert_ok(k, kedge_discard(k, 0, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	assert_ok(k, kedge_close(k));
	k = series(*state, 5, MORE("l2_interval=-1", "reducer=full"));
	assert_int_equal(on_l2(k), 0);
	assert_ok(k, kedge_close(k));
}

static void test_setting_names(void **state)
{
	size_t n = 0;

	(void)state;
	while (kedge_setting_name(n))
		n++;
	assert_in_range(n, 10, 100);
	assert_string_equal(kedge_setting_name(0), "l1");
	assert_null(kedge_setting_name(SIZE_MAX));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, place_setup, place_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_file_sync),   TEST(test_file_copy),   TEST(test_understood),
	    TEST(test_file_region), TEST(test_file_names),  TEST(test_file_damage),
	    TEST(test_find),        TEST(test_read),        TEST(test_restart_without_regions),
	    TEST(test_discard),     TEST(test_l2_interval), TEST(test_setting_names),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
