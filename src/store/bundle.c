/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bundles: files that have the segments of several ranks of a version, one after the other (FORMAT.md). Who writes one
 * of its segments (segment_file.c) opens it under its temporary name, made by whoever comes first, and syncs what he
 * wrote. When all have done so, one of them gives it its name.
 */
#include "store/internal.h"

#include <errno.h>

struct names {
	char *dir, *tmp, *path;
};

static int names_init(struct names *n, const struct kedge__catalog *cat, uint64_t version, uint32_t first,
		      uint32_t generation, struct kedge__error *err)
{
	const struct kedge__set_part part = {.generation = generation, .bundle = 1};

	n->dir = kedge__catalog_version_path(cat, version);
	n->path = kedge__part_path(cat, version, first, &part);
	n->tmp = n->path ? kedge__asprintf("%s" KEDGE__TMP_SUFFIX, n->path) : NULL;
	return n->dir && n->tmp ? 0 : kedge__error_nomem(err);
}

static void names_done(struct names *n)
{
	kedge__free(n->dir);
	kedge__free(n->tmp);
	kedge__free(n->path);
}

int kedge__bundle_generation(const struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t *generation,
			     struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);
	uint32_t next = 0;
	bool used = true;
	int rc = 0;

	if (entry && !entry->problem.code && first < entry->set.ranks)
		next = entry->set.parts[first].generation + 1;
	while (!rc && used) {
		struct names n;

		rc = names_init(&n, cat, version, first, next, err);
		used = !rc && (kedge__fs_exists(n.path) || kedge__fs_exists(n.tmp));
		next += used;
		names_done(&n);
	}
	if (!rc)
		*generation = next;
	return rc;
}

int kedge__bundle_name(struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t generation, bool sync,
		       struct kedge__error *err)
{
	struct names n;
	int rc = names_init(&n, cat, version, first, generation, err);

	if (!rc)
		rc = kedge__fs_rename(n.tmp, n.path, err);
	if (!rc && sync)
		rc = kedge__fs_sync_dir(n.dir, err);
	names_done(&n);
	return rc;
}

int kedge__bundle_discard(struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t generation,
			  struct kedge__error *err)
{
	struct names n;
	int rc = kedge__set_spares(cat, version, kedge__set_bundles, first, generation, err);

	if (rc)
		return rc;
	rc = names_init(&n, cat, version, first, generation, err);
	if (!rc && kedge__fs_exists(n.tmp))
		rc = kedge__fs_unlink(n.tmp, err);
	if (!rc && kedge__fs_exists(n.path))
		rc = kedge__fs_unlink(n.path, err);
	if (!rc)
		rc = kedge__fs_rmdir(n.dir, err);
	names_done(&n);
	return rc;
}

bool kedge__set_bundles(const struct kedge__set *set, uint32_t first, uint32_t generation)
{
	return set && set->bundle && first < set->ranks && kedge__bundle_first(first, set->bundle) == first &&
	       set->parts[first].generation == generation;
}

/* ------------------------------------------------------------------ what is between the segments */

/* From the end of RANK's segment to the next one. */
static int check_gap(int fd, const struct kedge__set *set, uint32_t rank, const char *path, struct kedge__error *err)
{
	const struct kedge__set_part *part = &set->parts[rank];
	uint8_t gap[KEDGE__BUNDLE_ALIGN];
	size_t bytes = (size_t)(part[1].start - part->start - part->file_bytes);
	int rc = kedge__fs_pread(fd, gap, bytes, part->start + part->file_bytes, path, err);

	for (size_t i = 0; i < bytes && !rc; i++) {
		if (gap[i])
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					      "bundle %s: there is something between the segments of ranks %" PRIu32
					      " and %" PRIu32,
					      path, rank, rank + 1);
	}
	return rc;
}

int kedge__bundle_check(const char *path, const struct kedge__set *set, uint32_t first, uint32_t *rank,
			struct kedge__error *err)
{
	uint32_t last = KEDGE__MIN(set->bundle, set->ranks - first) - 1 + first;
	uint64_t end = set->parts[last].start + set->parts[last].file_bytes, bytes;
	int fd = -1, rc = kedge__fs_open_read(path, &fd, err);

	if (!rc)
		rc = kedge__fs_size(fd, &bytes, path, err);
	/* One that is too short lacks segments, which are found to be damaged. */
	for (*rank = first; !rc && *rank < last && set->parts[*rank + 1].start <= bytes; ++*rank)
		if ((rc = check_gap(fd, set, *rank, path, err)))
			break;
	if (!rc && bytes > end)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
				      "bundle %s has %" PRIu64 " bytes more than the manifest says", path, bytes - end);
	kedge__fs_close(fd);
	return rc;
}
