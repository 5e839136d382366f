/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, staging servers and a shared file system. */
#include "../plan/check.h"
#include "simulate/simulate.h"
#include <stdlib.h>

static struct kedge__flush_times simulate(const struct kedge__flush *f)
{
	struct kedge__flush_times times;
	struct kedge__random r;
	double *room = calloc(kedge__flush_room(f), sizeof(double));

	assert_int_equal(kedge__flush_check(f, NULL), 0);
	kedge__random_init(&r, 1, 0);
	kedge__flush_simulate(f, &r, room, &times);
	free(room);
	return times;
}

static void test_file_system_is_the_limit(void **state)
{
	struct kedge__flush f = {.nodes = 1408, .size = 29e9, .servers = 32, .server_rate = 1.6e9, .pfs_rate = 6.4e9};

	(void)state;
	check_relative("TSUBAME2.0", simulate(&f).last, 6380, 1e-12);
	check_relative("floor", simulate(&f).floor, 6380, 1e-12);
}

static void test_servers_are_the_limit(void **state)
{
	struct kedge__flush f = {.nodes = 100, .size = 1e9, .servers = 2, .server_rate = 1e9, .pfs_rate = 1e12};

	(void)state;
	check_relative("two servers", simulate(&f).last, 50, 1e-12);
	f.node_rate = 0.5e9;
	check_relative("slow links", simulate(&f).last, 100, 1e-12);
	f.servers = 0;
	check_relative("no servers: all links at once", simulate(&f).last, 2, 1e-12);
}

/* 3 nodes on 2 servers: while both write they share the file system; the server with two nodes then has it alone. */
static void test_uneven(void **state)
{
	struct kedge__flush f = {.nodes = 3, .size = 10, .servers = 2, .server_rate = 4, .pfs_rate = 4};
	struct kedge__flush_times t = simulate(&f);

	(void)state;
	check_relative("first", t.first, 5, 1e-12);
	check_relative("last", t.last, 7.5, 1e-12);
	check_relative("mean", t.mean, 6.25, 1e-12);
	f.server_rate = 2;
	check_relative("a server cannot use it alone", simulate(&f).last, 10, 1e-12);
}

static void test_hundred_thousand_nodes(void **state)
{
	struct kedge__flush f = {
	    .nodes = 100000, .size = 29e9, .variation = 0.3, .servers = 2048, .server_rate = 1.6e9, .pfs_rate = 1e12};
	struct kedge__flush_times t = simulate(&f);

	(void)state;
	check_relative("floor", t.floor, 2900, 0.01);
	assert_true(t.first < t.mean && t.mean < t.last && t.last > 2900);
	f.servers = 0;
	f.node_rate = 1e9;
	t = simulate(&f);
	assert_true(t.last > 2900 && t.last < 2950);
}

static void test_refused(void **state)
{
	struct kedge__flush f = {.nodes = 0, .size = 1, .pfs_rate = 1};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__flush_check(&f, &err), &err, KEDGE_E_ARG, "the number of nodes is 0: it must be 1 to 1e+07");
	f.nodes = 1.5;
	check_error(kedge__flush_check(&f, &err), &err, KEDGE_E_ARG, "nodes and staging servers are whole numbers");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_file_system_is_the_limit),
	    cmocka_unit_test(test_servers_are_the_limit),
	    cmocka_unit_test(test_uneven),
	    cmocka_unit_test(test_hundred_thousand_nodes),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
