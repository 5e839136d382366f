/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * format: the records on disk, as docs/FORMAT.md specifies them: encode, decode, check. No I/O, no
 * policy. Decoders accept untrusted bytes: every count and length is checked before use, and a
 * decoder either fills its entire result or leaves it empty and says why.
 *
 * A store is a directory:
 *   STORE/kedge-store                       the marker: magic, format version, a random id
 *   STORE/NAME/lock                         the owner, while a job has the name open
 *   STORE/NAME/guard                        empty; readers and writers share it, gc and coalescing take it alone
 *   STORE/NAME/set-VVVVVVVVVVVVVVVVVVVV     a manifest (20 digits): the set exists when this does
 *   STORE/NAME/vVVVVVVVVVVVVVVVVVVVV/rRRRRRRR-gG.seg   a segment: rank, generation (grows when coalescing rewrites it)
 *   STORE/NAME/vVVVVVVVVVVVVVVVVVVVV/rRRRRRRR-gG.bdl   a bundle: the segments of several ranks, from RRRRRRR on
 *   STORE/NAME/vVVVVVVVVVVVVVVVVVVVV/rRRRRRRR-gG.shd   the shield that the rank keeps for its team, beside that segment
 * Anything else, and *.tmp, is a leftover of a crash.
 */
#ifndef KEDGE_FORMAT_FORMAT_H
#define KEDGE_FORMAT_FORMAT_H

#include "base/base.h"
#include "base/extent_tape.h"

#define KEDGE__FORMAT_MAJOR 1 /* a reader refuses any other major */
#define KEDGE__FORMAT_MINOR 0 /* as markers and segments are written: sections describe themselves */
#define KEDGE__FORMAT_NEWEST 8 /* the minor whose manifests, sections and maps are known here */

/* Limits of the format. */
#define KEDGE__RANK_LIMIT       UINT32_C(10000000) /* ranks: file names have room for seven digits */
#define KEDGE__SECTION_LIMIT    64                 /* sections of a segment */
#define KEDGE__CHUNK_MIN        UINT32_C(16)
#define KEDGE__PATTERN_MAX      UINT32_C(256) /* chunks of a map by pages */
#define KEDGE__CHUNK_MAX        UINT32_C(65536)
#define KEDGE__REGION_BYTES_MAX (KEDGE__SLOT_BYTES - 1) /* so that no two regions touch */
#define KEDGE__IMAGE_BYTES_MAX  (UINT64_C(1) << 60)
#define KEDGE__WHY_MAX          1024
#define KEDGE__LABEL_MAX        64   /* bytes of a label */
#define KEDGE__KEEP_MAX         200
#define KEDGE__LABELS_MAX       1024 /* bytes of all labels of a version, with a blank between two */
#define KEDGE__RUN_LINKS_MAX    1024 /* runs before a run that its history names */
#define KEDGE__CODEC_STORED     0 /* an uncompressed block; codec.h has the other codecs */

#define KEDGE__STORE_MARKER_NAME "kedge-store"

/* 0 (no chunks), or a power of two within the limits. */
static inline bool kedge__chunk_valid(uint32_t chunk)
{
	return chunk == 0 || (chunk >= KEDGE__CHUNK_MIN && chunk <= KEDGE__CHUNK_MAX && (chunk & (chunk - 1)) == 0);
}

/* A byte string that grows: encoders append to it, or leave it as it was on failure. */
struct kedge__bytes {
	uint8_t *at;
	size_t count, room;
};
void kedge__bytes_done(struct kedge__bytes *b);

/* ------------------------------------------------------------------ store_marker.c */

struct kedge__store_id {
	uint8_t at[16];
};
int kedge__store_marker_encode(const struct kedge__store_id *id, struct kedge__bytes *out, struct kedge__error *err);
int kedge__store_marker_decode(const void *data, size_t bytes, struct kedge__store_id *id, struct kedge__error *err);

/* ------------------------------------------------------------------ tree_format.c */

#define KEDGE__TREE_REGION "/tree" /* no file is called so: names of files are relative */

enum kedge__tree_kind { /* stable on disk; 0 is a gap */
	KEDGE__TREE_FILE = 1,
	KEDGE__TREE_DIRECTORY,
	KEDGE__TREE_SYMLINK,
	KEDGE__TREE_HARDLINK, /* its target is the name of a file of the tree */
	KEDGE__TREE_FIFO,
	KEDGE__TREE_CHARACTER, /* a device, whose number is `size` */
	KEDGE__TREE_BLOCK,
	KEDGE__TREE_SOCKET,
	KEDGE__TREE_KINDS
};

