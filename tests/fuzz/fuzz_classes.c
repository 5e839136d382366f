/* SPDX-License-Identifier: BSD-3-Clause */
/* Section CLAS. What decodes is canonical. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__classes_record c = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	int rc = kedge__classes_decode(data, size, &c, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!c.at && c.count == 0);
		return 0;
	}
	FUZZ_REQUIRE(kedge__classes_encode(&c, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__classes_done(&c);
	return 0;
}
