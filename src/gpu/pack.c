/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of pack.cu. Kernels are on one stream and copies on another. How many bytes a batch has become is
 * only known when it is packed: the host waits for that after it has given the next batch to the device, so that
 * neither the kernels nor the bus wait for it. What a batch becomes has two places on the device, which take turns.
 */
#include "gpu/gpu.h"

#define STAGE        (UINT64_C(64) << 20)
#define STAGE_PART   32                  /* of an image, if that is less */
#define STAGE_BLOCKS 512                 /* as large as so many: each needs work space */
#define BLOCK_MOST   (UINT32_C(4) << 20) /* bytes of a block */
#define SLACK        UINT64_C(256)       /* bytes behind each part of the memory; some may be read */
#define PARTS        32u                 /* blocks of threads for each multiprocessor */
#define TURNS        2
#define LARGER       4 /* than needed, at most */

#define PACKED(turn) (KEDGE__GPU_PACK_EVENT + (turn))         /* event: it is packed, and sizes are on the host, */
#define COPIED(turn) (KEDGE__GPU_PACK_EVENT + TURNS + (turn)) /* and it is there, too */

struct layout { /* bytes: of what is sent for a batch, and in memory of the device */
	uint64_t blocks, lengths, owners, sent;
	uint64_t table, sizes, within, items, stored, places, stage, slots, out[TURNS], all;
};

struct kedge__gpu_packer {
	struct kedge__gpu *gpu;
	unsigned codecs;
	uint32_t block;
	uint64_t room;
	size_t most, parts_most; /* blocks of a batch, and their parts */
	struct layout at;
	kedge__gpu_address memory, scratch;
	uint64_t scratch_bytes;
	uint8_t *pinned; /* of each turn: what is sent, and what blocks have become */
	/* The batch: */
	size_t count, parts, planes;
	struct {
		size_t count;
		uint32_t largest;
		enum kedge__gpu_codec codec;
	} items[2]; /* LZ4, Deflate: blocks of each */
	unsigned turn;
	bool waits;         /* the batch of the turn before was not copied yet: */
	size_t before;      /* its blocks */
	bool copied[TURNS]; /* something is being copied from there */
	uint8_t *to;
	KEDGE__ARRAY(uint32_t) sizes;
};

bool kedge__gpu_packs(uint32_t bytes)
{
	return bytes >= 16 && bytes % 16 == 0 && bytes <= BLOCK_MOST;
}

static uint64_t stage_for(uint32_t block, uint64_t bytes)
{
	/* So that the beginning of a block, which is moved to that of the stage, comes from behind it, and a slab fits.
	 */
	uint64_t least = 2 * ((uint64_t)block + KEDGE_SLAB_BYTES);

	uint64_t most = KEDGE__MIN(STAGE, STAGE_BLOCKS * (uint64_t)block);

	return (KEDGE__MAX(KEDGE__MIN(bytes / STAGE_PART, most), least) + SLACK - 1) / SLACK * SLACK;
}

static uint64_t lay(uint64_t *at, uint64_t bytes)
{
	uint64_t was = *at;

	*at = (was + bytes + 2 * SLACK - 1) / SLACK * SLACK;
	return was;
}

static void layout_make(struct kedge__gpu_packer *p)
{
	uint64_t u32 = sizeof(uint32_t);
	struct layout *l = &p->at;

	/* Places of blocks that are packed as a whole come first. */
	l->blocks = p->most * sizeof(uint64_t);
	l->lengths = l->blocks + p->most * sizeof(struct kedge_pack_block);
	l->owners = l->lengths + p->most * u32;
	l->sent = l->owners + p->parts_most * u32;
	l->table = lay(&l->all, l->sent);
	l->sizes = lay(&l->all, p->parts_most * u32);
	l->within = lay(&l->all, p->parts_most * u32);
	l->items = lay(&l->all, p->most * u32);
	l->stored = lay(&l->all, p->most * u32);
	l->places = lay(&l->all, p->most * u32);
	l->stage = lay(&l->all, p->room);
	l->slots = lay(&l->all, p->room);
	for (int i = 0; i < TURNS; i++)
		l->out[i] = lay(&l->all, p->room);
}