#define KEDGE__TREE_SPARSE 1u /* flags: the file had holes */
#define KEDGE__TREE_PLAIN  2u /* its region has its plain form */

struct kedge__tree_entry {
	char *name, *target; /* owned; TARGET NULL: none */
	uint8_t *xattrs;     /* owned; each is u16 bytes of the name, u32 bytes of the value, name, value */
	size_t xattr_bytes;
	uint8_t kind, flags;
	uint32_t mode, uid, gid; /* mode: the lower twelve bits */
	uint64_t size, inode;
	int64_t mtime_ns;
	int64_t ctime_ns; /* 0: so recent that the file may have changed once more without showing it */
};

struct kedge__tree { /* the files of a version, in the order of their names */
	KEDGE__ARRAY(struct kedge__tree_entry) list;
	uint64_t caller; /* which process called `kedge save`, if that calls it again and again; 0: any other */
};

/* In the order of bytes; BEFORE, if there is one, is an encoded tree, and what is the same in both is at the same place. */
int kedge__tree_encode(const struct kedge__tree *tree, const void *before, size_t before_bytes, struct kedge__bytes *out, struct kedge__error *err);
int kedge__tree_decode(const void *data, size_t bytes, struct kedge__tree *tree, struct kedge__error *err);
void kedge__tree_done(struct kedge__tree *tree);
void kedge__tree_entry_done(struct kedge__tree_entry *e);
void kedge__tree_sort(struct kedge__tree *tree);
const struct kedge__tree_entry *kedge__tree_find(const struct kedge__tree *tree, const char *name); /* or NULL */
/* Relative, without empty components, "." and "..": it stays below the directory that it is restored to. */
bool kedge__tree_name_ok(const char *name);

/* ------------------------------------------------------------------ plain_format.c
 * The plain form of a file: its bytes, but for chunks of datasets that it keeps packed, which are unpacked; and the recipe that makes the
 * file of it again. */

#define KEDGE__PLAIN_HEAD    64
#define KEDGE__PLAIN_ALIGN   64 /* chunks begin at multiples of it, so that elements are whole where blocks end */
#define KEDGE__PLAIN_FILTERS 8   /* of a chunk, at most */
#define KEDGE__PLAIN_VALUES  8   /* of a filter */
#define KEDGE__PLAIN_PIPES   256 /* different ones */
#define KEDGE__PLAIN_CHUNKS  ((size_t)1 << 20)
#define KEDGE__PLAIN_MOST    (UINT32_C(160) << 20) /* bytes of a chunk, unpacked */

struct kedge__plain_filter { /* as HDF5 numbers them */
	uint16_t id, count;
	uint32_t values[KEDGE__PLAIN_VALUES];
};

struct kedge__plain_pipe { /* filters that were undone, in the order in which they are applied */
	uint32_t count;
	bool elements; /* no others were applied: what is unpacked are elements */
	struct kedge__plain_filter filters[KEDGE__PLAIN_FILTERS];
};

struct kedge__plain_chunk {
	uint64_t offset; /* in the file, */
	uint64_t at;     /* and in the region */
	uint32_t bytes, plain; /* there, and here */
	uint32_t pipe;
};

struct kedge__plain {
	uint64_t file_bytes;
	KEDGE__ARRAY(struct kedge__plain_pipe) pipes;
	KEDGE__ARRAY(struct kedge__plain_chunk) chunks; /* ascending, disjoint */
};

struct kedge__plain_head { /* at the beginning of the region */
	uint64_t file_bytes;
	uint64_t recipe_at, recipe_bytes; /* where the recipe is, up to the end of the region */
	uint64_t recipe_sum;
};

/* HEAD is the first KEDGE__PLAIN_HEAD bytes of a region of BYTES bytes. False: it is no plain form that this build reads. */
bool kedge__plain_head_decode(const void *head, uint64_t bytes, struct kedge__plain_head *out);
/* RECIPE is what HEAD says where it is. `at` of chunks is computed. */
int kedge__plain_decode(const struct kedge__plain_head *head, const void *recipe, struct kedge__plain *out, struct kedge__error *err);
/* The head, and the recipe, whose place follows from the chunks; `at` of chunks is not looked at. */
int kedge__plain_encode(const struct kedge__plain *p, uint8_t head[KEDGE__PLAIN_HEAD], struct kedge__bytes *recipe, struct kedge__error *err);
void kedge__plain_done(struct kedge__plain *p);
/* The chunk that has, or is the last one before, byte OFFSET of the file; NULL: there is none. */
const struct kedge__plain_chunk *kedge__plain_find(const struct kedge__plain *p, uint64_t offset);
static inline uint64_t kedge__plain_align(uint64_t at) { return (at + KEDGE__PLAIN_ALIGN - 1) / KEDGE__PLAIN_ALIGN * KEDGE__PLAIN_ALIGN; }
/* Bytes that a chunk of PLAIN bytes may take in the file: none is much larger when it is packed, and this much memory is taken for it. */
static inline uint64_t kedge__plain_room(uint64_t plain) { return plain + plain / 8 + 4096; }
bool kedge__plain_pipe_same(const struct kedge__plain_pipe *a, const struct kedge__plain_pipe *b);

