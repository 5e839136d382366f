/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * codec: compression of blocks of literals, behind one table. A block that does not shrink is
 * stored uncompressed (codec none), so a block never grows.
 *
 * The bitstreams are in docs/FORMAT.md, "Codecs". All of them are lossless for every bit pattern, including
 * NaN payloads and negative zeros, and depend only on the bytes, the choice and the version of the library used.
 */
#ifndef KEDGE_CODEC_CODEC_H
#define KEDGE_CODEC_CODEC_H

#include "base/base.h"
#include "gpu/gpu.h"
#include "pipeline/pipeline.h"

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
		       KEDGE__CODEC_RECORDS = 11,
		       KEDGE__CODEC_PLANES = 12,
		       KEDGE__CODEC_ECHO = 13,
};

/* A step before the first pass: differences of elements, or differences from what was at the same place before. */
enum kedge__codec_step {
	KEDGE__STEP_DELTA = 1, /* minus the element before it */
	KEDGE__STEP_XOR = 2,   /* exclusive or with the base */
	KEDGE__STEP_MINUS = 4, /* minus the element of the base */
	KEDGE__STEP_BASE = KEDGE__STEP_XOR | KEDGE__STEP_MINUS,
};

struct kedge__codec;

/* What the configuration asks for, or what was chosen for a region. */
struct kedge__codec_choice {
	bool automatic;                    /* "auto", "max": kedge__codec_sample() decides */
	bool smallest;                     /* "max": only size counts */
	const struct kedge__codec *codec;  /* the only pass, or the first one, which knows the type */
	int level;                         /* of codec */
	const struct kedge__codec *second; /* the general pass over the output of the first; NULL: none */
	int second_level;
	unsigned steps;      /* KEDGE__STEP_ bits */
	uint32_t row, plane; /* elements from one to the next along the second and third dimension; 0: not known */
	uint64_t bytes;      /* that will be packed with this choice; 0: those sampled */
	double target;       /* raw bytes per second that a thread must sustain; 0: no target */
	double storage;      /* bytes per second that storage takes, per thread; 0: KEDGE__CODEC_STORAGE */
	uint32_t stride;     /* bytes of a record, as found by kedge__codec_sample(); 0: none */
	uint64_t near;       /* a set made by kedge__codec_sample(), from which each block chooses; 0: empty */
	double spare;        /* seconds that a look at the data may take however little it is */
	double bus;          /* bytes per second that come from the GPU that the data is on; 0: it is on the host */
	bool there;          /* packed on that GPU: kedge__codec_there() */
	double fetch;        /* bytes of a base that a thread reads per second; 0: a built-in figure */
	struct kedge__pool *pool; /* threads that share a look at the data, if speeds are not measured; NULL: there is one */
	/* Seconds per byte that CODEC takes for data that it shrinks to SIZE, a share; NULL: they are measured. */
	double (*pace)(const char *codec, double size);
};

#define KEDGE__CODEC_STORAGE 100e6
#define KEDGE__CODEC_USES    8 /* versions that a choice serves, as a rule, if it is remembered */

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
	bool first;   /* uses the type; may be followed by a general pass */
	bool general; /* may be the second pass */
	bool widths;  /* the level is the width of an element: 1, 2, 4 or 8; 0: that of the type */
	size_t (*bound)(size_t raw);
	/* Encode; *USED <= ROOM. KEDGE_E_LIMIT: does not fit ROOM, or not suitable for this type or size. PARAM is
	 * stored with the block. */
	int (*encode)(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		      size_t room, size_t *used, uint16_t *param, struct kedge__error *err);
	/* Decode exactly RAW_BYTES, or KEDGE_E_DAMAGED; touches no byte outside RAW. BASE is what the encoder was given,
	 * or NULL. */
	int (*decode)(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		      struct kedge__error *err);
};

const struct kedge__codec *kedge__codec_by_id(uint16_t id); /* NULL: not in this build */
const struct kedge__codec *kedge__codec_by_name(const char *name);
size_t kedge__codec_count(void);
const struct kedge__codec *kedge__codec_at(size_t i);
/* The same, or KEDGE_E_CODEC with the name of the missing codec. */
int kedge__codec_need(uint16_t id, const struct kedge__codec **codec, struct kedge__error *err);

/*
 * "zstd:9", "shuffle+zstd:3", "delta+bitshuffle+lz4", "xor+shuffle+zstd", "records:88+zstd", "fpc64:16+zstd", "auto", "max": steps (delta,
 * xor, minus), a codec that knows types, a general one; each with a level where it has levels: of records, their size,
 * which is found in the data if it is not given. Steps, shuffles and records without a general codec get zstd; planes,
 * which steps may precede, has none behind it.
 */
