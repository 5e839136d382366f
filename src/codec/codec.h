/*
 * codec: blocks of literals in and out of compressed form, behind one table. A block that does not
 * shrink is stored as it is (codec none), so a block never grows.
 *
 * The bitstreams are in docs/FORMAT.md, "Codecs". All of them are lossless for every bit pattern, NaN payloads and
 * negative zeros among them, and depend on nothing but the bytes, the choice and the version of the library used.
 */
#ifndef KEDGE_CODEC_CODEC_H
#define KEDGE_CODEC_CODEC_H

#include "base/base.h"

enum kedge__codec_id { /* stable on disk */
		       KEDGE__CODEC_NONE = 0,
		       KEDGE__CODEC_LZ4 = 1,
		       KEDGE__CODEC_ZSTD = 2,
		       KEDGE__CODEC_DEFLATE = 3,
		       KEDGE__CODEC_FPZIP = 4,
		       KEDGE__CODEC_FPC64 = 5,
		       KEDGE__CODEC_FPC32 = 6,
		       KEDGE__CODEC_SHUFFLE = 7,
		       KEDGE__CODEC_BITSHUFFLE = 8,
		       KEDGE__CODEC_DELTA = 9,
		       KEDGE__CODEC_FIELD = 10,
};

/* A step before a first pass: of each element, or against what stood at the same place before. */
enum kedge__codec_step {
	KEDGE__STEP_DELTA = 1, /* less the element before it */
	KEDGE__STEP_XOR = 2,   /* exclusive or with the base */
	KEDGE__STEP_MINUS = 4, /* less the element of the base */
	KEDGE__STEP_BASE = KEDGE__STEP_XOR | KEDGE__STEP_MINUS,
};

struct kedge__codec;

/* What the configuration asks for, or what was settled on for a region. */
struct kedge__codec_choice {
	bool automatic;                    /* "auto", "max": kedge__codec_sample() settles it */
	bool smallest;                     /* "max": size alone counts */
	const struct kedge__codec *codec;  /* the only pass, or the first one, which knows the type */
	int level;                         /* of codec */
	const struct kedge__codec *second; /* the general pass over what the first gives; NULL: none */
	int second_level;
	unsigned steps;      /* KEDGE__STEP_ bits */
	uint32_t row, plane; /* elements from one to the next along the second and third dimension; 0: not known */
	uint64_t bytes;      /* that are going to be packed with what is chosen; 0: those looked at */
	double target;       /* bytes of raw data a second that a thread has to keep up with; 0: no such wish */
	double storage;      /* bytes a second that storage takes, for each thread; 0: KEDGE__CODEC_STORAGE */
	uint32_t near;       /* a set of kedge__codec_sample(): what each block chooses among by itself; 0: nothing */
	double fetch;        /* bytes of a base that a thread gets in a second; 0: a built-in figure */
};

#define KEDGE__CODEC_STORAGE 100e6

struct kedge__codec_input {
	const void *raw;
	size_t bytes;
	enum kedge_type type;
	const void *base; /* as many bytes, which the reader will have too; NULL: none, and the steps that need it are
			     left out */
};

struct kedge__codec {
	uint16_t id;
	const char *name;
	int min_level, max_level, preset_level;
	bool first;   /* makes something of the type; may have a general pass behind it */
	bool general; /* may be the second pass */
	bool widths;  /* the level is the width of an element: 1, 2, 4 or 8; 0: that of the type */
	size_t (*bound)(size_t raw);
	/* Encode; *USED <= ROOM. KEDGE_E_LIMIT: does not fit ROOM, or not for data of this type or size. PARAM is
	 * stored with the block. */
	int (*encode)(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		      size_t room, size_t *used, uint16_t *param, struct kedge__error *err);
	/* Decode exactly RAW_BYTES; touches no byte outside RAW. KEDGE_E_DAMAGED otherwise. BASE is what the encoder
	 * was given, or NULL. */
	int (*decode)(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		      struct kedge__error *err);
};

const struct kedge__codec *kedge__codec_by_id(uint16_t id); /* NULL: not in this build */
const struct kedge__codec *kedge__codec_by_name(const char *name);
size_t kedge__codec_count(void);
const struct kedge__codec *kedge__codec_at(size_t i);
/* The same with KEDGE_E_CODEC and the name of what is missing. */
int kedge__codec_need(uint16_t id, const struct kedge__codec **codec, struct kedge__error *err);