/* ------------------------------------------------------------------ tie_format.c */

#define KEDGE__TIE_PATH_MAX 4096

struct kedge__tie { /* which store is the L2 of a job; kept on its L1 */
	struct kedge__store_id id;
	char *path; /* where it was, for messages; owned */
};
int kedge__tie_encode(const struct kedge__tie *tie, struct kedge__bytes *out, struct kedge__error *err);
int kedge__tie_decode(const void *data, size_t bytes, struct kedge__tie *tie, struct kedge__error *err);
void kedge__tie_done(struct kedge__tie *tie);

/* ------------------------------------------------------------------ segment_format.c, and summary_, region_, block_,
 * lineage_format.c */

#define KEDGE__SEGMENT_HEADER_BYTES 64
#define KEDGE__SEGMENT_FOOTER_BYTES 64
#define KEDGE__BLOCK_RAW_MAX        (UINT32_C(64) << 20)

struct kedge__segment_header {
	uint64_t version, created_ns;
	uint32_t rank, ranks;
};

enum kedge__section_type {                                      /* four letters, little-endian */
			   KEDGE__SECTION_SUMMARY = 0x4d4d5553, /* SUMM */
			   KEDGE__SECTION_REGIONS = 0x4e474552, /* REGN */
			   KEDGE__SECTION_MAP = 0x5850414d,     /* MAPX */
			   KEDGE__SECTION_BLOCKS = 0x534b4c42,  /* BLKS */
			   KEDGE__SECTION_LINEAGE = 0x454e494c, /* LINE */
			   KEDGE__SECTION_BASE = 0x45534142,    /* BASE; only where a block needs it */
			   KEDGE__SECTION_PACKING = 0x4b434150, /* PACK; for people */
			   KEDGE__SECTION_SUMS = 0x534d5553,    /* SUMS; only where a block has pages */
			   KEDGE__SECTION_CLASSES = 0x53414c43, /* CLAS; only where literals were arranged */
};
#define KEDGE__SECTION_REQUIRED 1u /* flag: a reader that does not know the type must refuse the segment */
#define KEDGE__SECTION_PACKED   2u /* flag: the section is a packed string */
#define KEDGE__SECTION_CHANGES  4u /* flag, only of REGN: the section is a difference to that of the parent */

#define KEDGE__SECTION_PACK_LEAST 512                 /* bytes: smaller sections are not packed */
#define KEDGE__SECTION_ALLOWANCE  (UINT64_C(16) << 20) /* bytes that any packed section may have */

struct kedge__section_entry {
	uint32_t type, flags;
	uint64_t offset, bytes, checksum;
};

struct kedge__segment_footer {
	uint64_t index_offset, payload_bytes, file_bytes; /* payload: the blocks, right after the header */
	uint32_t section_count;
	struct kedge__digest
	    seal; /* over header and index: the index holds every section's checksum, BLKS every block's */
};

struct kedge__segment_summary {
	char *name;      /* of the job; owned */
	uint64_t parent; /* KEDGE__NO_VERSION (all ones): none */
	uint32_t reducer, chunk;
	uint32_t next_slot;            /* lowest slot never used in this record */
	struct kedge__digest image_id; /* over the encoded REGN section: identifies the image, survives coalescing */
	uint64_t raw_bytes, literal_bytes;
	double hash_seconds, write_seconds; /* measured by the writer; 0 if not known */
};

struct kedge__region_record {
	char *name; /* owned */
	uint32_t slot;
	uint32_t type;  /* enum kedge_type */
	uint32_t ndims; /* 0: no shape known */
	uint64_t dims[KEDGE_MAX_DIMS];
	uint64_t bytes;
	struct kedge__digest digest; /* region digest (base.h: kedge__sum_digest), */
	enum kedge__sum_rule rule;   /* of a sum that was made by this */
	bool file;                   /* of a routed file; derived while decoding: by its name */
};

