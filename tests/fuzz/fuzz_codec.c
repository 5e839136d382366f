/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs. As packed bytes: the first byte chooses the codec, the next two the raw size (of codec echo, a sixth of it),
 * the two behind them the parameter; decoding fails or fills exactly that. As raw bytes: every codec gives them back.
 */
#include "codec/codec.h"
#include "fuzz.h"

#define CANARY 0x5a
#define HEADER 5

static void unpack(uint16_t codec, uint16_t param, size_t raw_bytes, const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t *raw = malloc(raw_bytes + 64), *base = calloc(raw_bytes + 1, 1);
	int rc;

	FUZZ_REQUIRE(raw && base);
	memset(raw, CANARY, raw_bytes + 64);
	rc = kedge__block_unpack(codec, param, data, size, raw_bytes % 2 ? base : NULL, raw, raw_bytes, &err);
	for (size_t i = 0; i < 64; i++)
		FUZZ_REQUIRE(raw[raw_bytes + i] == CANARY);
	if (rc != 0)
		fuzz_require_cause(rc, &err);
	free(raw);
	free(base);
}

static void round_trip(const struct kedge__codec_choice *choice, enum kedge_type type, const uint8_t *data, size_t size)
{
	uint8_t *packed = malloc(size + 1), *raw = malloc(size + 1);
	uint16_t codec, param;
	size_t used;

	FUZZ_REQUIRE(packed && raw);
	FUZZ_REQUIRE(kedge__block_encode(choice, type, data, size, packed, &used, &codec, &param, NULL) == 0);
	FUZZ_REQUIRE(used < size || (used == size && codec == KEDGE__CODEC_NONE));
	FUZZ_REQUIRE(kedge__block_decode(codec, param, packed, used, raw, size, NULL) == 0);
	FUZZ_REQUIRE(memcmp(raw, data, size) == 0);
	free(packed);
	free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const choices[] = {
	    "none", "lz4",   "zstd:1",    "shuffle+lz4",        "bitshuffle+lz4", "field",
	    "echo", "fpc64", "fpc32+lz4", "delta+shuffle+zstd", "records+lz4",    "xor+records:24+zstd:1",
	    "auto"};
	static const enum kedge_type types[] = {KEDGE_F64, KEDGE_F32, KEDGE_I16, KEDGE_C64, KEDGE_BYTES};
	uint16_t codec, param;
	size_t raw_bytes;
	struct kedge__codec_choice choice;

	if (size < HEADER)
		return 0;
	/* One more than there are, so that one is unknown. */
	codec = data[0] % (KEDGE__CODEC_ECHO + 2);
	/* Of some, several parts. */
	raw_bytes = kedge__get16(data + 1) * (codec == KEDGE__CODEC_ECHO ? (size_t)6 : 1);
	param = kedge__get16(data + 3);
	unpack(codec, param, raw_bytes, data + HEADER, size - HEADER);
	FUZZ_REQUIRE(kedge__codec_choice_parse(choices[data[0] % KEDGE__COUNT(choices)], &choice, NULL) == 0);
	choice.row = data[1] % 64;
	choice.plane = choice.row * (data[2] % 8);
	round_trip(&choice, types[param % KEDGE__COUNT(types)], data + HEADER, size - HEADER);
	return 0;
}
