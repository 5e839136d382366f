/*
 * Literals to blocks to bytes. Blocks are cut at regions; groups of them go through a pipeline: named, then gathered,
 * encoded and summed on all cores, then appended in order. A block of one contiguous piece that no codec touches is
 * never copied: blocks that follow each other in memory go out in one write from where the application has them.
 *
 * What is written depends on the cut alone, not on groups or threads.
 */
#include "store/internal.h"

#define LEAST_GROUP   (UINT64_C(64) << 10)
#define RUN_BYTES     (UINT64_C(8) << 20)
#define SAMPLE_PIECES 8
#define SAMPLE_BYTES  (UINT32_C(64) << 10)

struct start { /* of a block, in the list of literals */
	size_t literal;
	uint64_t skip;
};

struct run { /* bytes that are to be written next and follow each other in memory */
	const uint8_t *at;
	size_t bytes;
};

struct writer {
	const struct kedge__segment_spec *spec;
	const struct kedge__literal_list *literals;
	struct kedge__block_record *blocks;
	struct start *starts;
	size_t count, room;
	struct kedge__codec_choice *choices; /* one a region; NULL: the one of the specification */
	uint64_t group_bytes;                /* raw; at most, but for a single block */
	size_t next;                         /* block that is collected next */
	const uint8_t **stored;              /* where the bytes of each block are until they are written */
	struct kedge__segment_file *file;
	struct run run;
};

/* ------------------------------------------------------------------ cut */

static int add_block(struct writer *w, uint32_t region, size_t literal, uint64_t skip, uint64_t position,
		     struct kedge__error *err)
{
	size_t room = w->room;

	if (!kedge__array_grow((void **)&w->blocks, &room, w->count + 1, sizeof(*w->blocks)))
		return kedge__error_nomem(err);
	room = w->room;
	if (!kedge__array_grow((void **)&w->starts, &room, w->count + 1, sizeof(*w->starts)))
		return kedge__error_nomem(err);
	w->room = room;
	w->blocks[w->count] = (struct kedge__block_record){.region = region, .position = position};
	w->starts[w->count++] = (struct start){literal, skip};
	return 0;
}

