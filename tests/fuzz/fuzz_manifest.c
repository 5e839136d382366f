/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest, as it is and with its checksum put right. */
#include "format/format.h"
#include "fuzz.h"

static bool is_plain(const uint8_t *data)
{
	return kedge__get16(data + 10) == KEDGE__FORMAT_MINOR && kedge__get64(data + 72) == 0;
}

static void decode(const uint8_t *data, size_t size)
{
	struct kedge__set s = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	int rc = kedge__set_decode(data, size, &s, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!s.name && !s.parts && !s.sources);
		return;
	}
	FUZZ_REQUIRE(kedge__set_encode(&s, &again, NULL) == 0);
	if (is_plain(data))
		FUZZ_REQUIRE(again.count == size && memcmp(again.at, data, size) == 0);
	kedge__bytes_done(&again);
	kedge__set_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	decode(data, size);
	if (size < 32)
		return 0;
	copy = malloc(size);
	FUZZ_REQUIRE(copy);
	memcpy(copy, data, size);
	kedge__put64(copy + 16, size);
	kedge__put64(copy + size - 8, kedge__checksum(copy, size - 8));
	decode(copy, size);
	free(copy);
	return 0;
}
