/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Header, footer and index: 64 bytes, 64 bytes, the rest; as they are and with checksums put right. The footer is told
 * the file size that it claims, so that the index is reached.
 */
#include "format/format.h"
#include "fuzz.h"

static void decode_header(const uint8_t *data)
{
	struct kedge__segment_header h;
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t again[KEDGE__SEGMENT_HEADER_BYTES];
	int rc = kedge__segment_header_decode(data, &h, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return;
	}
	kedge__segment_header_encode(&h, again);
	FUZZ_REQUIRE(kedge__get16(data + 10) != KEDGE__FORMAT_MINOR || memcmp(again, data, sizeof(again)) == 0);
}

static void decode_index(const struct kedge__segment_footer *f, const uint8_t *data, size_t size)
{
	struct kedge__section_entry e[KEDGE__SECTION_LIMIT];
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t at = KEDGE__SEGMENT_HEADER_BYTES + f->payload_bytes;
	int rc = kedge__section_index_decode(data, size, f, e, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return;
	}
	for (uint32_t i = 0; i < f->section_count; i++) {
		FUZZ_REQUIRE(e[i].offset == at);
		at += e[i].bytes;
	}
	FUZZ_REQUIRE(at == f->index_offset);
}

static void decode_footer(const uint8_t *data, const uint8_t *index, size_t index_bytes)
{
	struct kedge__segment_footer f;
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t again[KEDGE__SEGMENT_FOOTER_BYTES];
	int rc = kedge__segment_footer_decode(data, kedge__get64(data + 24), &f, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return;
	}
	FUZZ_REQUIRE(f.section_count <= KEDGE__SECTION_LIMIT && f.index_offset < f.file_bytes);
	kedge__segment_footer_encode(&f, again);
	FUZZ_REQUIRE(memcmp(again, data, sizeof(again)) == 0);
	decode_index(&f, index, index_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *header, *footer;

	if (size < 128)
		return 0;
	header = fuzz_with_checksum(data, 64, 56);
	footer = fuzz_with_checksum(data + 64, 64, 56);
	decode_header(data);
	decode_header(header);
	decode_footer(data + 64, data + 128, size - 128);
	decode_footer(footer, data + 128, size - 128);
	free(header);
	free(footer);
	return 0;
}