int kedge__codec_choice_parse(const char *text, struct kedge__codec_choice *choice, struct kedge__error *err);
/* The shape of the region, slowest dimension first, for codecs that predict in more than one direction. */
void kedge__codec_choice_shape(struct kedge__codec_choice *choice, int ndims, const uint64_t *dims);

/* Does a block of this codec and parameter need the bytes of a base to be unpacked? */
bool kedge__codec_needs_base(uint16_t id, uint16_t param);

#define KEDGE__CODEC_NAME_ROOM 64
/* How a block was packed, in the parser's syntax, without levels: "shuffle+zstd". */
const char *kedge__codec_describe(uint16_t id, uint16_t param, char text[KEDGE__CODEC_NAME_ROOM]);
/* A choice with its levels: "shuffle+zstd:3", "auto". */
const char *kedge__codec_choice_describe(const struct kedge__codec_choice *choice, char text[KEDGE__CODEC_NAME_ROOM]);

/* Why a codec was chosen; stable on disk. */
enum kedge__codec_reason {
	KEDGE__CODEC_NOTHING,  /* none is worth the time */
	KEDGE__CODEC_GIVEN,    /* the configuration names it */
	KEDGE__CODEC_UNTRIED,  /* the region is too small to sample: the codec that is usually best */
	KEDGE__CODEC_FASTEST,  /* gets data through packing and storage, which overlap, fastest */
	KEDGE__CODEC_TARGET,   /* the best-compressing that sustains the target */
	KEDGE__CODEC_SMALLEST, /* "max" */
	KEDGE__CODEC_BORROWED, /* as for another region of its kind or, if too small to sample, of its type */
	KEDGE__CODEC_REASONS,
};

struct kedge__codec_why {
	enum kedge__codec_reason reason;
	double size;            /* packed / raw size of the samples; 1: stored uncompressed */
	double encode, decode;  /* raw bytes per second and thread, measured and built in; 0: stored uncompressed */
	double storage, target; /* the rates it was weighed against */
	uint32_t tried;         /* candidates */
	uint64_t sampled_bytes;
	double spared; /* seconds of wanted->spare that the look took */
	uint32_t age; /* versions since the data was sampled; 0: it was for this one */
	bool far;     /* what is gained shows on entire blocks alone */
};

/* So few bytes that `auto` stores them uncompressed. */
bool kedge__codec_little(const struct kedge__codec_choice *wanted, uint64_t bytes);
/* Whether some codec for TYPE that needs a base could be worth it: where storage is faster than a base is read, none is. */
bool kedge__codec_base_may_pay(const struct kedge__codec_choice *wanted, enum kedge_type type);
/* A sentence without its full stop. */
const char *kedge__codec_reason_text(enum kedge__codec_reason reason);

/*
 * With "auto" or "max": choose a codec by samples of N pieces of data of one region, all of the same type. If all have a
 * base, codecs that use it are tried, too. With a target, the result is the best-compressing codec that sustains it;
 * otherwise the one that gets data through packing and storage, which overlap, fastest, and of those that are about as
 * fast the best-compressing. Their speeds are measured on the samples; with wanted->pace, the result depends only on the
 * data, the type, the shape and WANTED. Only "max" chooses codecs that decode at less than 500 MB/s per thread, by built-in
 * figures. A codec that does not shrink the samples by at least a twentieth (a fiftieth, if only size counts or there is
 * no type) is not worth the time. Sampling takes about a twentieth of the time of packing wanted->bytes. WHY: NULL, or
 * filled.
 */
struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted,
					       const struct kedge__codec_input *pieces, size_t n,
					       struct kedge__codec_why *why);

/* CHOICE as it applies to this block: if other codecs were nearly as good on the samples of the region, as for memory that
 * mixes numbers and text, the one that is best for the block. */
struct kedge__codec_choice kedge__codec_settle(const struct kedge__codec_choice *choice,
					       const struct kedge__codec_input *in);
/* With "max": pack the block in every way that choice->near has, and keep the smallest result. False: it did not shrink,
 * or there is no memory. */
bool kedge__codec_smallest(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in, void *out,
			   size_t *used, uint16_t *codec, uint16_t *param);
/* The pace of a candidate of "auto", as a rule: where the choice must not depend on the machine, nor on what else it does. */
double kedge__codec_pace_built_in(const char *codec, double size);

