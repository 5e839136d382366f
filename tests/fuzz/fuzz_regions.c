/* SPDX-License-Identifier: BSD-3-Clause */
/* Section REGN. What decodes is canonical. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__region_record *r = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	size_t n = 0;
	int rc = kedge__regions_decode(data, size, &r, &n, NULL, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!r && n == 0);
		return 0;
	}
	FUZZ_REQUIRE(kedge__regions_encode(r, n, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__regions_free(r, n);
	return 0;
}