struct kedge__block_record {
	uint32_t raw_bytes, stored_bytes;
	uint16_t codec;    /* codec.h */
	uint16_t param;    /* codec's own, e.g. element size */
	uint32_t region;   /* index of the region that its bytes belong to */
	uint64_t checksum; /* of the stored bytes; of the checksums of its pages, if it has any */
	uint64_t offset;   /* in the file; derived while decoding: blocks follow each other */
	uint64_t position; /* of its first byte in the literal space; derived */
	uint32_t first_sum; /* in section SUMS, of the first of its pages; KEDGE__NO_SUMS: it has one checksum */
};

/* Pages, the last of which may be shorter, of a block without a codec that is larger than one. */
#define KEDGE__BLOCK_PAGE UINT32_C(4096)
#define KEDGE__NO_SUMS    UINT32_MAX
#define KEDGE__SUM_BYTES  ((size_t)8)

static inline bool kedge__block_has_pages(const struct kedge__block_record *b)
{
	return b->first_sum != KEDGE__NO_SUMS;
}
/* How many pages BYTES bytes are. */
static inline size_t kedge__pages_of(size_t bytes)
{
	return (bytes + KEDGE__BLOCK_PAGE - 1) / KEDGE__BLOCK_PAGE;
}

struct kedge__source_record {
	uint64_t version;
	struct kedge__digest image_id;
};

void kedge__segment_header_encode(const struct kedge__segment_header *h, uint8_t out[KEDGE__SEGMENT_HEADER_BYTES]);
bool kedge__segment_begins(const uint8_t *in, size_t bytes); /* as segments of all formats do */
/* KEDGE_E_FORMAT for another major, KEDGE_E_DAMAGED for anything else that is invalid. */
int kedge__segment_header_decode(const uint8_t in[KEDGE__SEGMENT_HEADER_BYTES], struct kedge__segment_header *h,
				 struct kedge__error *err);
void kedge__segment_footer_encode(const struct kedge__segment_footer *f, uint8_t out[KEDGE__SEGMENT_FOOTER_BYTES]);
int kedge__segment_footer_decode(const uint8_t in[KEDGE__SEGMENT_FOOTER_BYTES], uint64_t file_bytes,
				 struct kedge__segment_footer *f, struct kedge__error *err);
/* The index and its seal. Decode fills E, which has room for the footer's section_count (<= KEDGE__SECTION_LIMIT)
 * entries. It checks bounds and order of the sections against the footer, that each of the five types that every segment has
 * occurs once, and that no unknown one is REQUIRED (KEDGE_E_FORMAT). */
int kedge__section_index_encode(const struct kedge__section_entry *e, size_t n, struct kedge__bytes *out,
				struct kedge__error *err);
int kedge__section_index_decode(const void *data, size_t bytes, const struct kedge__segment_footer *f,
				struct kedge__section_entry *e, struct kedge__error *err);
/* The four letters of a section type, in TEXT. */
const char *kedge__section_name(uint32_t type, char text[5]);
struct kedge__digest kedge__segment_seal(const uint8_t header[KEDGE__SEGMENT_HEADER_BYTES], const void *index,
					 size_t bytes);

/* ---- pack.c: sections whose entry has the flag */

/* Replace TEXT by its packed form if that is smaller by an eighth. */
int kedge__section_pack(struct kedge__bytes *text, bool *packed, struct kedge__error *err);
/* *OUT: kedge__free(). */
int kedge__section_unpack(const void *data, size_t bytes, uint8_t **out, size_t *n, struct kedge__error *err);

int kedge__summary_encode(const struct kedge__segment_summary *s, struct kedge__bytes *out, struct kedge__error *err);
int kedge__summary_decode(const void *data, size_t bytes, struct kedge__segment_summary *s, struct kedge__error *err);
void kedge__summary_done(struct kedge__segment_summary *s);

/* In ascending order of slots; names differ; shape, type and size agree. */
int kedge__regions_encode(const struct kedge__region_record *r, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err);
/* NAMES is NULL or becomes the index of the names: kedge__hash_done(). */
int kedge__regions_decode(const void *data, size_t bytes, struct kedge__region_record **r, size_t *n, struct kedge__hash *names,
			  struct kedge__error *err);
/* ---- region_difference.c: sections REGN as differences. BASE and the table are plain sections; what is wrong with the result
 * is found when it is decoded. */
int kedge__regions_subtract(const void *base, size_t base_bytes, const void *data, size_t bytes, struct kedge__bytes *out,
			    struct kedge__error *err);
int kedge__regions_apply(const void *base, size_t base_bytes, const void *data, size_t bytes, struct kedge__bytes *out,
			 struct kedge__error *err);