/*
 * "zstd:9", "shuffle+zstd:3", "delta+bitshuffle+lz4", "xor+shuffle+zstd", "fpc64:16+zstd", "auto", "max": steps (delta,
 * xor, minus), a codec that knows types, a general one; each with a level where it has levels. Steps and shuffles
 * without a general codec get zstd.
 */
int kedge__codec_choice_parse(const char *text, struct kedge__codec_choice *choice, struct kedge__error *err);
/* The shape of the region, slowest dimension first, for the codecs that look in more than one direction. */
void kedge__codec_choice_shape(struct kedge__codec_choice *choice, int ndims, const uint64_t *dims);

/* Does a block of this codec and parameter need the bytes of a base to be unpacked? */
bool kedge__codec_needs_base(uint16_t id, uint16_t param);

#define KEDGE__CODEC_NAME_ROOM 64
/* What a block was packed with, as the parser takes it, without levels: "shuffle+zstd". */
const char *kedge__codec_describe(uint16_t id, uint16_t param, char text[KEDGE__CODEC_NAME_ROOM]);
/* A choice with its levels: "shuffle+zstd:3", "auto". */
const char *kedge__codec_choice_describe(const struct kedge__codec_choice *choice, char text[KEDGE__CODEC_NAME_ROOM]);

/* Why a codec was chosen; stable on disk. */
enum kedge__codec_reason {
	KEDGE__CODEC_NOTHING,  /* none is worth its time */
	KEDGE__CODEC_GIVEN,    /* the configuration names it */
	KEDGE__CODEC_UNTRIED,  /* the region is too small for a look: what is likely to be the best */
	KEDGE__CODEC_FASTEST,  /* through packing and storage, which go on at the same time */
	KEDGE__CODEC_TARGET,   /* the smallest that keeps up with the target */
	KEDGE__CODEC_SMALLEST, /* "max" */
	KEDGE__CODEC_BORROWED, /* too small for a look: as for another region of its type */
	KEDGE__CODEC_REASONS,
};

struct kedge__codec_why {
	enum kedge__codec_reason reason;
	double size;            /* of the samples when packed, as a share of what they are; 1: stored as they are */
	double encode, decode;  /* raw bytes a second and thread, built-in figures; 0: stored as it is */
	double storage, target; /* what was weighed with */
	uint32_t tried;         /* candidates */
	uint64_t sampled_bytes;
	uint32_t age; /* versions since the data was looked at; 0: it was for this one */
};

/* So few bytes that `auto` stores them as they are. */
bool kedge__codec_little(const struct kedge__codec_choice *wanted, uint64_t bytes);
/* A sentence without its end. */
const char *kedge__codec_reason_text(enum kedge__codec_reason reason);

/*
 * With "auto" or "max": look at samples of N pieces of data of one region, all of the same type, and settle on a codec.
 * Where all have a base, codecs that use it are tried too. Deterministic: it depends on the data, the type, the shape
 * and the speeds of WANTED alone; what codecs take is known from built-in figures. With a target: the smallest that
 * keeps up with it. Else: the one that gets data through packing and storage, which go on at the same time, fastest.
 * What is read back slower than 500 MB/s a thread is chosen by "max" alone. One that does not shrink the samples by at
 * least a twentieth (a fiftieth, if size alone counts or there is no type) is not worth its time. The look takes about
 * a twentieth of the time that packing wanted->bytes does. WHY: NULL, or filled.
 */
struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted,
					       const struct kedge__codec_input *pieces, size_t n,
					       struct kedge__codec_why *why);

/* What CHOICE, which has been settled on, means for this block: where others were near on the samples of the region, as
 * they are on memory with numbers and text side by side, the one that is best for the block. */
struct kedge__codec_choice kedge__codec_settle(const struct kedge__codec_choice *choice,
					       const struct kedge__codec_input *in);

/* ------------------------------------------------------------------ memory.c: what was settled on, over many versions
 */

struct kedge__codec_memory;

int kedge__codec_memory_new(struct kedge__codec_memory **out, struct kedge__error *err);
void kedge__codec_memory_free(struct kedge__codec_memory *m);

struct kedge__codec_subject {
	uint32_t id; /* of the region, for as long as it lives */
	enum kedge_type type;
	uint64_t bytes;   /* of the region */
	uint64_t packing; /* that are packed in this version */
	bool base;        /* there is one */
};

enum kedge__codec_look {
	KEDGE__LOOK_NOT,   /* the choice is known */
	KEDGE__LOOK_CHECK, /* it is, if a few samples pack to what they should: kedge__codec_memory_fits() */
	KEDGE__LOOK_CLOSE, /* it is not: kedge__codec_sample() */
};

