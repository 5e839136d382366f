/* SPDX-License-Identifier: BSD-3-Clause */
/* Section LINE. What decodes is canonical and ascends. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__source_record *s = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	size_t n = 0;
	int rc = kedge__lineage_decode(data, size, &s, &n, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!s && n == 0);
		return 0;
	}
	for (size_t i = 1; i < n; i++)
		FUZZ_REQUIRE(s[i - 1].version < s[i].version);
	FUZZ_REQUIRE(kedge__lineage_encode(s, n, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__free(s);
	return 0;
}