static uint64_t pinned_bytes(const struct kedge__gpu_packer *p)
{
	return (p->at.sent + p->most * sizeof(uint32_t) + SLACK - 1) / SLACK * SLACK;
}

/* For as many blocks as a batch may have. */
static int scratch_make(struct kedge__gpu_packer *p, struct kedge__error *err)
{
	struct kedge__gpu_blocks b = {.count = (uint32_t)p->most, .largest = p->block};
	uint64_t bytes = 0;
	int rc;

	if (p->codecs & 1u << KEDGE__GPU_LZ4)
		bytes = kedge__gpu_lz4_scratch(&b);
	if (p->codecs & 1u << KEDGE__GPU_DEFLATE)
		bytes = KEDGE__MAX(bytes, kedge__gpu_deflate_scratch(&b));
	if (!bytes)
		return 0;
	rc = kedge__gpu_alloc(p->gpu, bytes, &p->scratch, err);
	p->scratch_bytes = bytes;
	return rc;
}

int kedge__gpu_packer_new(struct kedge__gpu *g, unsigned codecs, uint32_t block, uint64_t bytes,
			  struct kedge__gpu_packer **out, struct kedge__error *err)
{
	struct kedge__gpu_packer *p = kedge__calloc(1, sizeof(*p));
	void *pinned = NULL;
	int rc;

	if (!p)
		return kedge__error_nomem(err);
	p->gpu = g;
	p->codecs = codecs;
	p->block = block;
	p->room = stage_for(block, bytes);
	p->most = 2 * (size_t)(p->room / block);
	p->parts_most = (size_t)(p->room / KEDGE_PLANES_STRIP) + 2 * p->most;
	p->items[0].codec = KEDGE__GPU_LZ4;
	p->items[1].codec = KEDGE__GPU_DEFLATE;
	layout_make(p);
	rc = kedge__gpu_alloc(g, p->at.all, &p->memory, err);
	if (!rc)
		rc = scratch_make(p, err);
	if (!rc)
		rc = kedge__gpu_pin(g, TURNS * pinned_bytes(p), &pinned, err);
	p->pinned = pinned;
	if (rc)
		kedge__gpu_packer_free(p);
	else
		*out = p;
	return rc;
}

void kedge__gpu_packer_free(struct kedge__gpu_packer *p)
{
	if (!p)
		return;
	kedge__gpu_release(p->gpu, p->memory, p->at.all);
	kedge__gpu_release(p->gpu, p->scratch, p->scratch_bytes);
	kedge__gpu_unpin(p->gpu, p->pinned);
	kedge__array_done(&p->sizes);
	kedge__free(p);
}

bool kedge__gpu_packer_suits(const struct kedge__gpu_packer *p, unsigned codecs, uint32_t block, uint64_t bytes)
{
	uint64_t room = stage_for(block, bytes);

	return !(codecs & ~p->codecs) && p->block == block && p->room >= room && p->room <= LARGER * room;
}

static void batch_clear(struct kedge__gpu_packer *p)
{
	p->count = p->parts = p->planes = 0;
	for (size_t i = 0; i < KEDGE__COUNT(p->items); i++)
		p->items[i].count = p->items[i].largest = 0;
}

void kedge__gpu_packer_begin(struct kedge__gpu_packer *p, void *to)
{
	batch_clear(p);
	p->waits = false;
	for (unsigned i = 0; i < TURNS; i++)
		p->copied[i] = false;
	p->to = to;
	p->sizes.count = 0;
}

kedge__gpu_address kedge__gpu_packer_stage(const struct kedge__gpu_packer *p)
{
	return p->memory + p->at.stage;
}

uint64_t kedge__gpu_packer_room(const struct kedge__gpu_packer *p)
{
	return p->room;
}

size_t kedge__gpu_packer_most(const struct kedge__gpu_packer *p)
{
	return p->most;
}

