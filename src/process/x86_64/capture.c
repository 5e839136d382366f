/* SPDX-License-Identifier: BSD-3-Clause */
/* capture: a running process becomes an image. */
#include "process/target.h"

#include <stdio.h>
#include <stdlib.h>

const char *kedge__process_unsupported(void)
{
	return NULL;
}

static int find_vdso(struct kedge__target *t, struct kedge__error *err)
{
	unsigned long long start, end;
	char *text, *line;
	int rc = kedge__proc_read(t->pid, "maps", &text, NULL, err);

	if (rc)
		return rc;
	line = strstr(text, "[vdso]");
	while (line && line > text && line[-1] != '\n')
		line--;
	if (!line || sscanf(line, "%llx-%llx", &start, &end) != 2)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "it has no vdso, or is a 32-bit program");
	else
		rc = kedge__target_find_call(t, start, (size_t)(end - start), err);
	kedge__free(text);
	return rc;
}

/* Memory that is shared between processes can be made again only as a whole. */
static int refuse_parts(const struct kedge__process_image *image, struct kedge__error *err)
{
	const struct kedge__process_mapping *at = image->mappings.at;

	for (size_t i = 0; i < image->mappings.count; i++)
		for (size_t j = 0; at[i].kind == KEDGE__MAPPING_SHARED_ANONYMOUS && j < i; j++)
			if (at[j].kind == at[i].kind && at[j].file == at[i].file)
				return kedge__error_set(err, KEDGE_E_STATE, 0,
							"it has mapped shared memory in several parts: 0x%llx",
							(unsigned long long)at[i].start);
	return 0;
}

static int copy_all(struct kedge__process_capture *c, struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__range_list runs = {0};
	int rc = kedge__target_pages(t, &c->image, &runs, err);

	if (!rc)
		rc = kedge__process_mirror_arrange(c->mirror, runs.at, runs.count, err);
	if (!rc)
		rc = kedge__target_copy(t, c->mirror, err);
	kedge__array_done(&runs);
	return rc;
}

static int take(struct kedge__process_capture *c, struct kedge__target *t, struct kedge__error *err)
{
	int rc = kedge__target_stop(t, err);

	/* While it ran, it may have got what it did not have before. */
	if (!rc)
		rc = kedge__target_refuse(t->pid, c->init, err);
	if (!rc)
		rc = find_vdso(t, err);
	if (!rc)
		rc = kedge__target_descriptors(t, &c->image, err);
	if (!rc)
		rc = kedge__target_state(t, &c->image, err);
	/* From here on no thread has other registers than its own. */
	if (!rc)
		rc = kedge__target_mappings(t, &c->image, err);
	if (!rc)
		rc = refuse_parts(&c->image, err);
	if (!rc)
		rc = copy_all(c, t, err);
	return rc ? rc : kedge__target_contents(&c->image, c->files, &c->contents, err);
}

int kedge__process_capture(struct kedge__process_capture *c, struct kedge__error *err)
{
	struct kedge__target t = {.pid = c->pid, .memory = -1};
	double began;
	int rc;

	c->image = (struct kedge__process_image){0};
	c->contents = (struct kedge__process_contents){0};
	rc = kedge__target_refuse(c->pid, c->init, err);
	began = kedge__clock_seconds();
	if (!rc)
		rc = take(c, &t, err);
	kedge__target_release(&t);
	c->stop_seconds = kedge__clock_seconds() - began;
	c->ended = t.ended;
	c->status = t.status;
	kedge__target_done(&t);
	if (rc) {
		kedge__process_image_done(&c->image);
		kedge__process_contents_done(&c->contents);
	}
	return rc;
}