size_t kedge__regions_find(const struct kedge__region_record *r, const struct kedge__hash *names, const char *name); /* or KEDGE__HASH_NONE */
void kedge__regions_free(struct kedge__region_record *r, size_t n);

int kedge__blocks_encode(const struct kedge__block_record *b, size_t n, struct kedge__bytes *out,
			 struct kedge__error *err);
/* Checks that the blocks fill PAYLOAD_BYTES exactly. */
int kedge__blocks_decode(const void *data, size_t bytes, uint64_t payload_bytes, struct kedge__block_record **b,
			 size_t *n, struct kedge__error *err);

/* The checksums of all pages of DATA go to SUMS, in the form that is stored; the result is the checksum of the block. */
uint64_t kedge__sums_make(const void *data, size_t bytes, uint8_t *sums);
/* The checksum of a block, whose codec is known, by its STORED bytes. SUMS: room for those of its pages, if it has some. */
uint64_t kedge__block_checksum(const struct kedge__block_record *b, const void *stored, uint8_t *sums);
/* The first of the pages of DATA whose checksum is not the one in SUMS; kedge__pages_of(BYTES) if there is none. */
size_t kedge__sums_check(const uint8_t *sums, const void *data, size_t bytes);
/* Section SUMS: gives the N blocks, of a segment that has it, the places of their checksums. */
int kedge__sums_assign(const void *data, size_t bytes, struct kedge__block_record *b, size_t n,
		       struct kedge__error *err);

/* In strictly ascending order of versions. */
int kedge__lineage_encode(const struct kedge__source_record *s, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err);
int kedge__lineage_decode(const void *data, size_t bytes, struct kedge__source_record **s, size_t *n,
			  struct kedge__error *err);

/* The version that blocks were packed against. */
int kedge__base_encode(uint64_t version, struct kedge__bytes *out, struct kedge__error *err);
int kedge__base_decode(const void *data, size_t bytes, uint64_t *version, struct kedge__error *err);

#define KEDGE__PACKING_NAME_MAX 63

struct kedge__packing_record { /* how the blocks of a region were compressed, and why */
	uint32_t region;
	uint32_t reason; /* codec.h; may be unknown to a reader */
	uint32_t age;    /* versions since the data was sampled */
	char name[KEDGE__PACKING_NAME_MAX + 1];
	/* Not negative; 0: unknown. The expected compressed / raw size, and bytes per second: of compression, of storage,
	 * and of the target. */
	double size, encode, storage, target;
};

/* In ascending order of regions. */
int kedge__packing_encode(const struct kedge__packing_record *p, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err);
int kedge__packing_decode(const void *data, size_t bytes, struct kedge__packing_record **p, size_t *n,
			  struct kedge__error *err);

#define KEDGE__CLASS_NAME_MAX 4095

/* A class of literals: what belongs together, whichever regions it is from. Its blocks are the last of the segment, those of the
 * first class first. */
struct kedge__class_record {
	char *name;
	uint32_t type, ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
	uint64_t pieces, blocks;
	struct kedge__packing_record packing; /* without a region */
};

struct kedge__classes_record {
	uint32_t scheme; /* aggregate.h; may be unknown to a reader, as the reason may */
	uint64_t block;  /* bytes that were taken in turn; 0: all of a variable */
	uint32_t reason;
	uint32_t age;    /* versions since the schemes were tried */
	double sizes[4]; /* what a sample shrank to by each of them, as a share of its size; 0: unknown */
	struct kedge__class_record *at;
	size_t count;
};

int kedge__classes_encode(const struct kedge__classes_record *c, struct kedge__bytes *out, struct kedge__error *err);
int kedge__classes_decode(const void *data, size_t bytes, struct kedge__classes_record *out, struct kedge__error *err);
void kedge__classes_done(struct kedge__classes_record *c);

/* ------------------------------------------------------------------ map_encode.c, map_decode.c, pages_*.c
 * Five encodings of an extent map; all decode to the same extents. RUNS: varints, delta-coded, one entry per
 * extent. LIST: varints, one entry per chunk. BITMAP: one bit per chunk, literal or same place. PAGES: a table of pages and
 * a list of pointers, one for each run of patterns (chunks) in a page. COLUMNS: the entries of RUNS, field by field, packed. The caller chooses the encoding; if it cannot express
 * the map, RUNS is used. A decoded map covers every byte of every region exactly once; extents that continue each other are
 * merged. kedge__segment_check() checks whether literals, parent and versions exist. */

