/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files on their way into a version: what they are is looked up while the application waits, and how their literals are
 * arranged when it is known which there are. Nothing of it can fail a version.
 */
#include "job/handle.h"

#define RUNS_MAX ((size_t)1 << 20) /* of variables, of all files together: what is known of them is kept in memory */
#define LOOKS    256               /* files at a time */

int kedge__job_aggregate_init(kedge_t *k, struct kedge__error *err)
{
	int rc = 0;

	if (k->set.aggregate_classes[0])
		rc = kedge__class_rules_read(k->set.aggregate_classes, &k->aggregate.rules, err);
	return rc ? kedge__error_prefix(err, "aggregate_classes") : 0;
}

void kedge__job_aggregate_done(kedge_t *k)
{
	kedge__class_rules_free(k->aggregate.rules);
	k->aggregate.rules = NULL;
}

static void remember(kedge_t *k, uint32_t scheme, uint32_t age, const double *sizes)
{
	if (scheme == KEDGE__AGGREGATE_OFF || scheme > KEDGE__AGGREGATE_SCHEMES)
		return;
	k->aggregate.memory =
	    (struct kedge__aggregate_memory){.scheme = (enum kedge__aggregate_scheme)scheme, .age = age};
	memcpy(k->aggregate.memory.sizes, sizes, sizeof(k->aggregate.memory.sizes));
}

/* Only what was tried is worth remembering. */
static bool was_tried(uint32_t reason)
{
	return reason == KEDGE__AGGREGATE_SMALLEST || reason == KEDGE__AGGREGATE_ECHOES ||
	       reason == KEDGE__AGGREGATE_REMEMBERED;
}

void kedge__job_aggregate_remember(kedge_t *k, const struct kedge__segment *top)
{
	if (top->classes.count && was_tried(top->classes.reason))
		remember(k, top->classes.scheme, top->classes.age, top->classes.sizes);
}

/* ------------------------------------------------------------------ what files are */

struct one {
	const struct kedge__version *v;
	size_t region;
};

static int read_one(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct one *o = ctx;

	return kedge__region_read(&o->v->image.regions[o->region], &o->v->ways[o->region], offset, to, bytes, err);
}

/* Only files that are read, and are bytes to whoever lent them or may be understood. */
static bool is_wanted(const struct kedge__version *v, size_t i)
{
	const struct kedge__region *r = kedge__region_table_at(v->k->regions.table, i);

	return r->contents && v->regions[i].bytes && (!v->vouched || v->vouched[i] == KEDGE__NO_VERSION);
}

struct looks { /* at some files at a time, so that no more is kept of them than is wanted */
	const struct kedge__version *v;
	size_t first;
	struct kedge__layout layouts[LOOKS];
};

static int look_one(void *ctx, size_t i, int worker)
{
	struct looks *l = ctx;
	struct one one = {l->v, l->first + i};
	const struct kedge__contents contents = {l->v->regions[one.region].bytes, read_one, &one};

	(void)worker;
	return is_wanted(l->v, one.region) ? kedge__layout_read(&contents, &l->layouts[i], NULL) : 0;
}

/* What is known of one more file; it takes over LAYOUT. */
static int take_layout(struct kedge__version *v, size_t i, struct kedge__layout *layout, size_t *runs)
{
	struct kedge__aggregate_file file = {
	    .region = (uint32_t)i, .data = v->regions[i].data, .bytes = v->regions[i].bytes, .layout = *layout};

	*layout = (struct kedge__layout){0};
	/* What somebody has said about a file counts for more than a guess. */
	if (file.layout.runs.count > RUNS_MAX - *runs ||
	    (file.layout.format == KEDGE__FILE_RAW && v->records[i].type != KEDGE_BYTES))
		kedge__layout_done(&file.layout);
	*runs += file.layout.runs.count;
	if (!file.layout.runs.count && v->records[i].type != KEDGE_BYTES) {
		kedge__layout_done(&file.layout);
	} else if (!kedge__array_push(&v->files, file)) {
		kedge__layout_done(&file.layout);
		return KEDGE_E_NOMEM;
	}
	return 0;
}

