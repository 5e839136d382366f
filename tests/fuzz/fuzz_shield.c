/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of a shield, as it is and with its checksum put right. */
#include "format/format.h"
#include "fuzz.h"

/* What is accepted is written the same way. */
static void decode(const uint8_t *data, size_t size)
{
	static struct kedge__shield s;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes again = {0};
	size_t header = 0;
	int rc = kedge__shield_decode(data, size, &s, &header, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return;
	}
	FUZZ_REQUIRE(header <= size && s.members <= KEDGE__TEAM_MOST && s.parity < s.members && s.self < s.members);
	FUZZ_REQUIRE(kedge__shield_file_bytes(&s, header) > header);
	FUZZ_REQUIRE(kedge__shield_encode(&s, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == header && memcmp(again.at + 12, data + 12, header - 20) == 0);
	kedge__bytes_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_decode_both(data, size, decode);
	return 0;
}