enum kedge__map_encoding {
	KEDGE__MAP_RUNS = 0,
	KEDGE__MAP_LIST = 1,
	KEDGE__MAP_BITMAP = 2,
	KEDGE__MAP_PAGES = 3,
	KEDGE__MAP_COLUMNS = 4,
	KEDGE__MAP_SMALLER, /* only to encode: runs or columns */
};

/* MAP is read several times. REGIONS give the mapped ranges. SELF is the segment's own version. */
int kedge__map_encode(enum kedge__map_encoding how, struct kedge__extent_reader map, uint32_t chunk, uint64_t self,
		      const struct kedge__region_record *regions, size_t n, struct kedge__bytes *out,
		      struct kedge__error *err);
/* *MAP inherits all of every region. */
int kedge__map_decode(const void *data, size_t bytes, uint64_t self, const struct kedge__region_record *regions,
		      size_t n, enum kedge__map_encoding *how, struct kedge__extent_map *map, struct kedge__error *err);

/* ------------------------------------------------------------------ segment_check.c
 * Each section may be valid on its own while the segment is not. These checks hold between sections (FORMAT.md, "What a
 * reader refuses"): sums, slots, regions of blocks, the image id, and that the map covers every byte of every region once
 * and refers only to literals that exist, the parent, and versions in the lineage. A reader calls it after decoding all
 * sections. */

struct kedge__segment_parts {
	const struct kedge__segment_header *header;
	const struct kedge__segment_summary *summary;
	const void *regions_data; /* section REGN as stored: the image id covers it */
	size_t regions_bytes;
	const struct kedge__region_record *regions;
	size_t region_count;
	const struct kedge__extent_map *map;
	const struct kedge__block_record *blocks;
	size_t block_count;
	const struct kedge__source_record *sources;
	size_t source_count;
	uint64_t base; /* KEDGE__NO_VERSION: there is no section BASE */
};
int kedge__segment_check(const struct kedge__segment_parts *p, struct kedge__error *err);

/* ------------------------------------------------------------------ manifest_format.c */

struct kedge__set_part { /* one rank's segment */
	uint32_t generation;
	uint64_t file_bytes;
	struct kedge__digest seal, image_id;
	uint64_t raw_bytes, literal_bytes, metadata_bytes;
	/* Not in its record: they follow from the set's BUNDLE and the sizes of the parts. */
	uint32_t bundle; /* ranks per bundle; 0: the segment is a file of its own */
	uint64_t start;  /* its place in the bundle */
};

#define KEDGE__BUNDLE_ALIGN UINT64_C(4096) /* a segment in a bundle begins at a multiple of this */

/*
 * A run: the versions that a process takes from its start, a restart or a discard on. Its history says which versions of
 * which earlier runs still count; any other version was abandoned. Versions of a manifest without a run (format 1.1 and
 * before) belong to run 0, which has no history.
 */
struct kedge__run_link {
	uint64_t id;
	uint64_t until; /* its last version that counts */
};

struct kedge__run {
	uint64_t id;
	uint64_t epoch;                /* above those of all runs known when it began */
	struct kedge__run_link *links; /* the latest first, descending versions; owned */
	size_t link_count;
};

void kedge__run_done(struct kedge__run *run);
int kedge__run_copy(const struct kedge__run *from, struct kedge__run *to, struct kedge__error *err);
/* The run ID that begins with version FIRST and follows version AFTER of BASE (KEDGE__NO_VERSION: nothing). OUT->links has room for
 * one more link than BASE has; the other members of OUT are set here, except its epoch. */
void kedge__run_follow(const struct kedge__run *base, uint64_t after, uint64_t first, uint64_t id, struct kedge__run *out);
/* Does VERSION of run ID belong to the history of RUN? */
bool kedge__run_has(const struct kedge__run *run, uint64_t id, uint64_t version);
/* It does not, for a known reason: RUN left run ID before it, or it is above every version that existed when RUN began. */
bool kedge__run_abandons(const struct kedge__run *run, uint64_t id, uint64_t version);

/* ------------------------------------------------------------------ grouping_format.c
 * Files of many ranks in few segments (`kedge save --ranks`): those of SIZE ranks that follow each other are in one. */

#define KEDGE__RANK_PATTERN_MAX 1024

struct kedge__grouping {
	uint32_t size;     /* ranks in a group */
	uint32_t count;    /* of segments, which is that of groups with files */
	uint32_t *numbers; /* of the group in each segment, ascending: group N is from rank N * SIZE on; owned */
	char *pattern;     /* of names of files, with {} for the rank; owned */
};

