/* SPDX-License-Identifier: BSD-3-Clause */
/* The region `process`: what is accepted is encoded again, and is the same when it is read back. */
#include "fuzz.h"
#include "process/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__process_image image, back;
	uint8_t *again, *twice;
	size_t bytes, more;
	int rc = kedge__process_image_decode(data, size, &image, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return 0;
	}
	FUZZ_REQUIRE(kedge__process_image_encode(&image, &again, &bytes, NULL) == 0);
	FUZZ_REQUIRE(kedge__process_image_decode(again, bytes, &back, NULL) == 0);
	FUZZ_REQUIRE(kedge__process_image_encode(&back, &twice, &more, NULL) == 0);
	FUZZ_REQUIRE(more == bytes && memcmp(again, twice, bytes) == 0);
	kedge__free(again);
	kedge__free(twice);
	kedge__process_image_done(&image);
	kedge__process_image_done(&back);
	return 0;
}
