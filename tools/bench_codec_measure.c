/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ratio and speed of codecs on files, one thread, blocks as a store cuts them. Every block is unpacked again and
 * compared. The time of a codec is the least of the turns, in processor time of the thread: what other processes do to
 * it is not of interest here. Of the time for samples, "auto" and "max" are charged the part of one version: a job uses
 * their choice for several.
 */
#include "bench_codec.h"

#include <stdlib.h>
#include <time.h>

static const char *const presets[] = {"none",
				      "lz4",
				      "zstd:1",
				      "zstd:3",
				      "zstd:9",
				      "deflate:6",
				      "fpzip",
				      "fpc64",
				      "fpc32",
				      "fpc64+zstd:1",
				      "shuffle+lz4",
				      "shuffle+zstd:1",
				      "shuffle+zstd:3",
				      "shuffle+zstd:9",
				      "shuffle:8+zstd:1",
				      "bitshuffle+lz4",
				      "bitshuffle+zstd:1",
				      "delta+zstd:1",
				      "delta+shuffle+zstd:1",
				      "delta+bitshuffle+zstd:1",
				      "field",
				      "delta+planes",
				      "records+lz4",
				      "records+zstd:1",
				      "records+zstd:3",
				      "xor+zstd:1",
				      "xor+shuffle+zstd:1",
				      "xor+records+zstd:1",
				      "minus+shuffle+zstd:1",
				      "minus+bitshuffle+zstd:1",
				      "auto",
				      "max"};

/* ---- the files */

/* "50x50"; false: it is none. */
static bool parse_shape(struct kedge__codec_file *f, const char *text)
{
	uint64_t dims[KEDGE_MAX_DIMS];
	char *end;
	int n = 0;

	for (const char *p = text;; p = end + 1) {
		if (*p < '0' || *p > '9' || n == KEDGE_MAX_DIMS)
			return false;
		dims[n++] = strtoull(p, &end, 10);
		if (*end == '\0')
			break;
		if (*end != 'x')
			return false;
	}
	f->ndims = n;
	memcpy(f->dims, dims, sizeof(dims));
	return true;
}

/* "NAME:50x50" and "NAME": the shape is taken off the name. */
static void take_shape(struct kedge__codec_file *f)
{
	char *colon = strrchr(f->path, ':');

	if (colon && parse_shape(f, colon + 1))
		*colon = '\0';
}

static int by_name(struct kedge__codec_file *f, struct kedge__error *err)
{
	char *name = kedge__strdup(f->path), *dot;

	if (!name)
		return kedge__error_nomem(err);
	dot = strrchr(name, '.');
	if (dot && kedge__type_parse(dot + 1, &f->type)) {
		*dot = '\0';
		dot = strrchr(name, '.');
		if (dot && !f->ndims)
			parse_shape(f, dot + 1);
	}
	kedge__free(name);
	return 0;
}

static int read_file(const char *path, uint8_t **data, size_t *bytes, struct kedge__error *err)
{
	uint64_t size;
	int fd, rc = kedge__fs_open_read(path, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &size, path, err);
	if (!rc) {
		*data = kedge__malloc((size_t)size + 1);
		*bytes = (size_t)size;
		rc = *data ? kedge__fs_pread(fd, *data, *bytes, 0, path, err) : kedge__error_nomem(err);
	}
	kedge__fs_close(fd);
	return rc;
}

/* A file that has no version before, or one of another size, is measured without. */
static int read_base(struct kedge__codec_file *f, const char *dir, struct kedge__error *err)
{
	const char *slash = strrchr(f->path, '/');
	char *path = kedge__asprintf("%s/%s", dir, slash ? slash + 1 : f->path);
	size_t bytes = 0;

	if (!path)
		return kedge__error_nomem(err);
	if (read_file(path, &f->base, &bytes, NULL) != 0 || bytes != f->bytes) {
		kedge__free(f->base);
		f->base = NULL;
	}
	kedge__free(path);
	return 0;
}

int kedge__codec_file_load(struct kedge__codec_file *f, const char *name, enum kedge_type type, bool named,
			   const char *bases, struct kedge__error *err)
{
	int rc;

	*f = (struct kedge__codec_file){.path = kedge__strdup(name), .type = type};
	if (!f->path)
		return kedge__error_nomem(err);
	take_shape(f);
	rc = named ? by_name(f, err) : 0;
	if (!rc)
		rc = read_file(f->path, &f->data, &f->bytes, err);
	return !rc && bases ? read_base(f, bases, err) : rc;
}

void kedge__codec_file_done(struct kedge__codec_file *f)
{
	kedge__free(f->path);
	kedge__free(f->data);
	kedge__free(f->base);
}

/* ---- one codec */

struct turn {
	const struct kedge__codec_bench *bench;
	struct kedge__codec_result *result;
	uint8_t *packed, *back; /* a block each */
	double encode, decode;
	uint64_t bytes;
};

