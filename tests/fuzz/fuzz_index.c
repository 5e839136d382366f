/* SPDX-License-Identifier: BSD-3-Clause */
/* The index of a job: its header and records, as they are and with their checksums put right. */
#include "format/format.h"
#include "fuzz.h"

static void check_record(const uint8_t *data, size_t start, size_t end, const struct kedge__index_record *r)
{
	struct kedge__bytes again = {0};

	for (size_t i = start - 8; i < start; i++)
		FUZZ_REQUIRE(kedge__array_push(&again, data[i]));
	FUZZ_REQUIRE(kedge__index_record_encode(r, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == end - start + 8 && memcmp(again.at + 8, data + start, end - start) == 0);
	kedge__bytes_done(&again);
}

static void decode(const uint8_t *data, size_t size)
{
	struct kedge__index_record r;
	struct kedge__store_id id;
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t at = KEDGE__INDEX_HEADER_BYTES, start;
	int rc = kedge__index_header_decode(data, size, &id, &err);

	if (rc == 0)
		FUZZ_REQUIRE(memcmp(id.at, data + 16, 16) == 0);
	else
		fuzz_require_cause(rc, &err);
	for (rc = 0; rc == 0 && at < size;) {
		start = at;
		rc = kedge__index_record_decode(data, size, &at, &r, &err);
		if (rc == 0)
			check_record(data, start, at, &r);
		else
			fuzz_require_cause(rc, &err);
	}
}

/* Every checksum on the way as it should be; the lengths are taken as they are. */
static void put_right(uint8_t *data, size_t size)
{
	size_t at = KEDGE__INDEX_HEADER_BYTES;

	kedge__put64(data + at - 8, kedge__checksum(data, at - 8));
	while (size - at >= 24) {
		size_t length = kedge__get32(data + at);

		if (length < 24 || length > size - at)
			return;
		kedge__put64(data + at + length - 8, kedge__checksum(data + at - 8, length));
		at += length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	decode(data, size);
	if (size < KEDGE__INDEX_HEADER_BYTES)
		return 0;
	copy = malloc(size);
	FUZZ_REQUIRE(copy);
	memcpy(copy, data, size);
	put_right(copy, size);
	decode(copy, size);
	free(copy);
	return 0;
}
