/* SPDX-License-Identifier: BSD-3-Clause */
/* The tie between the levels, as it is and with its checksum put right. */
#include "format/format.h"
#include "fuzz.h"

static void decode(const uint8_t *data, size_t size)
{
	struct kedge__tie tie;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__tie_decode(data, size, &tie, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return;
	}
	FUZZ_REQUIRE(size == 48 + strlen(tie.path) && memcmp(tie.id.at, data + 16, 16) == 0);
	kedge__tie_done(&tie);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_decode_both(data, size, decode);
	return 0;
}