static int cut(struct writer *w, struct kedge__error *err)
{
	uint64_t position = 0;

	for (size_t i = 0; i < w->literals->count; i++) {
		const struct kedge__literal *literal = &w->literals->at[i];
		uint64_t done = 0;

		if (literal->region >= w->spec->region_count)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "literal %zu is of no region", i);
		while (done < literal->bytes) {
			struct kedge__block_record *last = w->count ? &w->blocks[w->count - 1] : NULL;
			uint64_t room;

			if (!last || last->region != literal->region || last->raw_bytes == w->spec->block_bytes) {
				if (add_block(w, literal->region, i, done, position, err) != 0)
					return KEDGE_E_NOMEM;
				last = &w->blocks[w->count - 1];
			}
			room = KEDGE__MIN(w->spec->block_bytes - last->raw_bytes, literal->bytes - done);
			last->raw_bytes += (uint32_t)room;
			done += room;
			position += room;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ gather */

/* The bytes of a block where they are, or NULL if they have to be put together. */
static const uint8_t *block_in_place(const struct writer *w, size_t i)
{
	const struct kedge__literal *literal = &w->literals->at[w->starts[i].literal];

	if (w->spec->source || literal->bytes - w->starts[i].skip < w->blocks[i].raw_bytes)
		return NULL;
	return (const uint8_t *)literal->data + w->starts[i].skip;
}

/* The first BYTES bytes of block I. */
static int gather(const struct writer *w, size_t i, uint8_t *to, size_t bytes, int worker, struct kedge__error *err)
{
	size_t at = w->starts[i].literal;
	uint64_t skip = w->starts[i].skip;

	if (w->spec->source)
		return w->spec->source->fill(w->spec->source->ctx, worker, w->blocks[i].position, to, bytes, err);
	while (bytes) {
		const struct kedge__literal *literal = &w->literals->at[at++];
		size_t n = (size_t)KEDGE__MIN(literal->bytes - skip, bytes);

		if (n)
			memcpy(to, (const uint8_t *)literal->data + skip, n);
		to += n;
		bytes -= n;
		skip = 0;
	}
	return 0;
}

/* ------------------------------------------------------------------ choose codecs */

/* What was asked for, with the shape of the region. */
static struct kedge__codec_choice choice_for(const struct writer *w, uint32_t region)
{
	struct kedge__codec_choice choice = w->spec->codec;

	kedge__codec_choice_shape(&choice, (int)w->spec->regions[region].ndims, w->spec->regions[region].dims);
	return choice;
}

/* Samples from all over the COUNT blocks, from FIRST on, of one region. */
static int sample_region(struct writer *w, size_t first, size_t count, uint8_t *buffer, struct kedge__error *err)
{
	struct kedge__codec_input pieces[SAMPLE_PIECES];
	size_t n = KEDGE__MIN(count, SAMPLE_PIECES);
	uint32_t region = w->blocks[first].region;
	struct kedge__codec_choice wanted;
	int rc;

	for (size_t k = 0; k < n; k++) {
		size_t block = first + k * count / n;

		pieces[k] = (struct kedge__codec_input){.raw = block_in_place(w, block),
							.bytes = KEDGE__MIN(w->blocks[block].raw_bytes, SAMPLE_BYTES),
							.type = (enum kedge_type)w->spec->regions[region].type};
		if (pieces[k].raw)
			continue;
		rc = gather(w, block, buffer + k * SAMPLE_BYTES, pieces[k].bytes, 0, err);
		if (rc)
			return rc;
		pieces[k].raw = buffer + k * SAMPLE_BYTES;
	}
	wanted = choice_for(w, region);
	wanted.bytes = (uint64_t)count * w->spec->block_bytes;
	w->choices[region] = kedge__codec_sample(&wanted, pieces, n, NULL);
	return 0;
}

static int choose_codecs(struct writer *w, struct kedge__error *err)
{
	uint8_t *buffer;
	int rc = 0;

	if (!w->spec->codec.automatic || !w->count)
		return 0;
	w->choices = kedge__calloc(w->spec->region_count, sizeof(*w->choices));
	buffer = kedge__malloc((size_t)SAMPLE_PIECES * SAMPLE_BYTES);
	if (!w->choices || !buffer)
		rc = kedge__error_nomem(err);
	for (size_t first = 0, next; first < w->count && !rc; first = next) {
		for (next = first + 1; next < w->count && w->blocks[next].region == w->blocks[first].region;)
			next++;
		rc = sample_region(w, first, next - first, buffer, err);
	}
	kedge__free(buffer);
	return rc;
}

/* ------------------------------------------------------------------ collect */

/* The block after the group that begins with FIRST. */
static size_t group_end(const struct writer *w, size_t first, uint64_t *bytes)
{
	size_t i = first;

	*bytes = 0;
	while (i < w->count && (i == first || *bytes + w->blocks[i].raw_bytes <= w->group_bytes))
		*bytes += w->blocks[i++].raw_bytes;
	return i;
}

/* The bytes stay where they are: whoever encodes them gathers them, while they are in its cache. */
static int collect_group(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;

	(void)err;
	if (w->next == w->count)
		return KEDGE__PIPELINE_END;
	out->tag = w->next;
	w->next = group_end(w, w->next, &bytes);
	out->bytes = (size_t)bytes;
	return 0;
}

/* ------------------------------------------------------------------ encode */

/* Block I into PACKED, by way of GATHERED if it is in pieces; or as it is, from where it is. */
static int encode_block(struct writer *w, size_t i, uint8_t *gathered, uint8_t *packed, int worker,
			struct kedge__error *err)
{
	struct kedge__block_record *block = &w->blocks[i];
	struct kedge__codec_choice choice = w->choices ? w->choices[block->region] : choice_for(w, block->region);
	enum kedge_type type = (enum kedge_type)w->spec->regions[block->region].type;
	bool encodes = choice.codec && choice.codec->id != KEDGE__CODEC_NONE;
	const uint8_t *raw = block_in_place(w, i);
	size_t used = block->raw_bytes;
	int rc = 0;

	if (!raw) {
		uint8_t *to = encodes ? gathered : packed;

		rc = gather(w, i, to, block->raw_bytes, worker, err);
		raw = to;
	}
	block->codec = KEDGE__CODEC_NONE;
	if (!rc && encodes)
		rc = kedge__block_encode(&choice, type, raw, block->raw_bytes, packed, &used, &block->codec,
					 &block->param, err);
	if (rc)
		return rc;
	w->stored[i] = encodes ? packed : raw;
	block->stored_bytes = (uint32_t)used;
	block->checksum = kedge__checksum(w->stored[i], used);
	return 0;
}

/* Packed blocks follow each other, so that a group is one write. */
static int encode_group(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
			struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;
	size_t first = (size_t)in->tag, last = group_end(w, first, &bytes);
	size_t filled = 0;
	int rc;

	for (size_t i = first; i < last; i++) {
		rc = encode_block(w, i, in->data, out->data + filled, worker, err);
		if (rc)
			return rc;
		out->bytes += w->blocks[i].stored_bytes;
		if (w->stored[i] == out->data + filled)
			filled += w->blocks[i].stored_bytes;
	}
	return 0;
}

/* ------------------------------------------------------------------ append */

static int run_end(struct writer *w, struct kedge__error *err)
{
	struct run run = w->run;

	w->run = (struct run){NULL, 0};
	return run.bytes ? kedge__segment_file_append(w->file, run.at, run.bytes, err) : 0;
}

static int run_add(struct writer *w, const uint8_t *at, size_t bytes, struct kedge__error *err)
{
	int rc = 0;

	if (w->run.at + w->run.bytes != at || w->run.bytes >= RUN_BYTES)
		rc = run_end(w, err);
	if (!w->run.bytes)
		w->run.at = at;
	w->run.bytes += bytes;
	return rc;
}

/* A run in the application's memory may go on in the next group; the buffer's own is about to be used again. */
static int append_group(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;
	size_t first = (size_t)in->tag, last = group_end(w, first, &bytes);
	int rc = 0;

	for (size_t i = first; i < last && !rc; i++)
		rc = run_add(w, w->stored[i], w->blocks[i].stored_bytes, err);
	if (!rc && (last == w->count || (w->run.at >= in->data && w->run.at < in->data + in->room)))
		rc = run_end(w, err);
	if (!rc && w->spec->progress)
		w->spec->progress(w->spec->progress_ctx, w->blocks[first].position + bytes);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static int prepare(struct writer *w, struct kedge__error *err)
{
	int rc;

	rc = cut(w, err);
	if (!rc)
		rc = choose_codecs(w, err);
	if (rc || !w->count)
		return rc;
	w->stored = kedge__calloc(w->count, sizeof(*w->stored));
	return w->stored ? 0 : kedge__error_nomem(err);
}

static uint64_t literal_bytes(const struct writer *w)
{
	return w->count ? w->blocks[w->count - 1].position + w->blocks[w->count - 1].raw_bytes : 0;
}

/* Small data is spread over the threads, too; a single group needs none of them. */
static int run_pipeline(struct writer *w, struct kedge__pool *pool, struct kedge__pipeline_stats *stats,
			struct kedge__error *err)
{
	size_t threads = (size_t)kedge__pool_threads(pool);
	uint64_t share = literal_bytes(w) / (4 * threads);
	struct kedge__pipeline_spec spec = {.collect = collect_group,
					    .transform = encode_group,
					    .store = append_group,
					    .ctx = w,
					    .queue = w->spec->io.queue};
	uint64_t most = kedge__io_buffer(&w->spec->io), bytes;

	w->group_bytes = KEDGE__MIN(KEDGE__MAX(share, LEAST_GROUP), most);
	spec.buffer_bytes = (size_t)KEDGE__MAX(w->group_bytes, w->spec->block_bytes);
	if (group_end(w, 0, &bytes) == w->count)
		pool = NULL;
	spec.store_apart = pool && threads > 1;
	return kedge__pipeline_run(pool, &spec, stats, err);
}

int kedge__block_writer_run(struct kedge__segment_file *file, struct kedge__pool *pool,
			    const struct kedge__segment_spec *spec, struct kedge__block_record **blocks, size_t *count,
			    struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	struct writer w = {.spec = spec, .literals = &spec->reduction->literals, .file = file};
	int rc;

	if (!spec->block_bytes || spec->block_bytes > KEDGE__BLOCK_RAW_MAX)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "blocks of %" PRIu32 " bytes: must be 1 to %" PRIu32,
					spec->block_bytes, KEDGE__BLOCK_RAW_MAX);
	rc = prepare(&w, err);
	if (!rc && w.count)
		rc = run_pipeline(&w, pool, stats, err);
	kedge__free(w.stored);
	kedge__free(w.choices);
	kedge__free(w.starts);
	if (rc) {
		kedge__free(w.blocks);
		return rc;
	}
	*blocks = w.blocks;
	*count = w.count;
	return 0;
}