static double thread_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A base has to be unpacked first, to pack and to unpack: it was packed in the same way, but without one. */
static int measure_base(struct turn *t, const struct kedge__codec_choice *choice, const struct kedge__codec_input *in,
			struct kedge__error *err)
{
	const struct kedge__codec_input base = {.raw = in->base, .bytes = in->bytes, .type = in->type};
	uint16_t codec, param;
	size_t used;
	double start;
	int rc = kedge__block_pack(choice, &base, t->packed, &used, &codec, &param, err);

	if (rc)
		return rc;
	start = thread_seconds();
	rc = kedge__block_unpack(codec, param, t->packed, used, NULL, t->back, in->bytes, err);
	start = thread_seconds() - start;
	t->encode += start;
	t->decode += start;
	return rc;
}

static int measure_block(struct turn *t, const struct kedge__codec_choice *choice, const struct kedge__codec_input *in,
			 struct kedge__error *err)
{
	uint16_t codec, param;
	size_t used;
	double start, middle;
	int rc = in->base && choice->steps & KEDGE__STEP_BASE ? measure_base(t, choice, in, err) : 0;

	if (rc)
		return rc;
	start = thread_seconds();
	rc = kedge__block_pack(choice, in, t->packed, &used, &codec, &param, err);
	if (rc)
		return rc;
	middle = thread_seconds();
	rc = kedge__block_unpack(codec, param, t->packed, used, in->base, t->back, in->bytes, err);
	if (rc)
		return rc;
	t->decode += thread_seconds() - middle;
	t->encode += middle - start;
	t->bytes += used;
	if (memcmp(in->raw, t->back, in->bytes) != 0)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a block did not come back as it was");
	return 0;
}

static void note_choice(struct kedge__codec_result *r, const struct kedge__codec_choice *choice)
{
	char name[KEDGE__CODEC_NAME_ROOM];
	size_t used = strlen(r->chosen), n;

	kedge__codec_choice_describe(choice, name);
	for (const char *at = r->chosen; *at; at = at[n] ? at + n + 2 : at + n) {
		n = strcspn(at, ",");
		if (n == strlen(name) && strncmp(at, name, n) == 0)
			return;
	}
	if (used + strlen(name) + 3 < sizeof(r->chosen))
		snprintf(r->chosen + used, sizeof(r->chosen) - used, "%s%s", used ? ", " : "", name);
}

/* ---- the blocks of a file, as the writer of a segment has them */

struct cut {
	const struct kedge__codec_file *file;
	size_t block;
};

static int cut_raw(void *ctx, size_t i, size_t skip, uint8_t *to, const void **raw, size_t *bytes,
		   struct kedge__error *err)
{
	const struct cut *c = ctx;
	size_t all = KEDGE__MIN(c->file->bytes - i * c->block, c->block);

	(void)to;
	(void)err;
	skip = KEDGE__MIN(skip, all);
	*raw = c->file->data + i * c->block + skip;
	*bytes = KEDGE__MIN(*bytes, all - skip);
	return 0;
}

static bool cut_base_open(void *ctx)
{
	return ((const struct cut *)ctx)->file->base;
}

static bool cut_base(void *ctx, size_t i, uint8_t *to, size_t bytes)
{
	const struct cut *c = ctx;

	memcpy(to, c->file->base + i * c->block, bytes);
	return true;
}

/* With no PLAN, only that there will be one. */
static int plan_file(struct kedge__codec_planner *planner, const struct turn *t, const struct kedge__codec_file *f,
		     struct kedge__codec_plan *plan, struct kedge__error *err)
{
	struct cut cut = {f, (size_t)t->bench->block};
	const struct kedge__codec_region region = {.id = (uint32_t)(f - t->bench->files),
						   .name = f->path,
						   .type = f->type,
						   .bytes = f->bytes,
						   .ndims = f->ndims,
						   .dims = f->dims};
	const struct kedge__codec_blocks blocks = {.ctx = &cut,
						   .count = (f->bytes + cut.block - 1) / cut.block,
						   .bytes = f->bytes,
						   .depends = f->base,
						   .raw = cut_raw,
						   .base_open = f->base ? cut_base_open : NULL,
						   .base = cut_base};

	if (plan)
		return kedge__codec_plan_make(planner, &region, &blocks, plan, err);
	kedge__codec_planner_expect(planner, &region, &blocks);
	return 0;
}

static int measure_file(struct kedge__codec_planner *planner, struct turn *t, const struct kedge__codec_file *f,
			struct kedge__error *err)
{
	size_t block = (size_t)t->bench->block;
	struct kedge__codec_plan plan;
	double start = thread_seconds();
	int rc = f->bytes ? plan_file(planner, t, f, &plan, err) : 0;