/* Which segment has the files of RANK; false: there are none. What belongs to no rank is in segment 0. */
bool kedge__grouping_segment(const struct kedge__grouping *g, uint64_t rank, uint32_t *segment);
bool kedge__grouping_same(const struct kedge__grouping *a, const struct kedge__grouping *b); /* each may be NULL */
struct kedge__grouping *kedge__grouping_copy(const struct kedge__grouping *g); /* NULL: no memory */
void kedge__grouping_free(struct kedge__grouping *g);

/* ------------------------------------------------------------------ manifest_format.c, the set */

struct kedge__set {
	char *name; /* of the job; owned */
	uint64_t version, parent, created_ns;
	uint32_t reducer;
	uint32_t ranks;
	struct kedge__set_part *parts; /* `ranks` of them; owned */
	uint64_t *sources;             /* union over ranks of the versions referred to, ascending; owned */
	size_t source_count;
	double seconds; /* the longest time a rank was blocked; 0 if not known */
	char *why;      /* why it was taken, at most KEDGE__WHY_MAX bytes; NULL: unknown; owned */
	struct kedge__run run; /* that it belongs to; owned */
	char *note;     /* what people say about it, at most KEDGE_NOTE_MAX bytes; NULL: nothing; owned */
	char *keep;     /* which versions of the job stay on this level, at most KEDGE__KEEP_MAX bytes; NULL: all; owned */
	char *labels;   /* names that people gave it, with a blank between two; NULL: none; owned */
	uint32_t bundle; /* ranks whose segments share a file, at least 2; 0: each has its own */
	struct kedge__grouping *grouping; /* of the files that it has; NULL: segments are ranks; owned */
};

int kedge__set_encode(const struct kedge__set *s, struct kedge__bytes *out, struct kedge__error *err);
int kedge__set_decode(const void *data, size_t bytes, struct kedge__set *s, struct kedge__error *err);
void kedge__set_done(struct kedge__set *s);
struct kedge__set_sizes {
	uint64_t raw, stored, literal, metadata; /* bytes of all ranks */
};
struct kedge__set_sizes kedge__set_sizes(const struct kedge__set *s);
/* Give each part its place, as BUNDLE and the sizes determine it. NULL, or what is wrong with them. */
const char *kedge__set_place(struct kedge__set *s);
uint64_t kedge__bundle_next(uint64_t start, uint64_t bytes); /* where the segment after one of BYTES at START begins */
static inline uint32_t kedge__bundle_first(uint32_t rank, uint32_t bundle) /* the rank that the bundle of RANK is named after */
{
	return bundle ? rank - rank % bundle : rank;
}
/* Letters, digits and ._-, not all of them digits, the first one not . or -; and not "newest". */
bool kedge__label_valid(const char *label, size_t bytes);
bool kedge__set_has_label(const struct kedge__set *s, const char *label);
bool kedge__note_valid(const char *note); /* one line, not empty and not too long */
/* The version that it is most like among those that it needs; KEDGE__NO_VERSION: it needs none. */
uint64_t kedge__set_refers(const struct kedge__set *s);

/* ------------------------------------------------------------------ index_format.c
 * The index: a log of what happened to the manifests of a job, with their contents, so that they need not be read. */

#define KEDGE__INDEX_HEADER_BYTES 48
#define KEDGE__INDEX_MANIFEST_MAX (UINT32_C(1) << 30)

struct kedge__file_state { /* as stat() has it: another file, or other contents, have another one */
	uint64_t inode, bytes;
	int64_t mtime_ns, ctime_ns;
};

enum kedge__index_kind {
	KEDGE__INDEX_PUBLISHED = 1, /* the manifest of VERSION was put in place */
	KEDGE__INDEX_REMOVED = 2,   /* it was removed */
	KEDGE__INDEX_CHANGING = 3,  /* one of both is about to happen: nobody knows before the record of it */
	KEDGE__INDEX_REOPENED = 4,  /* segments that its manifest does not name are going to be written */
	KEDGE__INDEX_SWEPT = 5,     /* there is none of those left, and nothing about to happen; VERSION is 0 */
};

struct kedge__index_record {
	enum kedge__index_kind kind;
	bool unswept; /* PUBLISHED: there may be segments that the manifest does not name */
	uint64_t version;
	struct kedge__file_state file; /* PUBLISHED */
	const uint8_t *manifest;       /* PUBLISHED: the FILE.BYTES bytes of it; where the record was decoded from */
};

int kedge__index_header_encode(const struct kedge__store_id *id, uint64_t nonce, struct kedge__bytes *out,
			       struct kedge__error *err);