/* there.c: whether a GPU packs data of TYPE in this way: HOW it does, and the parameter of a block that shrinks. Blocks are as
 * any codec's, of lz4 and deflate not the very bytes that their libraries make. */
bool kedge__codec_there(const struct kedge__codec_choice *choice, enum kedge_type type, struct kedge__gpu_how *how,
			uint16_t *param);

#define KEDGE__CODEC_BUS 55e9 /* bytes a second from a GPU, as a rule, at most */

/* ------------------------------------------------------------------ memory.c: choices that are remembered over many versions
 */

struct kedge__codec_memory;

int kedge__codec_memory_new(struct kedge__codec_memory **out, struct kedge__error *err);
void kedge__codec_memory_free(struct kedge__codec_memory *m);

struct kedge__codec_subject {
	uint32_t id;   /* of the region, for as long as it lives */
	uint64_t kind; /* regions that are called and typed alike, and are about as large: kedge__codec_kind() */
	enum kedge_type type;
	uint64_t bytes;   /* of the region */
	uint64_t packing; /* that are packed in this version */
	bool base;        /* there is one */
};

enum kedge__codec_look {
	KEDGE__LOOK_NOT,   /* the choice is known */
	KEDGE__LOOK_CHECK, /* it is, if a few samples pack to the expected size: kedge__codec_memory_fits() */
	KEDGE__LOOK_CLOSE, /* it is not: kedge__codec_sample() */
};

/* Regions whose names differ only in numbers are of one kind, if their types are the same and their sizes similar. */
uint64_t kedge__codec_kind(const char *name, enum kedge_type type, uint64_t bytes, bool base);
/* A version begins. */
void kedge__codec_memory_begin(struct kedge__codec_memory *m);
/* It packs BYTES more of regions of a kind: the first look at one of them serves all; later ones, nobody else. */
void kedge__codec_memory_expect(struct kedge__codec_memory *m, uint64_t kind, uint64_t bytes);
uint64_t kedge__codec_memory_expected(const struct kedge__codec_memory *m, uint64_t kind);

/* CHOICE and WHY are filled, unless the look is a close one. */
enum kedge__codec_look kedge__codec_memory_ask(const struct kedge__codec_memory *m,
					       const struct kedge__codec_subject *s,
					       const struct kedge__codec_choice *wanted,
					       struct kedge__codec_choice *choice, struct kedge__codec_why *why);
/* What was settled on for it last, if it was asked for in the same way, however doubtful it is. */
bool kedge__codec_memory_last(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
			      const struct kedge__codec_choice *wanted, struct kedge__codec_choice *choice,
			      struct kedge__codec_why *why);
/* SHARE, the packed share of the samples, is close enough to the one that WHY was based on. */
bool kedge__codec_memory_fits(const struct kedge__codec_why *why, double share);
/* Record the choice used for a version, whether new or given. */
int kedge__codec_memory_keep(struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
			     const struct kedge__codec_choice *wanted, const struct kedge__codec_choice *choice,
			     const struct kedge__codec_why *why, struct kedge__error *err);
/* Record the actual size: if it changes from version to version, or is not what it is for others of its kind, the region
 * is sampled again. */
void kedge__codec_memory_seen(struct kedge__codec_memory *m, const struct kedge__codec_subject *s, uint64_t raw,
			      uint64_t stored);

/* ------------------------------------------------------------------ plan.c: how the regions of one version are packed
 * A planner for the version, a plan for each of its regions, kedge__block_pack() with the plan's choice for each block;
 * and once all are packed, the plan counts them and the memory learns from it. */

struct kedge__codec_planner {
	struct kedge__codec_choice wanted;  /* by the configuration */
	struct kedge__codec_memory *memory; /* NULL: nothing is remembered */
	uint8_t *samples;
	double spare; /* seconds that are left for looks at regions which are too small for one */
	struct kedge__pool *pool; /* may be set: that of the caller */
};

int kedge__codec_planner_init(struct kedge__codec_planner *p, const struct kedge__codec_choice *wanted,
			      struct kedge__codec_memory *memory, struct kedge__error *err);
void kedge__codec_planner_done(struct kedge__codec_planner *p);