	t->encode += (thread_seconds() - start) / KEDGE__CODEC_USES;
	for (size_t at = 0; at < f->bytes && !rc; at += block) {
		const struct kedge__codec_input in = {.raw = f->data + at,
						      .bytes = KEDGE__MIN(f->bytes - at, block),
						      .type = f->type,
						      .base = f->base ? f->base + at : NULL};

		rc = measure_block(t, &plan.choice, &in, err);
	}
	if (!rc && f->bytes && planner->wanted.automatic)
		note_choice(t->result, &plan.choice);
	if (rc)
		kedge__error_prefix(err, "%s: %s", t->result->name, f->path);
	return rc;
}

static int measure_turn(struct turn *t, const struct kedge__codec_choice *wanted, struct kedge__error *err)
{
	struct kedge__codec_memory *memory;
	struct kedge__codec_planner planner;
	int rc = kedge__codec_memory_new(&memory, err);

	if (rc)
		return rc;
	rc = kedge__codec_planner_init(&planner, wanted, memory, err);
	for (size_t k = 0; k < t->bench->count && !rc; k++)
		rc = plan_file(&planner, t, &t->bench->files[k], NULL, err);
	for (size_t k = 0; k < t->bench->count && !rc; k++)
		rc = measure_file(&planner, t, &t->bench->files[k], err);
	kedge__codec_planner_done(&planner);
	kedge__codec_memory_free(memory);
	return rc;
}

static int measure(struct turn *t, const struct kedge__codec_choice *wanted, struct kedge__error *err)
{
	struct kedge__codec_result *r = t->result;
	double encode = 0, decode = 0;

	r->automatic = wanted->automatic;
	r->smallest = wanted->smallest;
	for (size_t k = 0; k < t->bench->count; k++)
		r->raw_bytes += t->bench->files[k].bytes;
	for (uint64_t i = 0; i < t->bench->repeat; i++) {
		int rc;

		t->encode = t->decode = 0;
		t->bytes = 0;
		rc = measure_turn(t, wanted, err);
		if (rc)
			return rc;
		encode = i && encode < t->encode ? encode : t->encode;
		decode = i && decode < t->decode ? decode : t->decode;
		/* What is measured may lead to another choice each time. */
		r->packed_bytes = KEDGE__MAX(r->packed_bytes, t->bytes);
	}
	r->encode = (double)r->raw_bytes / KEDGE__MAX(encode, 1e-9);
	r->decode = (double)r->raw_bytes / KEDGE__MAX(decode, 1e-9);
	return 0;
}

/* ---- all */

/* A preset that is not in this build, or not for this type, is left out; one that was asked for is an error. */
static bool is_measured(const struct kedge__codec_bench *b, const char *name, struct kedge__codec_choice *choice,
			struct kedge__error *err)
{
	const struct kedge__codec_file *f = &b->files[0];
	size_t size = kedge_type_size(f->type);

	if (kedge__codec_choice_parse(name, choice, err) != 0)
		return false;
	choice->target = b->target;
	choice->storage = b->storage;
	if (b->codecs.count)
		return true;
	if (choice->steps & KEDGE__STEP_BASE && !f->base)
		return false;
	if (strncmp(name, "fpc64", 5) == 0 || strncmp(name, "fpc32", 5) == 0)
		return size == (name[3] == '6' ? 8 : 4);
	if (strcmp(name, "shuffle:8+zstd:1") == 0)
		return size == 1;
	if (strcmp(name, "delta+zstd:1") == 0 || strcmp(name, "bitshuffle+zstd:1") == 0)
		return f->type != KEDGE_BYTES;
	return size > 1 || strcmp(name, "xor+zstd:1") == 0 || choice->codec->id == KEDGE__CODEC_RECORDS ||
	       (!choice->codec->first && choice->codec->id != KEDGE__CODEC_FIELD);
}

size_t kedge__codec_bench_room(const struct kedge__codec_bench *b)
{
	return KEDGE__MAX(b->codecs.count, KEDGE__COUNT(presets));
}

int kedge__codec_bench_run(const struct kedge__codec_bench *b, struct kedge__codec_result *r, size_t *n,
			   struct kedge__error *err)
{
	const char *const *codecs = b->codecs.count ? b->codecs.at : presets;
	size_t count = b->codecs.count ? b->codecs.count : KEDGE__COUNT(presets);
	struct turn t = {
	    .bench = b, .packed = kedge__malloc((size_t)b->block), .back = kedge__malloc((size_t)b->block)};
	int rc = t.packed && t.back ? 0 : kedge__error_nomem(err);

	*n = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		struct kedge__codec_choice choice;

		if (!is_measured(b, codecs[i], &choice, b->codecs.count ? err : NULL)) {
			rc = b->codecs.count ? err->code : 0;
			continue;
		}
		t.result = &r[*n];
		*t.result = (struct kedge__codec_result){.name = codecs[i]};
		rc = measure(&t, &choice, err);
		*n += !rc;
	}
	kedge__free(t.packed);
	kedge__free(t.back);
	return rc;
}
