/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression against a shared file system: vectors, and the simulation of the same. */
#include "../plan/check.h"
#include "simulate/simulate.h"

struct vector {
	const char *id;
	struct kedge__pccr in;
	struct kedge__pccr_times out;
};

/* MB and MB/s. */
static const struct vector vectors[] = {
    {"P01", {500, 0.5, 10, 2, 6400, 50, 0.65, 64}, {10.5, 20.5, 3.25, 128, 196.9231, 39.3846, 365.714, 1}},
    {"P02", {500, 0.5, 10, 2, 6400, 50, 0.65, 256}, {20.5, 23.5, 13, 128, 196.9231, 39.3846, 365.714, 1}},
    {"P03", {500, 0.5, 10, 2, 6400, 50, 0.65, 1024}, {80.5, 62.5, 52, 128, 196.9231, 39.3846, 365.714, 1}},
    {"P04", {500, 0.5, 10, 2, 6400, 50, 0.65, 4096}, {320.5, 218.5, 208, 128, 196.9231, 39.3846, 365.714, 1}},
    {"P05", {1000, 1, 25, 6, 6400, 100, 0.5, 512}, {81, 66, 40, 64, 128, 76.8, 320, 1}},
    {"P06", {1000, 1, 25, 6, 6400, 100, 0.8, 8192}, {1281, 1050, 1024, 64, 80, 48, 800, 1}},
    {"P08", {2000, 2, 60, 5, 10000, 200, 0.6, 1024}, {206.8, 184.88, 122.88, 50, 83.3333, 41.6667, 750, 1}},
    {"P09", {500, 0.5, 10, 2, 6400, 500, 0.65, 12}, {1.5, 11.5, 2, 12.8, 19.6923, 39.3846, 365.714, 19.2}},
    {"P10", {500, 0.5, 10, 2, 6400, 500, 0.65, 64}, {5.5, 13.75, 3.25, 12.8, 19.6923, 39.3846, 365.714, 19.2}},
    {"P12", {1000, 1, 30, 8, 20000, 400, 0.55, 2048}, {103.4, 87.32, 56.32, 50, 90.9091, 290.9091, 1333.333, 140}},
};

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		struct kedge__pccr_times t;

		assert_int_equal(kedge__pccr_evaluate(&v->in, &t, NULL), 0);
		check_relative(v->id, t.uncompressed, v->out.uncompressed, 1e-12);
		check_relative(v->id, t.serial, v->out.serial, 1e-12);
		check_relative(v->id, t.pipelined, v->out.pipelined, 1e-12);
		check_near(v->id, t.saturation, v->out.saturation, 1e-12);
		check_near(v->id, t.saturation_compressed, v->out.saturation_compressed, 5.1e-5);
		check_near(v->id, t.saturation_pipelined, v->out.saturation_pipelined, 5.1e-5);
		check_near(v->id, t.beneficial_serial, v->out.beneficial_serial, 5.1e-4);
		check_near(v->id, t.beneficial_pipelined, v->out.beneficial_pipelined, 5.1e-4);
	}
}

/* The points from which compressing pays are where the curves cross. */
static void test_crossings(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(vectors); i++) {
		struct kedge__pccr in = vectors[i].in;
		struct kedge__pccr_times at, t;

		assert_int_equal(kedge__pccr_evaluate(&in, &at, NULL), 0);
		in.processes = at.beneficial_serial * 0.99;
		assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
		assert_true(t.serial > t.uncompressed);
		in.processes = at.beneficial_serial * 1.01;
		assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
		assert_true(t.serial < t.uncompressed);
		in.processes = at.beneficial_pipelined * 1.01;
		assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
		assert_true(t.pipelined < t.uncompressed);
		in.processes = at.beneficial_pipelined * 0.99;
		assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
		assert_true(at.beneficial_pipelined == 1 || t.pipelined > t.uncompressed);
	}
}

static void test_simulation(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		struct kedge__pccr_sim_result r;

		assert_int_equal(kedge__pccr_simulate(&v->in, 0, 1, 1, NULL, &r, NULL), 0);
		check_relative(v->id, r.uncompressed[0], v->out.uncompressed, 1e-9);
		check_relative(v->id, r.serial[0], v->out.serial, 1e-9);
		check_relative(v->id, r.pipelined[0], v->out.pipelined, 1e-9);
		assert_int_equal(kedge__pccr_simulate(&v->in, 0.2, 20, 1, NULL, &r, NULL), 0);
		/* The first to be ready fill the file system earlier, the last to be ready are later. */
		assert_true(r.serial[0] > v->out.serial * 0.8 && r.serial[0] < v->out.serial * 2);
		assert_true(r.serial[1] < r.serial[0] && r.serial[0] < r.serial[2]);
	}
}

static void test_incompressible(void **state)
{
	struct kedge__pccr in = {500, 0.5, 10, 2, 6400, 50, 1, 64};
	struct kedge__pccr_times t;

	(void)state;
	assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
	assert_true(isinf(t.beneficial_serial));
	in.compress = 0;
	assert_int_equal(kedge__pccr_evaluate(&in, &t, NULL), 0);
	assert_true(t.beneficial_serial == 1 && t.serial == t.uncompressed);
}

static void test_refused(void **state)
{
	struct kedge__pccr in = {500, 0.5, 10, 2, 6400, 50, 1.5, 64};
	struct kedge__pccr_times t;
	struct kedge__pccr_sim_result r;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__pccr_evaluate(&in, &t, &err), &err, KEDGE_E_ARG,
		    "the compression ratio is 1.5: it is compressed / raw size, at most 1");
	in.ratio = 0.5;
	in.fs_bandwidth = 0;
	check_error(kedge__pccr_evaluate(&in, &t, &err), &err, KEDGE_E_ARG, "the file system bandwidth is 0");
	in.fs_bandwidth = 1;
	in.processes = 2.5;
	check_error(kedge__pccr_simulate(&in, 0, 1, 1, NULL, &r, &err), &err, KEDGE_E_ARG,
		    "2.5 processes: a simulation needs a whole number up to 1e7");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),        cmocka_unit_test(test_crossings), cmocka_unit_test(test_simulation),
	    cmocka_unit_test(test_incompressible), cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
