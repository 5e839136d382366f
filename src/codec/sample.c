#include "codec/codec.h"

#define SAMPLES      4
#define SAMPLE_BYTES 16384

struct sampler {
	const void *const *pieces;
	const size_t *bytes;
	size_t count;
	uint64_t total;
	uint8_t *raw, *packed; /* SAMPLE_BYTES each */
};

/* LEN bytes at POS of the pieces, as if they stood one behind the other. */
static void gather(struct sampler *s, uint64_t pos, size_t len)
{
	size_t done = 0;

	for (size_t i = 0; i < s->count && done < len; i++) {
		size_t n;

		if (pos >= s->bytes[i]) {
			pos -= s->bytes[i];
			continue;
		}
		n = KEDGE__MIN(len - done, s->bytes[i] - (size_t)pos);
		memcpy(s->raw + done, (const uint8_t *)s->pieces[i] + pos, n);
		done += n;
		pos = 0;
	}
}

static size_t packed_size(struct sampler *s, const struct kedge__codec_choice *choice, enum kedge_type type, size_t len)
{
	uint16_t param;
	size_t used;

	if (choice->codec->encode(s->raw, len, type, choice->level, s->packed, len, &used, &param, NULL) != 0)
		return len;
	return used;
}

static struct kedge__codec_choice choose(struct sampler *s, enum kedge_type type)
{
	const struct kedge__codec_choice none = {.codec = kedge__codec_by_id(KEDGE__CODEC_NONE)};
	const struct kedge__codec_choice fast = {.codec = kedge__codec_by_id(KEDGE__CODEC_LZ4)};
	const struct kedge__codec_choice small = {.codec = kedge__codec_by_id(KEDGE__CODEC_ZSTD), .level = 1};
	size_t len = (size_t)KEDGE__MIN(s->total, (uint64_t)SAMPLE_BYTES);
	uint64_t samples = KEDGE__MIN((s->total + SAMPLE_BYTES - 1) / SAMPLE_BYTES, (uint64_t)SAMPLES);
	uint64_t raw = 0, with_fast = 0, with_small = 0;

	for (uint64_t i = 0; i < samples; i++) {
		gather(s, samples > 1 ? (s->total - len) / (samples - 1) * i : 0, len);
		raw += len;
		with_fast += packed_size(s, &fast, type, len);
		with_small += packed_size(s, &small, type, len);
	}
	if (KEDGE__MIN(with_fast, with_small) * 20 > raw * 19)
		return none;
	return with_small * 10 <= with_fast * 9 ? small : fast;
}

struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted, enum kedge_type type,
					       const void *const *pieces, const size_t *bytes, size_t n)
{
	struct kedge__codec_choice choice = {.codec = kedge__codec_by_id(KEDGE__CODEC_NONE)};
	struct sampler s = {.pieces = pieces, .bytes = bytes, .count = n};

	if (!wanted->automatic)
		return *wanted;
	for (size_t i = 0; i < n; i++)
		s.total += bytes[i];
	if (s.total == 0)
		return choice;
	/* Without memory for a look, data is stored as it is: larger, never wrong. */
	s.raw = kedge__malloc(2 * SAMPLE_BYTES);
	if (!s.raw)
		return choice;
	s.packed = s.raw + SAMPLE_BYTES;
	choice = choose(&s, type);
	kedge__free(s.raw);
	return choice;
}
