/*
 * codec: blocks of literals in and out of compressed form, behind one table. A block that does not
 * shrink is stored as it is (codec none), so a block never grows.
 */
#ifndef KEDGE_CODEC_CODEC_H
#define KEDGE_CODEC_CODEC_H

#include "base/base.h"

enum kedge__codec_id { /* stable on disk */
		       KEDGE__CODEC_NONE = 0,
		       KEDGE__CODEC_LZ4 = 1,
		       KEDGE__CODEC_ZSTD = 2,
};

struct kedge__codec {
	uint16_t id;
	const char *name;
	int min_level, max_level, preset_level;
	size_t (*bound)(size_t raw);
	/* Encode RAW bytes; *USED <= ROOM. KEDGE_E_LIMIT: does not fit ROOM. PARAM is stored with the block. */
	int (*encode)(const void *raw, size_t raw_bytes, enum kedge_type type, int level, void *out, size_t room,
		      size_t *used, uint16_t *param, struct kedge__error *err);
	/* Decode exactly RAW_BYTES; touches no byte outside RAW. KEDGE_E_DAMAGED otherwise. */
	int (*decode)(const void *in, size_t in_bytes, uint16_t param, void *raw, size_t raw_bytes,
		      struct kedge__error *err);
};

const struct kedge__codec *kedge__codec_by_id(uint16_t id); /* NULL: not in this build */
const struct kedge__codec *kedge__codec_by_name(const char *name);
size_t kedge__codec_count(void);
const struct kedge__codec *kedge__codec_at(size_t i);

/* What the configuration asks for: a codec by name with a level ("zstd:9"), or "auto". */
struct kedge__codec_choice {
	bool automatic;
	const struct kedge__codec *codec;
	int level;
};
int kedge__codec_choice_parse(const char *text, struct kedge__codec_choice *choice, struct kedge__error *err);

/*
 * With "auto": look at samples of N pieces of data of one region and settle on a codec: one that does not shrink the
 * samples by at least a twentieth is not worth its time. Deterministic: it depends on the data alone.
 */
struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted, enum kedge_type type,
					       const void *const *pieces, const size_t *bytes, size_t n);

/* One block. OUT has room for raw_bytes; *USED == raw_bytes and *CODEC == none if it did not shrink. */
int kedge__block_encode(const struct kedge__codec_choice *choice, enum kedge_type type, const void *raw,
			size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param,
			struct kedge__error *err);
/* Says which codec is missing if it is not in this build (KEDGE_E_CODEC). */
int kedge__block_decode(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, void *raw, size_t raw_bytes,
			struct kedge__error *err);

#endif
