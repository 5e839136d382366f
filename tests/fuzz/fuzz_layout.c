/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that may be HDF5 or netCDF. Runs ascend, are disjoint, in the file, and of variables that have a class. */
#include "aggregate/aggregate.h"
#include "fuzz.h"

struct text {
	const uint8_t *at;
	size_t bytes;
};

static int text_get(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct text *t = ctx;

	(void)err;
	FUZZ_REQUIRE(offset <= t->bytes && bytes <= t->bytes - offset);
	memcpy(to, t->at + offset, bytes);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = {data, size};
	const struct kedge__contents file = {size, text_get, &text};
	struct kedge__layout l;
	uint64_t end = 0;

	FUZZ_REQUIRE(kedge__layout_read(&file, &l, NULL) == 0);
	for (size_t i = 0; i < l.runs.count; i++) {
		FUZZ_REQUIRE(l.runs.at[i].offset >= end && l.runs.at[i].bytes > 0);
		FUZZ_REQUIRE(l.runs.at[i].bytes <= size - l.runs.at[i].offset);
		FUZZ_REQUIRE(l.runs.at[i].variable < l.variables.count);
		end = l.runs.at[i].offset + l.runs.at[i].bytes;
	}
	for (size_t i = 0; i < l.variables.count; i++) {
		char *class = kedge__class_name(NULL, &l.variables.at[i]);

		FUZZ_REQUIRE(class && l.variables.at[i].ndims <= KEDGE_MAX_DIMS);
		kedge__free(class);
	}
	kedge__layout_done(&l);
	return 0;
}
