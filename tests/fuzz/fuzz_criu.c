/* SPDX-License-Identifier: BSD-3-Clause */
/* A page map of CRIU: runs that are accepted are in order, and every page of them is found where it is. */
#include "fuzz.h"
#include "process/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__criu_pagemap map;
	uint64_t end = 0, present = 0;
	int rc = kedge__criu_pagemap_decode(data, size, &map, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return 0;
	}
	for (size_t i = 0; i < map.runs.count; i++) {
		const struct kedge__criu_run *run = &map.runs.at[i];
		uint64_t bytes = run->pages * KEDGE__PAGE_BYTES;

		FUZZ_REQUIRE(run->pages && run->address >= end && run->address + bytes > run->address);
		FUZZ_REQUIRE(run->first == present);
		FUZZ_REQUIRE(kedge__criu_pagemap_find(&map, run->address) == run);
		FUZZ_REQUIRE(kedge__criu_pagemap_find(&map, run->address + bytes - KEDGE__PAGE_BYTES) == run);
		FUZZ_REQUIRE(run->address == end || !kedge__criu_pagemap_find(&map, run->address - KEDGE__PAGE_BYTES));
		FUZZ_REQUIRE(map.needs_parent || !run->in_parent);
		present += run->in_parent ? 0 : run->pages;
		end = run->address + bytes;
	}
	FUZZ_REQUIRE(map.present == present);
	kedge__criu_pagemap_done(&map);
	return 0;
}