struct kedge__codec_region {
	uint32_t id; /* for as long as it lives */
	const char *name;
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
	bool joins;     /* they may be joined to larger ones, with what plan->joint says */
	/* *BYTES bytes of block I from byte SKIP on, fewer if it is shorter: *RAW is where they are, or TO, where they were put. */
	int (*raw)(void *ctx, size_t i, size_t skip, uint8_t *to, const void **raw, size_t *bytes, struct kedge__error *err);
	bool (*base_open)(void *ctx); /* there is a base, and it can be read; NULL: there is none */
	/* What the base has for the first BYTES bytes of block I, put at TO; false: nothing. After base_open() alone. */
	bool (*base)(void *ctx, size_t i, uint8_t *to, size_t bytes);
};

struct kedge__codec_plan { /* of a region */
	bool made;
	bool doubted; /* by kedge__codec_plan_there(): it is high time for a look at the data, for the next version */
	struct kedge__codec_subject subject;
	struct kedge__codec_choice choice;
	struct kedge__codec_why why;
	size_t joint;         /* blocks that are joined to one, with blocks->joins: all become as large, nearly; 0: none are */
	uint64_t raw, stored; /* of the blocks that were counted */
};

/* Before the first plan, for each region: BLOCKS of it, of which only sizes are used, will be packed. */
void kedge__codec_planner_expect(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
				 const struct kedge__codec_blocks *blocks);
int kedge__codec_plan_make(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
			   const struct kedge__codec_blocks *blocks, struct kedge__codec_plan *plan,
			   struct kedge__error *err);
/*
 * The same for a region on a GPU whose bytes are not at hand yet, with WANTED->bus, before there is a planner: what the
 * configuration names, or what was settled on for earlier versions. False: its blocks come to the host as they are, and are
 * planned there. Once there is a planner, and BLOCKS are at hand, it has to follow what was planned.
 */
bool kedge__codec_plan_there(const struct kedge__codec_choice *wanted, const struct kedge__codec_memory *memory,
			     const struct kedge__codec_region *region, struct kedge__codec_plan *plan);
int kedge__codec_plan_follow(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
			     const struct kedge__codec_blocks *blocks, const struct kedge__codec_plan *plan,
			     struct kedge__error *err);
bool kedge__codec_plan_packs(const struct kedge__codec_plan *plan);      /* else blocks are stored as they are */
bool kedge__codec_plan_wants_base(const struct kedge__codec_plan *plan); /* where a block can have one */
/* A block was packed with CODEC and PARAM from RAW to STORED bytes. */
void kedge__codec_plan_count(struct kedge__codec_plan *plan, uint16_t codec, uint16_t param, uint64_t raw,
			     uint64_t stored);
void kedge__codec_plan_learn(const struct kedge__codec_planner *planner, const struct kedge__codec_plan *plan);
/* Whether numbers of TYPE repeat themselves, far apart, by windows of them, one after the other: what codec echo packs. */
bool kedge__codec_echoes(enum kedge_type type, const void *windows, size_t bytes);
bool kedge__codec_choice_packs(const struct kedge__codec_choice *choice); /* what is asked for may pack something */

/* One block. OUT has room for in->bytes; *USED == in->bytes and *CODEC == none if it did not shrink. */
int kedge__block_pack(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in, void *out,
		      size_t *used, uint16_t *codec, uint16_t *param, struct kedge__error *err);
/* KEDGE_E_CODEC names a codec that is not in this build. */
int kedge__block_unpack(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, const void *base, void *raw,
			size_t raw_bytes, struct kedge__error *err);

/* The same without a base. */
int kedge__block_encode(const struct kedge__codec_choice *choice, enum kedge_type type, const void *raw,
			size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param,
			struct kedge__error *err);
int kedge__block_decode(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, void *raw, size_t raw_bytes,
			struct kedge__error *err);

/* ------------------------------------------------------------------ planes.c
 * The strips of a block that is packed with codec planes, one after the other, for callers that unpack them elsewhere, on a GPU. The last one may
 * be what no strip has. */

struct kedge__planes_walk {
	const uint8_t *in;
	size_t in_bytes, raw_bytes, whole;
	unsigned width, steps;
	size_t count; /* strips, the last one included */
	/* The strip: */
	size_t from, size; /* in the block as it is packed; as many as it has: it is not packed */
	size_t at, bytes;  /* in the block */
};

/* KEDGE_E_DAMAGED: the block is not what it says. */
int kedge__planes_walk_init(struct kedge__planes_walk *w, const void *in, size_t in_bytes, uint16_t param, size_t raw_bytes,
			    struct kedge__error *err);
int kedge__planes_walk_next(struct kedge__planes_walk *w, bool *more, struct kedge__error *err);
/* Whether the block is of a width that GPUs unpack, and needs no base. */
bool kedge__planes_alone(uint16_t param);

#endif
