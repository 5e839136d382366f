/* SPDX-License-Identifier: BSD-3-Clause */
/* The store marker, as it is and with its checksum put right. */
#include "format/format.h"
#include "fuzz.h"

static void decode(const uint8_t *data, size_t size)
{
	struct kedge__store_id id;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__store_marker_decode(data, size, &id, &err);

	if (rc != 0)
		fuzz_require_cause(rc, &err);
	else
		FUZZ_REQUIRE(size == 48 && memcmp(id.at, data + 16, 16) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_decode_both(data, size, decode);
	return 0;
}