/* CHOICE and WHY are filled, unless the look is a close one. */
enum kedge__codec_look kedge__codec_memory_ask(const struct kedge__codec_memory *m,
					       const struct kedge__codec_subject *s,
					       const struct kedge__codec_choice *wanted,
					       struct kedge__codec_choice *choice, struct kedge__codec_why *why);
/* SHARE, what samples packed to, is near enough to what WHY was decided on. */
bool kedge__codec_memory_fits(const struct kedge__codec_why *why, double share);
/* What is used for a version, be it new or what was asked for. */
int kedge__codec_memory_keep(struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
			     const struct kedge__codec_choice *wanted, const struct kedge__codec_choice *choice,
			     const struct kedge__codec_why *why, struct kedge__error *err);
/* What became of it: if that changes from version to version, the next look is a close one. */
void kedge__codec_memory_seen(struct kedge__codec_memory *m, uint32_t id, uint64_t raw, uint64_t stored);

/* ------------------------------------------------------------------ plan.c: how the regions of one version are packed
 * A planner for the version, a plan for each of its regions, kedge__block_pack() with the plan's choice for each block;
 * and once all are packed, the plan counts them and the memory learns from it. */

struct kedge__codec_planner {
	struct kedge__codec_choice wanted;  /* by the configuration */
	struct kedge__codec_memory *memory; /* NULL: nothing is remembered */
	uint8_t *samples;
};

int kedge__codec_planner_init(struct kedge__codec_planner *p, const struct kedge__codec_choice *wanted,
			      struct kedge__codec_memory *memory, struct kedge__error *err);
void kedge__codec_planner_done(struct kedge__codec_planner *p);

struct kedge__codec_region {
	uint32_t id; /* for as long as it lives */
	enum kedge_type type;
	uint64_t bytes;
	int ndims;
	const uint64_t *dims; /* slowest first */
};

/* The blocks of one region of the version: where samples come from. */
struct kedge__codec_blocks {
	void *ctx;
	size_t count;   /* at least 1 */
	uint64_t bytes; /* raw, of all */
	bool depends;   /* the version needs others already */
	/* The first *BYTES bytes of block I, fewer if it is shorter: *RAW is where they are, or TO, where they were put. */
	int (*raw)(void *ctx, size_t i, uint8_t *to, const void **raw, size_t *bytes, struct kedge__error *err);
	bool (*base_open)(void *ctx); /* there is a base, and it can be read; NULL: there is none */
	/* What the base has for the first BYTES bytes of block I, put at TO; false: nothing. After base_open() alone. */
	bool (*base)(void *ctx, size_t i, uint8_t *to, size_t bytes);
};

struct kedge__codec_plan { /* of a region */
	bool made;
	struct kedge__codec_subject subject;
	struct kedge__codec_choice choice;
	struct kedge__codec_why why;
	uint64_t raw, stored; /* of the blocks that were counted */
};

int kedge__codec_plan_make(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
			   const struct kedge__codec_blocks *blocks, struct kedge__codec_plan *plan,
			   struct kedge__error *err);
bool kedge__codec_plan_packs(const struct kedge__codec_plan *plan);      /* else blocks are stored as they are */
bool kedge__codec_plan_wants_base(const struct kedge__codec_plan *plan); /* where a block can have one */
/* A block was packed with CODEC and PARAM from RAW to STORED bytes. */
void kedge__codec_plan_count(struct kedge__codec_plan *plan, uint16_t codec, uint16_t param, uint64_t raw,
			     uint64_t stored);
void kedge__codec_plan_learn(const struct kedge__codec_planner *planner, const struct kedge__codec_plan *plan);
bool kedge__codec_choice_packs(const struct kedge__codec_choice *choice); /* what is asked for may pack something */

/* One block. OUT has room for in->bytes; *USED == in->bytes and *CODEC == none if it did not shrink. */
int kedge__block_pack(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in, void *out,
		      size_t *used, uint16_t *codec, uint16_t *param, struct kedge__error *err);
/* Says which codec is missing if it is not in this build (KEDGE_E_CODEC). */
int kedge__block_unpack(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, const void *base, void *raw,
			size_t raw_bytes, struct kedge__error *err);

/* The same without a base. */
int kedge__block_encode(const struct kedge__codec_choice *choice, enum kedge_type type, const void *raw,
			size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param,
			struct kedge__error *err);
int kedge__block_decode(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, void *raw, size_t raw_bytes,
			struct kedge__error *err);

#endif
