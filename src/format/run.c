/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs and their histories: which version belongs to what became of the job. FORMAT.md, "Runs". */
#include "format/format.h"

void kedge__run_done(struct kedge__run *run)
{
	kedge__free(run->links);
	*run = (struct kedge__run){0};
}

int kedge__run_copy(const struct kedge__run *from, struct kedge__run *to, struct kedge__error *err)
{
	struct kedge__run_link *links = NULL;

	if (from->link_count) {
		links = kedge__calloc(from->link_count, sizeof(*links));
		if (!links)
			return kedge__error_nomem(err);
		memcpy(links, from->links, from->link_count * sizeof(*links));
	}
	*to = (struct kedge__run){from->id, from->epoch, links, from->link_count};
	return 0;
}

/* What stands above LIMIT does not count any more; then nothing of the run before it may be left. */
static size_t link_push(struct kedge__run_link *links, size_t n, struct kedge__run_link link, uint64_t limit)
{
	link.until = KEDGE__MIN(link.until, limit);
	if (n && links[n - 1].until <= link.until)
		n--;
	if (n < KEDGE__RUN_LINKS_MAX)
		links[n++] = link;
	return n;
}

/* A version that is taken again belongs to the run that took it last. */
void kedge__run_follow(const struct kedge__run *base, uint64_t after, uint64_t first, uint64_t id,
		       struct kedge__run *out)
{
	size_t n = 0;

	if (first && after != KEDGE__NO_VERSION) {
		uint64_t limit = KEDGE__MIN(after, first - 1);

		n = link_push(out->links, n, (struct kedge__run_link){base->id, limit}, limit);
		for (size_t i = 0; i < base->link_count; i++)
			n = link_push(out->links, n, base->links[i], limit);
	}
	out->id = id;
	out->link_count = n;
}

static const struct kedge__run_link *link_find(const struct kedge__run *run, uint64_t id)
{
	for (size_t i = 0; i < run->link_count; i++) {
		if (run->links[i].id == id)
			return &run->links[i];
	}
	return NULL;
}

bool kedge__run_has(const struct kedge__run *run, uint64_t id, uint64_t version)
{
	const struct kedge__run_link *link = id == run->id ? NULL : link_find(run, id);

	return id == run->id || (link && version <= link->until);
}

/* A run that the history does not name may be older than what it remembers: its versions stay, unless they stand where
 * the run's own come. */
bool kedge__run_abandons(const struct kedge__run *run, uint64_t id, uint64_t version)
{
	if (kedge__run_has(run, id, version))
		return false;
	return link_find(run, id) || !run->link_count || version > run->links[0].until;
}
