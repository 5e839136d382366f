/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of the stored versions belong to the current run, and which were abandoned (FORMAT.md, "Runs"). */
#include "store/internal.h"

static bool is_later(const struct kedge__set *a, const struct kedge__set *b)
{
	if (a->run.epoch != b->run.epoch)
		return a->run.epoch > b->run.epoch;
	if (a->created_ns != b->created_ns)
		return a->created_ns > b->created_ns;
	return a->run.id > b->run.id;
}

/* Found once; from then on each new entry is compared with it, and it is searched for again when it is removed. */
static const struct kedge__set *head_of(struct kedge__catalog *cat)
{
	if (cat->head_known)
		return cat->head;
	cat->head = NULL;
	cat->head_known = true;
	for (size_t i = 0; i < cat->entries.count; i++)
		kedge__history_note(cat, cat->entries.at[i]);
	return cat->head;
}

void kedge__history_note(struct kedge__catalog *cat, const struct kedge__catalog_entry *entry)
{
	if (cat->head_known && !entry->problem.code && (!cat->head || is_later(&entry->set, cat->head)))
		cat->head = &entry->set;
}

const struct kedge__set *kedge__history_head(struct kedge__catalog *const *levels, size_t n)
{
	const struct kedge__set *head = NULL;

	for (size_t l = 0; l < n; l++) {
		const struct kedge__set *other = head_of(levels[l]);

		if (other && (!head || is_later(other, head)))
			head = other;
	}
	return head;
}

bool kedge__history_has(const struct kedge__run *run, const struct kedge__set *set)
{
	return kedge__run_has(run, set->run.id, set->version);
}

bool kedge__history_abandons(const struct kedge__run *run, const struct kedge__set *set)
{
	return kedge__run_abandons(run, set->run.id, set->version);
}

/* An unreadable manifest dates from before the run, unless the run has taken more than its FIRST version. */
static bool is_abandoned(const struct kedge__run *run, const struct kedge__catalog_entry *e, uint64_t first)
{
	if (!e->problem.code)
		return kedge__history_abandons(run, &e->set);
	return first != KEDGE__NO_VERSION && e->version != first &&
	       (!run->link_count || e->version > run->links[0].until);
}

static bool is_replaced(const struct kedge__run *run, const struct kedge__catalog_entry *e, uint64_t first)
{
	return run && !e->problem.code && e->version == first && kedge__history_has(run, &e->set);
}

/* Newest first: no version is left without the versions it refers to. */
int kedge__history_sweep(struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first,
			 const struct kedge__run *replaced, size_t *removed, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = cat->entries.count; i-- > 0 && !rc;) {
		const struct kedge__catalog_entry *e = cat->entries.at[i];

		if (!is_abandoned(run, e, first) || is_replaced(replaced, e, first))
			continue;
		rc = kedge__set_remove(cat, e->version, err);
		*removed += !rc;
	}
	return rc;
}
