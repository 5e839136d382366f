/* SPDX-License-Identifier: BSD-3-Clause */
/* Section SUMM. What decodes is canonical: encoding it gives the same bytes. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__segment_summary s = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	int rc = kedge__summary_decode(data, size, &s, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!s.name);
		return 0;
	}
	FUZZ_REQUIRE(kedge__summary_encode(&s, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__summary_done(&s);
	return 0;
}
