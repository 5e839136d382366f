/* SPDX-License-Identifier: BSD-3-Clause */
/* Section BLKS; the first two bytes give the size of the payload. What decodes is canonical and fills the payload. */
#include "format/format.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__block_record *b = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	uint64_t payload, sum = 0;
	size_t n = 0;
	int rc;

	if (size < 2)
		return 0;
	payload = kedge__get16(data);
	data += 2;
	size -= 2;
	rc = kedge__blocks_decode(data, size, payload, &b, &n, &err);
	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!b && n == 0);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		FUZZ_REQUIRE(b[i].offset == KEDGE__SEGMENT_HEADER_BYTES + sum);
		sum += b[i].stored_bytes;
	}
	FUZZ_REQUIRE(sum == payload);
	FUZZ_REQUIRE(kedge__blocks_encode(b, n, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__free(b);
	return 0;
}
