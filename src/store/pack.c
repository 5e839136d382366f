/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pack: one self-contained segment of a job with one rank, as a file of its own (FORMAT.md, "The pack"). What a
 * manifest says of a version is taken from the segment, so that everything that reads a store reads a pack, too.
 * Nothing else is different: there is no marker, no guard, no index, and nobody changes it.
 */
#include "store/internal.h"

#include <fcntl.h>
#include <sys/stat.h>

bool kedge__pack_is_at(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool kedge__pack_begins_at(const char *path)
{
	uint8_t in[KEDGE__SEGMENT_HEADER_BYTES];
	uint64_t bytes;
	bool begins = true;
	int fd;

	if (kedge__fs_open_read(path, &fd, NULL) != 0)
		return true;
	if (kedge__fs_size(fd, &bytes, path, NULL) == 0) {
		bytes = KEDGE__MIN(bytes, sizeof(in));
		if (kedge__fs_pread(fd, in, bytes, 0, path, NULL) == 0)
			begins = kedge__segment_begins(in, bytes);
	}
	kedge__fs_close(fd);
	return begins;
}

int kedge__pack_refuse(const struct kedge__catalog *cat, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_ACCESS, 0, "%s is a pack: it is only read, never changed", cat->given);
}

/* A pack that is replaced while it is read is read to its end: only this opens it by its name. */
int kedge__pack_reopen(const struct kedge__catalog *cat)
{
	return cat->pack ? fcntl(cat->store_fd, F_DUPFD_CLOEXEC, 0) : -1;
}

/* Everything but maps and blocks, from the file alone; FD is -1, or open on it and closed. */
static int load(const char *path, int fd, struct kedge__segment **seg, struct kedge__error *err)
{
	const struct kedge__segment_place place = {.path = path, .fd = fd};
	int rc = kedge__segment_load(&place, KEDGE__SEGMENT_LINES, NULL, seg, err);

	if (rc)
		return rc;
	if ((*seg)->source_count)
		rc = kedge__error_set(err, KEDGE_E_MISSING, 0,
				      "%s is not a pack, but a segment that needs version %" PRIu64 " of its store",
				      path, (*seg)->sources[0].version);
	else if ((*seg)->header.ranks != 1)
		rc = kedge__error_set(err, KEDGE_E_MISSING, 0,
				      "%s is not a pack, but the segment of one of %" PRIu32 " ranks", path,
				      (*seg)->header.ranks);
	else
		rc = kedge__job_name_check((*seg)->summary.name, err);
	if (rc)
		kedge__segment_close(*seg);
	return rc;
}

int kedge__pack_name(const char *path, char **name, struct kedge__error *err)
{
	struct kedge__segment *seg;
	int rc = load(path, -1, &seg, err);

	if (rc)
		return rc;
	*name = kedge__strdup(seg->summary.name);
	kedge__segment_close(seg);
	return *name ? 0 : kedge__error_nomem(err);
}

int kedge__pack_version(const struct kedge__catalog *cat, uint64_t *version, struct kedge__error *err)
{
	struct kedge__segment *seg;
	int rc = load(cat->store, kedge__pack_reopen(cat), &seg, err);

	if (rc)
		return rc;
	*version = seg->header.version;
	kedge__segment_close(seg);
	return 0;
}

int kedge__pack_begin(struct kedge__catalog *cat, struct kedge__error *err)
{
	struct kedge__segment *seg;
	char *dir = kedge__strdup(cat->store);
	int rc = dir ? kedge__fs_open_read(cat->store, &cat->store_fd, err) : kedge__error_nomem(err);

	if (rc) {
		kedge__free(dir);
		return rc;
	}
	kedge__free(cat->dir);
	cat->dir = dir;
	cat->pack = true;
	rc = load(cat->store, kedge__pack_reopen(cat), &seg, err);
	if (rc)
		return rc;
	if (strcmp(seg->summary.name, cat->name) != 0)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "pack %s has no job %s, but %s", cat->given, cat->name,
				      seg->summary.name);
	kedge__segment_close(seg);
	return rc;
}

static struct kedge__set_part part_of(const struct kedge__segment *seg)
{
	return (struct kedge__set_part){.file_bytes = seg->footer.file_bytes,
					.seal = seg->footer.seal,
					.image_id = seg->summary.image_id,
					.raw_bytes = seg->summary.raw_bytes,
					.literal_bytes = seg->summary.literal_bytes,
					.metadata_bytes = seg->footer.file_bytes - seg->footer.payload_bytes};
}

static int set_of(const struct kedge__segment *seg, struct kedge__set *set, struct kedge__error *err)
{
	*set = (struct kedge__set){.version = seg->header.version,
				   .parent = KEDGE__NO_VERSION,
				   .created_ns = seg->header.created_ns,
				   .reducer = seg->summary.reducer,
				   .ranks = 1,
				   .name = kedge__strdup(seg->summary.name),
				   .parts = kedge__malloc(sizeof(*set->parts))};
	if (!set->name || !set->parts) {
		kedge__set_done(set);
		return kedge__error_nomem(err);
	}
	set->parts[0] = part_of(seg);
	return 0;
}

int kedge__pack_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			 struct kedge__file_state *state, struct kedge__error *err)
{
	struct kedge__segment *seg;
	int rc = load(cat->store, kedge__pack_reopen(cat), &seg, err);
	struct stat st;

	if (rc)
		return rc;
	cat->manifests_read++;
	if (fstat(cat->store_fd, &st) == 0)
		*state = kedge__file_state_of(&st);
	state->bytes = 0; /* of a manifest, which it does not have */
	rc = seg->header.version == version ? set_of(seg, set, err) : 1;
	kedge__segment_close(seg);
	return rc < 0 ? rc : rc == 0;
}