/* ------------------------------------------------------------------ a batch */

static uint8_t *table(const struct kedge__gpu_packer *p, unsigned turn)
{
	return p->pinned + turn * pinned_bytes(p);
}

static uint32_t *results(const struct kedge__gpu_packer *p, unsigned turn)
{
	return (uint32_t *)(void *)(table(p, turn) + p->at.sent);
}

static struct kedge_pack_block *blocks(const struct kedge__gpu_packer *p)
{
	return (struct kedge_pack_block *)(void *)(table(p, p->turn) + p->at.blocks);
}

void kedge__gpu_packer_add(struct kedge__gpu_packer *p, uint64_t at, uint32_t bytes, const struct kedge__gpu_how *how)
{
	uint32_t *owners = (uint32_t *)(void *)(table(p, p->turn) + p->at.owners);
	size_t end = p->parts + bytes / KEDGE_PLANES_STRIP + (bytes % KEDGE_PLANES_STRIP != 0);
	struct kedge_pack_block *b = &blocks(p)[p->count];

	*b = (struct kedge_pack_block){.at = (unsigned)at, .bytes = bytes, .part = (unsigned)p->parts};
	if (how->codec == KEDGE__GPU_PLANES) {
		b->how = KEDGE_PACK_PLANES;
		b->width = (unsigned short)how->width;
		b->steps = how->steps;
		p->planes++;
	}
	for (size_t i = 0; i < KEDGE__COUNT(p->items); i++) {
		if (p->items[i].codec != how->codec)
			continue;
		b->how = KEDGE_PACK_WHOLE;
		b->width = (unsigned short)i;
		b->item = (unsigned)p->items[i].count++;
		p->items[i].largest = KEDGE__MAX(p->items[i].largest, bytes);
	}
	for (; p->parts < end; p->parts++)
		owners[p->parts] = (uint32_t)p->count;
	p->count++;
}

/* Those that are packed as a whole: where they are, by codecs. */
static void items_list(struct kedge__gpu_packer *p)
{
	uint64_t *places = (uint64_t *)(void *)table(p, p->turn);
	uint32_t *lengths = (uint32_t *)(void *)(table(p, p->turn) + p->at.lengths);

	for (size_t i = 0; i < p->count; i++) {
		struct kedge_pack_block *b = &blocks(p)[i];

		if (b->how != KEDGE_PACK_WHOLE)
			continue;
		b->item += b->width ? (unsigned)p->items[0].count : 0;
		places[b->item] = b->at;
		lengths[b->item] = b->bytes;
	}
}

static int items_pack(struct kedge__gpu_packer *p, size_t i, struct kedge__error *err)
{
	bool lz4 = p->items[i].codec == KEDGE__GPU_LZ4;
	uint64_t first = i ? p->items[0].count : 0;
	kedge__gpu_address at = p->memory + p->at.table;
	struct kedge__gpu_blocks b = {
	    .stream = KEDGE__GPU_PACK,
	    .count = (uint32_t)p->items[i].count,
	    .largest = p->items[i].largest,
	    .places = at + first * sizeof(uint64_t),
	    .lengths = at + p->at.lengths + first * sizeof(uint32_t),
	    .sizes = p->memory + p->at.items + first * sizeof(uint32_t),
	};

	if (!b.count)
		return 0;
	return (lz4 ? kedge__gpu_lz4_encode : kedge__gpu_deflate_encode)(p->gpu, &b, p->memory + p->at.stage,
									 p->scratch, p->memory + p->at.slots, err);
}

static struct kedge_pack_args args(const struct kedge__gpu_packer *p)
{
	kedge__gpu_address sent = p->memory + p->at.table;

	return (struct kedge_pack_args){
	    .blocks = sent + p->at.blocks,
	    .owners = sent + p->at.owners,
	    .count = (unsigned)p->count,
	    .parts = (unsigned)p->parts,
	    .raw = p->memory + p->at.stage,
	    .slots = p->memory + p->at.slots,
	    .sizes = p->memory + p->at.sizes,
	    .within = p->memory + p->at.within,
	    .items = p->memory + p->at.items,
	    .stored = p->memory + p->at.stored,
	    .places = p->memory + p->at.places,
	    .out = p->memory + p->at.out[p->turn],
	};
}

