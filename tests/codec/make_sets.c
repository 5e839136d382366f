/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * make_sets DIR [BYTES [SEED]]: write the sets of sets.h to DIR/new, and the version before each to DIR/old, under
 * names that `kedge bench codec --each` understands.
 */
#include "sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *suffix(enum kedge_type type)
{
	return type == KEDGE_F64    ? "f64"
	       : type == KEDGE_F32  ? "f32"
	       : type == KEDGE_BF16 ? "bf16"
	       : type == KEDGE_U64  ? "u64"
	       : type == KEDGE_U32  ? "u32"
	       : type == KEDGE_U8   ? "u8"
				    : "bytes";
}

static int save(const char *dir, const char *sub, const struct set *set, const uint8_t *data, size_t bytes)
{
	char path[4096], shape[64] = "";
	FILE *f;

	if (set->ndims)
		snprintf(shape, sizeof(shape), ".%jux%ju", (uintmax_t)set->dims[0], (uintmax_t)set->dims[1]);
	mkdir(dir, 0777);
	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%s%s.%s", dir, sub, set->name, shape, suffix(set->type));
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : (size_t)4 << 20;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	uint8_t *data = argc > 1 ? malloc(bytes) : NULL;
	int failed = 0;

	if (!data) {
		fprintf(stderr, "usage: make_sets DIR [BYTES [SEED]]\n");
		return 2;
	}
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++) {
		const struct set *set = &sets[i];
		size_t used = bytes / kedge_type_size(set->type) * kedge_type_size(set->type);

		if (set->ndims)
			used = KEDGE__MAX(used / (set->dims[0] * set->dims[1] * kedge_type_size(set->type)), 1u) *
			       (set->dims[0] * set->dims[1] * kedge_type_size(set->type));
		if (used > bytes)
			continue;
		set->fill(data, used, seed + i + 1);
		failed |= save(argv[1], "old", set, data, used);
		set->change ? set->change(data, used, seed + i + 100) : set->fill(data, used, seed + i + 100);
		failed |= save(argv[1], "new", set, data, used);
	}
	free(data);
	return failed;
}
