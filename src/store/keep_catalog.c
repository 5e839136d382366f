/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_catalog: the versions of a catalogue as keep.c looks at them, and those that a job is to keep. */
#include "store/internal.h"

static void item_fill(const struct kedge__catalog *cat, const struct kedge__set *head,
		      const struct kedge__catalog_entry *e, bool bytes, struct kedge__keep_item *v)
{
	v->version = e->version;
	v->bytes = bytes ? kedge__set_disk_bytes(cat, e->version) : 0;
	v->unfit = e->problem.code != 0;
	if (v->unfit)
		return;
	v->time_ns = e->set.created_ns;
	v->needs = e->set.sources;
	v->need_count = e->set.source_count;
	v->labelled = e->set.labels != NULL;
	v->outside = kedge__history_abandons(&head->run, &e->set);
}

struct kedge__keep_item *kedge__keep_items(const struct kedge__catalog *cat, bool bytes, struct kedge__error *err)
{
	struct kedge__catalog *one = (struct kedge__catalog *)cat;
	const struct kedge__set *head = kedge__history_head(&one, 1);
	struct kedge__keep_item *items = kedge__calloc(cat->entries.count + 1, sizeof(*items));

	if (!items)
		kedge__error_nomem(err);
	for (size_t i = 0; items && i < cat->entries.count; i++)
		item_fill(cat, head, cat->entries.at[i], bytes, &items[i]);
	return items;
}

int kedge__keep_choose_fit(const struct kedge__keep *keep, struct kedge__keep_item *items, size_t count,
			   int (*look)(void *ctx, size_t i, bool *fit, struct kedge__error *err), void *ctx,
			   struct kedge__error *err)
{
	uint8_t *looked = kedge__calloc(count + 1, 1);
	bool again = true;
	int rc = looked ? 0 : kedge__error_nomem(err);

	while (again && !rc) {
		again = false;
		kedge__keep_choose(keep, items, count);
		for (size_t i = count; i-- > 0 && !rc;) {
			bool fit = true;

			if (looked[i] || items[i].unfit || !(items[i].why & ~(unsigned)KEDGE__STAYS_LABEL))
				continue;
			looked[i] = 1;
			rc = look(ctx, i, &fit, err);
			items[i].unfit = !fit;
			again = again || !fit;
		}
	}
	kedge__free(looked);
	return rc;
}

/* ------------------------------------------------------------------ what a job is to keep */

struct glance {
	const struct kedge__catalog *cat;
	uint8_t *marks;
};

/* It is there with all that it needs; nothing is read. */
static int glance(void *ctx, size_t i, bool *fit, struct kedge__error *err)
{
	struct glance *g = ctx;
	size_t lowest;

	(void)err;
	*fit = kedge__catalog_mark_from(g->cat, g->cat->entries.at[i]->version, false, g->marks, &lowest, NULL) == 0;
	memset(g->marks, 0, i + 1);
	return 0;
}

static int spare_find(const struct kedge__catalog *cat, const struct kedge__keep *keep, uint8_t *spare,
		      struct kedge__error *err)
{
	struct glance g = {cat, kedge__calloc(cat->entries.count + 1, 1)};
	struct kedge__keep_item *items = kedge__keep_items(cat, keep->bytes, err);
	int rc = g.marks && items ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__keep_choose_fit(keep, items, cat->entries.count, glance, &g, err);
	for (size_t i = 0; !rc && i < cat->entries.count; i++)
		spare[i] = !items[i].why && !items[i].outside && !cat->entries.at[i]->problem.code;
	kedge__free(items);
	kedge__free(g.marks);
	return rc;
}

int kedge__catalog_spare(const struct kedge__catalog *cat, uint8_t *spare, struct kedge__error *err)
{
	struct kedge__catalog *one = (struct kedge__catalog *)cat;
	const struct kedge__set *head = kedge__history_head(&one, 1);
	struct kedge__keep keep = {0};

	memset(spare, 0, cat->entries.count);
	/* A rule that this build does not know hides nothing. */
	if (!head || !head->keep || kedge__keep_parse(head->keep, &keep, NULL) != 0 || kedge__keep_everything(&keep))
		return 0;
	return spare_find(cat, &keep, spare, err);
}
