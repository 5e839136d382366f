/* SPDX-License-Identifier: BSD-3-Clause */
/* Section PACK. What decodes is canonical, ascends, and is text. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__packing_record *p = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	size_t n = 0;
	int rc = kedge__packing_decode(data, size, &p, &n, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!p && n == 0);
		return 0;
	}
	for (size_t i = 1; i < n; i++)
		FUZZ_REQUIRE(p[i - 1].region < p[i].region);
	FUZZ_REQUIRE(kedge__packing_encode(p, n, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__free(p);
	return 0;
}