/* Of at least so many bytes. */
int kedge__index_header_decode(const void *data, size_t bytes, struct kedge__store_id *id, struct kedge__error *err);
/* OUT ends with at least the eight bytes that the log has before the record. */
int kedge__index_record_encode(const struct kedge__index_record *r, struct kedge__bytes *out, struct kedge__error *err);
/* The record at *AT, at least 8, of the BYTES of a log; *AT moves behind it. */
int kedge__index_record_decode(const uint8_t *data, size_t bytes, size_t *at, struct kedge__index_record *r,
			       struct kedge__error *err);

/* ------------------------------------------------------------------ shield_format.c
 * A shield is what one rank keeps so that lost segments of its team can be rebuilt (FORMAT.md, "The shield"). A team of n
 * members, numbered from 0, has n stripes. Of stripe s, members s to s + m - 1 (modulo n) have a unit of redundancy in
 * each row, number 0 to m - 1, and the other k = n - m members a unit of their segment. So unit d of each row of member
 * i's segment belongs to stripe i - m - d, and unit j of each row of its shield to stripe i - j. Segments end with zeroes
 * as far as the rows go. */

#define KEDGE__TEAM_LEAST 2
#define KEDGE__TEAM_MOST  64
#define KEDGE__NODE_MAX   63             /* bytes of the name of a node */
#define KEDGE__SHIELD_UNIT_MAX (UINT32_C(1) << 20)
#define KEDGE__SHIELD_HEADER_MAX (48 + KEDGE__TEAM_MOST * (36 + KEDGE__NODE_MAX) + 8)

enum kedge__scheme { /* as the user asked for it; what decides is k and m */
	KEDGE__SCHEME_SINGLE,
	KEDGE__SCHEME_PARTNER,
	KEDGE__SCHEME_XOR,
	KEDGE__SCHEME_RS,
	KEDGE__SCHEMES
};

struct kedge__shield_member {
	uint32_t rank, generation;
	uint64_t file_bytes;
	struct kedge__digest seal;
	char node[KEDGE__NODE_MAX + 1]; /* that it was on; for people */
};

struct kedge__shield {
	uint64_t version;
	enum kedge__scheme scheme;
	uint32_t members, parity; /* n, m */
	uint32_t self;            /* the member that keeps it */
	uint32_t unit;            /* bytes; a multiple of 64 */
	uint64_t rows;
	struct kedge__shield_member at[KEDGE__TEAM_MOST];
};

/* The largest of the members' segments fits, and the units are as small as that allows. */
void kedge__shield_measure(struct kedge__shield *s);
int kedge__shield_encode(const struct kedge__shield *s, struct kedge__bytes *out, struct kedge__error *err);
/* DATA has at least the header, all of it: *HEADER is its size. */
int kedge__shield_decode(const void *data, size_t bytes, struct kedge__shield *s, size_t *header, struct kedge__error *err);
/* The size of the file: header, rows, their checksums, and one over these. */
uint64_t kedge__shield_file_bytes(const struct kedge__shield *s, size_t header);

/* ------------------------------------------------------------------ names.c */

#define KEDGE__SET_FILE_ROOM     25
#define KEDGE__VERSION_DIR_ROOM  22
#define KEDGE__SEGMENT_FILE_ROOM 28
/* The same names, in place. */
void kedge__set_file_format(uint64_t version, char name[KEDGE__SET_FILE_ROOM]);
void kedge__version_dir_format(uint64_t version, char name[KEDGE__VERSION_DIR_ROOM]);
void kedge__segment_file_format(uint32_t rank, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM]);
char *kedge__set_file_name(uint64_t version);                       /* "set-..." ; malloc'd, NULL: no memory */
char *kedge__version_dir_name(uint64_t version);                    /* "v..." */
char *kedge__segment_file_name(uint32_t rank, uint32_t generation); /* "r...-g....seg" */
bool kedge__set_file_parse(const char *name, uint64_t *version);
bool kedge__version_dir_parse(const char *name, uint64_t *version);
bool kedge__segment_file_parse(const char *name, uint32_t *rank, uint32_t *generation);
void kedge__shield_file_format(uint32_t rank, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM]); /* "r...-g....shd" */
bool kedge__shield_file_parse(const char *name, uint32_t *rank, uint32_t *generation);
void kedge__bundle_file_format(uint32_t first, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM]); /* "r...-g....bdl" */
bool kedge__bundle_file_parse(const char *name, uint32_t *first, uint32_t *generation);
int kedge__job_name_check(const char *name, struct kedge__error *err); /* KEDGE_E_ARG */

#include "format/stage_format.h" /* messages of clients and staging servers */

#endif
