/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "../lib/scratch.h"
#include "capture/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* NAME under ROOT, with a directory of its own; then it is taken away again. */
static bool found_with(const char *root, const char *dir, const char *name, char *path, size_t room)
{
	char parent[300], all[400];
	bool found;

	snprintf(parent, sizeof(parent), "%s%s", root, dir);
	snprintf(all, sizeof(all), "%s/%s", parent, name);
	assert_int_equal(mkdir(parent, 0777), 0);
	assert_int_equal(mkdir(all, 0777), 0);
	found = kedge__device_find(root, path, room);
	assert_true(!found || strcmp(path, all) == 0);
	assert_int_equal(rmdir(all), 0);
	assert_int_equal(rmdir(parent), 0);
	return found;
}

static void devices_are_found(void **state)
{
	char root[200], sys[300], class[300], path[400];

	(void)state;
	scratch_make(root, sizeof(root), "device");
	snprintf(sys, sizeof(sys), "%s/sys", root);
	snprintf(class, sizeof(class), "%s/sys/class", root);
	assert_int_equal(mkdir(sys, 0777), 0);
	assert_int_equal(mkdir(class, 0777), 0);
	assert_false(kedge__device_find(root, path, sizeof(path)));
	assert_true(found_with(root, "/sys/class/infiniband", "mlx5_0", path, sizeof(path)));
	assert_true(found_with(root, "/sys/class/cxi", "cxi0", path, sizeof(path)));
	assert_true(found_with(root, "/dev", "nvidia0", path, sizeof(path)));
	assert_true(found_with(root, "/dev", "kfd", path, sizeof(path)));
	assert_true(found_with(root, "/dev", "xpmem", path, sizeof(path)));
	assert_false(found_with(root, "/dev", "null", path, sizeof(path)));
	assert_false(found_with(root, "/sys/class/net", "eth0", path, sizeof(path)));
	assert_int_equal(scratch_remove(root), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(devices_are_found)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