static int launch(struct kedge__gpu_packer *p, const char *kernel, unsigned blocks, struct kedge__error *err)
{
	struct kedge_pack_args a = args(p);

	return kedge__gpu_launch(p->gpu, KEDGE__GPU_PACK, kernel, blocks, KEDGE_THREADS, &a, err);
}

static int batch_pack(struct kedge__gpu_packer *p, struct kedge__error *err)
{
	unsigned parts = (unsigned)KEDGE__MIN(p->parts, (size_t)p->gpu->processors * PARTS);
	struct kedge__gpu *g = p->gpu;
	int rc;

	items_list(p);
	rc = kedge__gpu_copy_in(g, KEDGE__GPU_PACK, p->memory + p->at.table, table(p, p->turn),
				p->at.owners + p->parts * sizeof(uint32_t), err);
	if (!rc && p->planes)
		rc = launch(p, "kedge_planes_pack", parts, err);
	for (size_t i = 0; i < KEDGE__COUNT(p->items) && !rc; i++)
		rc = items_pack(p, i, err);
	if (!rc)
		rc = launch(p, "kedge_pack_place", 1, err);
	if (!rc && p->copied[p->turn])
		rc = kedge__gpu_follow(g, KEDGE__GPU_PACK, COPIED(p->turn), err);
	if (!rc)
		rc = launch(p, "kedge_pack_join", parts, err);
	if (!rc)
		rc = kedge__gpu_copy_out(g, KEDGE__GPU_PACK, results(p, p->turn), p->memory + p->at.stored,
					 p->count * sizeof(uint32_t), err);
	return rc ? rc : kedge__gpu_record(g, KEDGE__GPU_PACK, PACKED(p->turn), err);
}

/* The batch of the turn before, when it is packed, to the host. */
static int batch_copy(struct kedge__gpu_packer *p, struct kedge__error *err)
{
	unsigned turn = (p->turn + TURNS - 1) % TURNS;
	const uint32_t *got = results(p, turn);
	uint64_t bytes = 0;
	int rc;

	if (!p->waits)
		return 0;
	p->waits = false;
	rc = kedge__gpu_wait(p->gpu, PACKED(turn), err);
	if (!rc && !kedge__array_reserve(&p->sizes, p->sizes.count + p->before))
		rc = kedge__error_nomem(err);
	for (size_t i = 0; i < p->before && !rc; i++) {
		p->sizes.at[p->sizes.count++] = got[i];
		bytes += got[i];
	}
	if (!rc)
		rc = kedge__gpu_copy_out(p->gpu, KEDGE__GPU_OUT, p->to, p->memory + p->at.out[turn], bytes, err);
	if (!rc)
		rc = kedge__gpu_record(p->gpu, KEDGE__GPU_OUT, COPIED(turn), err);
	p->copied[turn] = true;
	p->to += bytes;
	return rc;
}

int kedge__gpu_packer_run(struct kedge__gpu_packer *p, struct kedge__error *err)
{
	int rc;

	if (!p->count)
		return 0;
	rc = batch_pack(p, err);
	if (!rc)
		rc = batch_copy(p, err);
	p->waits = !rc;
	p->before = p->count;
	p->turn = (p->turn + 1) % TURNS;
	batch_clear(p);
	return rc;
}

int kedge__gpu_packer_end(struct kedge__gpu_packer *p, const uint32_t **sizes, size_t *count, struct kedge__error *err)
{
	int rc = kedge__gpu_packer_run(p, err);

	if (!rc)
		rc = batch_copy(p, err);
	if (!rc)
		rc = kedge__gpu_sync(p->gpu, KEDGE__GPU_OUT, err);
	*sizes = p->sizes.at;
	*count = p->sizes.count;
	return rc;
}
