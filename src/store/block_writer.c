/*
 * Literals to blocks to bytes. Blocks are cut at regions; a batch of them is gathered, encoded and summed on all cores,
 * then appended in order. A block of one contiguous piece that no codec touches is never copied: blocks that follow
 * each other in memory go out in one write from where the application has them.
 */
#include "store/internal.h"

#define BATCH_BYTES   (UINT64_C(16) << 20)
#define SAMPLE_PIECES 8
#define SAMPLE_BYTES  (UINT32_C(64) << 10)

struct start { /* of a block, in the list of literals */
	size_t literal;
	uint64_t skip;
};

struct writer {
	const struct kedge__segment_spec *spec;
	const struct kedge__literal_list *literals;
	struct kedge__pool *pool;
	struct kedge__block_record *blocks;
	struct start *starts;
	size_t count, room;
	struct kedge__codec_choice *choices; /* one a region; NULL: the one of the specification */
	size_t batch;                        /* blocks */
	size_t first;                        /* block of the batch in hand */
	uint8_t *raw, *packed;               /* a slot of block_bytes for each block of a batch */
	const uint8_t **stored;              /* where the bytes of each block of the batch are */
	struct kedge__shared_error error;
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

/* Samples from all over the COUNT blocks, from FIRST on, of one region. */
static int sample_region(struct writer *w, size_t first, size_t count, uint8_t *buffer, struct kedge__error *err)
{
	const void *pieces[SAMPLE_PIECES];
	size_t sizes[SAMPLE_PIECES];
	size_t n = KEDGE__MIN(count, SAMPLE_PIECES);
	uint32_t region = w->blocks[first].region;
	int rc;

	for (size_t k = 0; k < n; k++) {
		size_t block = first + k * count / n;

		sizes[k] = KEDGE__MIN(w->blocks[block].raw_bytes, SAMPLE_BYTES);
		pieces[k] = block_in_place(w, block);
		if (pieces[k])
			continue;
		rc = gather(w, block, buffer + k * SAMPLE_BYTES, sizes[k], 0, err);
		if (rc)
			return rc;
		pieces[k] = buffer + k * SAMPLE_BYTES;
	}
	w->choices[region] =
	    kedge__codec_sample(&w->spec->codec, (enum kedge_type)w->spec->regions[region].type, pieces, sizes, n);
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

/* ------------------------------------------------------------------ encode */

static int encode_block(struct writer *w, size_t slot, int worker, struct kedge__error *err)
{
	struct kedge__block_record *block = &w->blocks[w->first + slot];
	const struct kedge__codec_choice *choice = w->choices ? &w->choices[block->region] : &w->spec->codec;
	enum kedge_type type = (enum kedge_type)w->spec->regions[block->region].type;
	const uint8_t *raw = block_in_place(w, w->first + slot);
	uint8_t *own = w->raw + slot * w->spec->block_bytes;
	uint8_t *packed = w->packed + slot * w->spec->block_bytes;
	size_t used = block->raw_bytes;
	int rc;

	if (!raw) {
		rc = gather(w, w->first + slot, own, block->raw_bytes, worker, err);
		if (rc)
			return rc;
		raw = own;
	}
	block->codec = KEDGE__CODEC_NONE;
	if (choice->codec && choice->codec->id != KEDGE__CODEC_NONE) {
		rc = kedge__block_encode(choice, type, raw, block->raw_bytes, packed, &used, &block->codec,
					 &block->param, err);
		if (rc)
			return rc;
	}
	w->stored[slot] = block->codec == KEDGE__CODEC_NONE ? raw : packed;
	block->stored_bytes = (uint32_t)used;
	block->checksum = kedge__checksum(w->stored[slot], used);
	return 0;
}

static int encode_task(void *ctx, size_t slot, int worker)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct writer *w = ctx;

	return encode_block(w, slot, worker, &err) == 0 ? 0 : kedge__shared_error_take(&w->error, &err);
}

static int append_batch(struct writer *w, struct kedge__segment_file *file, size_t n, struct kedge__error *err)
{
	const uint8_t *run = NULL;
	size_t bytes = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		struct kedge__block_record *block = &w->blocks[w->first + i];

		if (run && run + bytes == w->stored[i]) {
			bytes += block->stored_bytes;
			continue;
		}
		rc = kedge__segment_file_append(file, run, bytes, err);
		if (rc)
			return rc;
		run = w->stored[i];
		bytes = block->stored_bytes;
	}
	return kedge__segment_file_append(file, run, bytes, err);
}

static int run_batches(struct writer *w, struct kedge__segment_file *file, double *encode_seconds,
		       struct kedge__error *err)
{
	int rc;

	for (w->first = 0; w->first < w->count; w->first += w->batch) {
		size_t n = KEDGE__MIN(w->batch, w->count - w->first);
		const struct kedge__block_record *last = &w->blocks[w->first + n - 1];
		double start = kedge__clock_seconds();

		rc = kedge__pool_for(w->pool, n, encode_task, w);
		*encode_seconds += kedge__clock_seconds() - start;
		if (!rc)
			rc = append_batch(w, file, n, err);
		if (rc)
			return rc;
		if (w->spec->progress)
			w->spec->progress(w->spec->progress_ctx, last->position + last->raw_bytes);
	}
	return 0;
}

/* ------------------------------------------------------------------ all of it */

static int prepare(struct writer *w, struct kedge__error *err)
{
	size_t threads = w->pool ? (size_t)kedge__pool_threads(w->pool) : 1;
	int rc;

	rc = cut(w, err);
	if (!rc)
		rc = choose_codecs(w, err);
	if (rc || !w->count)
		return rc;
	w->batch = KEDGE__MAX(BATCH_BYTES / w->spec->block_bytes, 2 * threads);
	w->batch = KEDGE__MIN(w->batch, w->count);
	w->raw = kedge__map_alloc(w->batch * w->spec->block_bytes);
	w->packed = kedge__map_alloc(w->batch * w->spec->block_bytes);
	w->stored = kedge__calloc(w->batch, sizeof(*w->stored));
	return w->raw && w->packed && w->stored ? 0 : kedge__error_nomem(err);
}

int kedge__block_writer_run(struct kedge__segment_file *file, struct kedge__pool *pool,
			    const struct kedge__segment_spec *spec, struct kedge__block_record **blocks, size_t *count,
			    double *encode_seconds, struct kedge__error *err)
{
	struct writer w = {.spec = spec, .literals = &spec->reduction->literals, .pool = pool};
	int rc;

	if (!spec->block_bytes || spec->block_bytes > KEDGE__BLOCK_RAW_MAX)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "blocks of %" PRIu32 " bytes: must be 1 to %" PRIu32,
					spec->block_bytes, KEDGE__BLOCK_RAW_MAX);
	kedge__shared_error_init(&w.error);
	rc = prepare(&w, err);
	if (!rc)
		rc = run_batches(&w, file, encode_seconds, err);
	rc = kedge__shared_error_done(&w.error, rc, err);
	if (w.raw)
		kedge__map_free(w.raw, w.batch * spec->block_bytes);
	if (w.packed)
		kedge__map_free(w.packed, w.batch * spec->block_bytes);
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