static int look_all(struct kedge__version *v)
{
	struct looks *l = kedge__calloc(1, sizeof(*l));
	size_t runs = 0;
	int rc = l ? 0 : KEDGE_E_NOMEM;

	for (size_t first = 0; first < v->region_count && !rc; first += LOOKS) {
		size_t n = KEDGE__MIN(v->region_count - first, (size_t)LOOKS);

		l->v = v;
		l->first = first;
		rc = kedge__pool_for(v->k->pool, n, look_one, l);
		for (size_t i = 0; i < n; i++) {
			if (!rc && is_wanted(v, first + i))
				rc = take_layout(v, first + i, &l->layouts[i], &runs);
			kedge__layout_done(&l->layouts[i]);
		}
	}
	kedge__free(l);
	return rc;
}

void kedge__version_look(struct kedge__version *v)
{
	if (v->k->set.aggregate == KEDGE__AGGREGATE_OFF || !kedge__codec_choice_packs(&v->k->codec))
		return;
	if (look_all(v) == 0)
		return;
	kedge__log(KEDGE_LOG_NOTICE, "version %llu is not arranged: out of memory", (unsigned long long)v->version);
	kedge__version_arranged_done(v);
}

void kedge__version_arranged_done(struct kedge__version *v)
{
	for (size_t i = 0; i < v->files.count; i++)
		kedge__layout_done(&v->files.at[i].layout);
	kedge__array_done(&v->files);
}

/* ------------------------------------------------------------------ samples */

static int sample_read(void *ctx, uint32_t region, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	struct one one = {ctx, region};

	return read_one(&one, offset, to, bytes, err);
}

static size_t pack_with(const struct kedge__codec_choice *wanted, int ndims, const uint64_t *dims,
			const struct kedge__codec_input *in, void *out)
{
	struct kedge__codec_choice choice = *wanted;
	size_t used = in->bytes;
	uint16_t codec, param;

	choice.steps &= ~(unsigned)KEDGE__STEP_BASE;
	kedge__codec_choice_shape(&choice, ndims, dims);
	return kedge__block_pack(&choice, in, out, &used, &codec, &param, NULL) == 0 ? used : in->bytes;
}

/* What is asked for, or the best of those that are usually chosen. */
static size_t sample_pack(void *ctx, enum kedge_type type, int ndims, const uint64_t *dims, const void *data,
			  size_t bytes)
{
	static const char *const usual[][3] = {{"zstd:1", "shuffle:8+zstd:1", "shuffle:4+zstd:1"},
					       {"field", "shuffle+zstd:1", "zstd:1"}};
	const struct kedge__version *v = ctx;
	const struct kedge__codec_input in = {.raw = data, .bytes = bytes, .type = type};
	size_t least = bytes, used;
	uint8_t *out = kedge__malloc(bytes);

	for (size_t i = 0; out && i < KEDGE__COUNT(usual[0]); i++) {
		struct kedge__codec_choice choice = v->k->codec;

		if (choice.automatic && kedge__codec_choice_parse(usual[type != KEDGE_BYTES][i], &choice, NULL) != 0)
			continue;
		used = pack_with(&choice, ndims, dims, &in, out);
		least = KEDGE__MIN(least, used);
		if (!v->k->codec.automatic || (i && type != KEDGE_BYTES && least < bytes - bytes / 8))
			break; /* numbers that shrink as such do not as bytes */
	}
	kedge__free(out);
	return least;
}

static bool sample_echoes(void *ctx, enum kedge_type type, const void *windows, size_t bytes)
{
	(void)ctx;
	return kedge__codec_echoes(type, windows, bytes);
}

/* ------------------------------------------------------------------ the order */

void kedge__version_arrange(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__error err = KEDGE__ERROR_INIT;
	const struct kedge__aggregate_options options = {.scheme = (enum kedge__aggregate_scheme)k->set.aggregate,
							 .block = k->set.aggregate_block,
							 .least = k->set.aggregate_least,
							 .rules = k->aggregate.rules,
							 .unit = kedge__reducer_unit(k->baseline.reducer)};
	/* What is held is not read twice: the application may have gone on, and the files are its own. */
	const struct kedge__aggregate_sample sample = {sample_read, sample_pack, v,
						       k->codec.automatic ? sample_echoes : NULL};
	const struct kedge__literal_classes *made = &v->reduction.classes;
	int rc = kedge__aggregate(&v->reduction, v->files.at, v->files.count, &options, &k->aggregate.memory,
				  v->hold ? NULL : &sample, &err);

	if (rc)
		kedge__log(KEDGE_LOG_NOTICE, "version %llu is not arranged: %s", (unsigned long long)v->version,
			   kedge__error_text(&err));
	else if (made->count && was_tried(made->reason))
		remember(k, made->scheme, made->age, made->sizes);
	kedge__error_done(&err);
	kedge__version_arranged_done(v);
}
