/*
 * Codecs. As packed bytes: the first byte chooses the codec, the next two the raw size; decoding fails or fills exactly
 * that. As raw bytes: every codec gives them back.
 */
#include "codec/codec.h"
#include "fuzz.h"

#define CANARY 0x5a

static void unpack(uint16_t codec, size_t raw_bytes, const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t *raw = malloc(raw_bytes + 64);
	int rc;

	FUZZ_REQUIRE(raw);
	memset(raw, CANARY, raw_bytes + 64);
	rc = kedge__block_decode(codec, 0, data, size, raw, raw_bytes, &err);
	for (size_t i = 0; i < 64; i++)
		FUZZ_REQUIRE(raw[raw_bytes + i] == CANARY);
	if (rc != 0)
		fuzz_require_cause(rc, &err);
	free(raw);
}

static void round_trip(const struct kedge__codec_choice *choice, const uint8_t *data, size_t size)
{
	uint8_t *packed = malloc(size + 1), *raw = malloc(size + 1);
	uint16_t codec, param;
	size_t used;

	FUZZ_REQUIRE(packed && raw);
	FUZZ_REQUIRE(kedge__block_encode(choice, KEDGE_BYTES, data, size, packed, &used, &codec, &param, NULL) == 0);
	FUZZ_REQUIRE(used < size || (used == size && codec == KEDGE__CODEC_NONE));
	FUZZ_REQUIRE(kedge__block_decode(codec, param, packed, used, raw, size, NULL) == 0);
	FUZZ_REQUIRE(memcmp(raw, data, size) == 0);
	free(packed);
	free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const choices[] = {"none", "lz4", "zstd:1", "auto"};
	struct kedge__codec_choice choice;

	if (size < 3)
		return 0;
	unpack(data[0] % (kedge__codec_count() + 1), kedge__get16(data + 1), data + 3, size - 3);
	FUZZ_REQUIRE(kedge__codec_choice_parse(choices[data[0] % KEDGE__COUNT(choices)], &choice, NULL) == 0);
	round_trip(&choice, data + 3, size - 3);
	return 0;
}
