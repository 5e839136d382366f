/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rex_store: the chain as versions of a store, made by a job whose memory is the image. */
#include "restore/restore.h"
#include "rex.h"

/* As by default: where no codec packs it, each page of a block has a checksum, and dead ones are not read. */
#define PLAIN_BLOCK (UINT32_C(128) << 10)

struct store {
	kedge_t *k;
	char *path;
	uint8_t *memory; /* of the application: series->room pages */
	size_t bytes;
	uint64_t *index;
};

static int job_error(kedge_t *k, int rc, struct kedge__error *err)
{
	return rc ? kedge__error_set(err, rc, 0, "%s", kedge_last_error(k)) : 0;
}

static int open_job(struct kedge__rex_keeper *k, struct store *s, struct kedge__error *err)
{
	char *settings[] = {kedge__asprintf("l1=%s", s->path),
			    kedge__asprintf("reducer=%s", k->method->reducer),
			    kedge__asprintf("chunk=%s", k->chunk),
			    kedge__asprintf("codec=%s", k->method->packed ? k->codec : "none"),
			    kedge__asprintf("track=auto"),
			    kedge__asprintf("capture=sync"),
			    kedge__asprintf("threads=1"),
			    kedge__asprintf("sync=no"),
			    kedge__asprintf("codec_rate=%.0f", k->rate),
			    k->method->packed ? kedge__asprintf("block=%s", k->block)
					      : kedge__asprintf("block=%u", PLAIN_BLOCK),
			    NULL};
	int rc;

	for (size_t i = 0; i + 1 < KEDGE__COUNT(settings); i++)
		if (!settings[i])
			kedge__tool_no_memory();
	rc = job_error(NULL, kedge_open("bench", NULL, (const char *const *)settings, &s->k), err);
	for (size_t i = 0; i < KEDGE__COUNT(settings); i++)
		kedge__free(settings[i]);
	return rc;
}

int kedge__rex_store_begin(struct kedge__rex_keeper *k, struct kedge__error *err)
{
	struct store *s = k->state = kedge__calloc(1, sizeof(*s));

	if (!s)
		return kedge__error_nomem(err);
	s->bytes = k->series->room * KEDGE__PAGE_BYTES;
	s->path = kedge__asprintf("%s/store", k->dir);
	s->memory = kedge__map_alloc(s->bytes);
	s->index = kedge__malloc((KEDGE__PAGES_HEAD + k->series->room) * sizeof(*s->index));
	if (!s->path || !s->memory || !s->index)
		return kedge__error_nomem(err);
	return open_job(k, s, err);
}

/* The application computes: what changed is written to its memory, where a page tracker may see it. */
int kedge__rex_store_prepare(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			     struct kedge__error *err)
{
	const struct kedge__rex_moment *now = kedge__rex_series_at(k->series, step);
	struct store *s = k->state;
	int rc = kedge__rex_increment_apply(inc->file, inc->bytes, s->memory, k->series->room, err);

	for (size_t i = 0; i < now->places.count; i++)
		if (now->places.words[KEDGE__PAGES_HEAD + i] == KEDGE__PAGES_FREE)
			memset(s->memory + i * KEDGE__PAGE_BYTES, 0, KEDGE__PAGE_BYTES);
	memcpy(s->index, now->places.words, kedge__page_places_bytes(&now->places));
	if (rc == 0)
		rc = job_error(s->k,
			       kedge_protect(s->k, KEDGE__PAGES_REGION, s->memory,
					     now->places.count * KEDGE__PAGE_BYTES, KEDGE_BYTES),
			       err);
	if (rc == 0)
		rc = job_error(
		    s->k,
		    kedge_protect(s->k, KEDGE__PAGES_INDEX, s->index, KEDGE__PAGES_HEAD + now->places.count, KEDGE_U64),
		    err);
	return rc;
}

int kedge__rex_store_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err)
{
	struct store *s = k->state;

	(void)inc;
	return job_error(s->k, kedge_checkpoint(s->k, step + 1), err);
}

/* As the paper does it in the background: what is alive becomes one file. All versions stay. */
int kedge__rex_store_coalesce(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			      struct kedge__error *err)
{
	struct store *s = k->state;
	struct kedge__coalesce_options options = {.version = step + 1, .keep_old = true, .block_bytes = PLAIN_BLOCK};
	struct kedge__coalesce_report report;
	struct kedge__catalog *cat = NULL;
	int rc = kedge__rex_store_keep(k, step, inc, err);

	if (rc || step + 1 < k->series->steps)
		return rc;
	rc = job_error(s->k, kedge_close(s->k), err);
	s->k = NULL;
	if (rc == 0)
		rc = kedge__codec_choice_parse("none", &options.codec, err);
	if (rc == 0)
		rc = kedge__catalog_open(s->path, "bench", KEDGE__CATALOG_READ, &cat, err);
	if (rc == 0)
		rc = kedge__coalesce(cat, k->pool, &options, &report, err);
	kedge__catalog_close(cat);
	return rc;
}

static int fill(struct kedge__rex_keeper *k, struct kedge__lineage *l, uint8_t *image, uint64_t *index,
		struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct kedge__restore_target targets[2];

	for (size_t i = 0; i < 2 && i < top->region_count; i++)
		targets[i] = (struct kedge__restore_target){
		    i, strcmp(top->regions[i].name, KEDGE__PAGES_REGION) == 0 ? (void *)image : index, NULL, false};
	return kedge__restore_fill(l, k->pool, (struct kedge__io){0}, targets, 2, NULL, NULL, NULL, err);
}

int kedge__rex_store_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	struct store *s = k->state;
	struct kedge__catalog *cat = NULL;
	struct kedge__lineage *l = NULL;
	uint64_t *index = kedge__malloc((KEDGE__PAGES_HEAD + k->series->room) * sizeof(*index));
	int rc =
	    index ? kedge__catalog_open(s->path, "bench", KEDGE__CATALOG_READ, &cat, err) : kedge__error_nomem(err);

	if (rc == 0) {
		kedge__catalog_pace(cat, &k->reads);
		rc = kedge__lineage_open_by(k->pool, &cat, 1, k->series->steps, 0, &l, err);
	}
	if (rc == 0)
		rc = fill(k, l, image, index, err);
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
	kedge__free(index);
	return rc;
}

void kedge__rex_store_end(struct kedge__rex_keeper *k)
{
	struct store *s = k->state;

	if (!s)
		return;
	kedge_close(s->k);
	kedge__map_free(s->memory, s->bytes);
	kedge__free(s->index);
	kedge__free(s->path);
	kedge__free(s);
}
