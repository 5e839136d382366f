/* SPDX-License-Identifier: BSD-3-Clause */
/* A version, with everything since its parent, as one segment for another level. */
#include "store/internal.h"

#define LEVELS_MOST 8

static int write_merged(struct kedge__lineage *l, struct kedge__lineage *parent, struct kedge__catalog *to,
			const struct kedge__batch *batch, struct kedge__set_part *part, bool *refers,
			struct kedge__error *err)
{
	const struct kedge__merge_target target = {.to = to,
						   .aside = batch->aside,
						   .codec = batch->codec,
						   .block_bytes = batch->block_bytes,
						   .sync = batch->sync,
						   .io = batch->io,
						   .bucket = batch->bucket,
						   .progress = batch->progress,
						   .progress_ctx = batch->progress_ctx};
	struct kedge__merge *m;
	size_t sources;
	int rc = kedge__merge_new(l, 0, parent, 1, &m, err);

	if (rc)
		return rc;
	rc = kedge__merge_write(m, &target, part, err);
	if (!rc) {
		(void)kedge__merge_sources(m, &sources);
		*refers = sources > 0;
	}
	kedge__merge_free(m);
	return rc;
}

/* Two sets may have the same number: open the one with the right image. */
static int open_image(struct kedge__catalog *const *levels, size_t n, uint32_t rank,
		      const struct kedge__source_record *image, struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc = kedge__lineage_open(levels, n, image->version, rank, &l, err);

	if (rc)
		return rc;
	if (kedge__digest_equal(kedge__lineage_top(l)->summary.image_id, image->image_id)) {
		*out = l;
		return 0;
	}
	rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
			      "%s: version %" PRIu64 " was replaced by another version of that number",
			      kedge__lineage_top(l)->path, image->version);
	kedge__lineage_close(l);
	return rc;
}

static int write_from(struct kedge__catalog *const *levels, size_t n, struct kedge__catalog *to,
		      const struct kedge__batch *batch, struct kedge__set_part *part, bool *refers,
		      struct kedge__error *err)
{
	struct kedge__lineage *l, *parent = NULL;
	int rc = open_image(levels, n, batch->rank, &batch->image, &l, err);

	if (rc)
		return rc;
	if (batch->parent.version != KEDGE__NO_VERSION)
		rc = open_image(levels, n, batch->rank, &batch->parent, &parent, err);
	if (!rc)
		rc = write_merged(l, parent, to, batch, part, refers, err);
	kedge__lineage_close(parent);
	kedge__lineage_close(l);
	return rc;
}

/* Try each order of the levels, fastest first: damage in a block is found only when it is read. */
int kedge__batch_write(struct kedge__catalog *const *levels, size_t n, struct kedge__catalog *to,
		       const struct kedge__batch *batch, struct kedge__set_part *part, bool *refers,
		       struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT, problem = KEDGE__ERROR_INIT;
	struct kedge__catalog *order[LEVELS_MOST];
	int rc = KEDGE_E_ARG;

	if (!n || n > LEVELS_MOST)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%zu levels: must be 1 to %d", n, LEVELS_MOST);
	for (size_t turn = 0; turn < n && rc; turn++) {
		for (size_t i = 0; i < n; i++)
			order[i] = levels[(turn + i) % n];
		rc = write_from(order, n, to, batch, part, refers, &problem);
		if (rc && !first.code)
			kedge__error_move(&first, &problem);
		if (rc && rc != KEDGE_E_DAMAGED)
			break;
	}
	if (!rc && first.code)
		kedge__log(KEDGE_LOG_WARNING, "%s; using the copy on another level", kedge__error_text(&first));
	if (rc) {
		rc = first.code;
		kedge__error_move(err, &first);
	}
	kedge__error_done(&first);
	kedge__error_done(&problem);
	return rc;
}
