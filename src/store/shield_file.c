/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that ranks make together: shields, and segments that are rebuilt or come from elsewhere (FORMAT.md, "The
 * shield"). As all others, they are written under a temporary name, synced and renamed, and never change afterwards.
 */
#include "store/internal.h"


char *kedge__shield_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation)
{
	char leaf[KEDGE__SEGMENT_FILE_ROOM], dir[KEDGE__VERSION_DIR_ROOM];

	kedge__version_dir_format(version, dir);
	kedge__shield_file_format(rank, generation, leaf);
	return kedge__asprintf("%s/%s/%s", cat->dir, dir, leaf);
}

/* ------------------------------------------------------------------ on its way to its name */

/* Cleaning up after a crash searches the directory of a published version only if the index says so. */
static int file_open(struct kedge__rank_file *file, struct kedge__catalog *cat, uint64_t version, char *path, bool sync,
		     struct kedge__error *err)
{
	const struct kedge__index_record reopened = {.kind = KEDGE__INDEX_REOPENED, .version = version};
	int rc;

	*file = (struct kedge__rank_file){.fd = -1, .sync = sync, .path = path};
	file->dir = kedge__catalog_version_path(cat, version);
	file->tmp = path ? kedge__asprintf("%s" KEDGE__TMP_SUFFIX, path) : NULL;
	if (file->dir && file->tmp) {
		(void)kedge__catalog_apply(cat, &reopened, NULL);
		kedge__index_note(cat, &reopened);
	}
	rc = file->dir && file->tmp ? kedge__file_create_in(file->dir, file->tmp, &file->fd, err)
				    : kedge__error_nomem(err);
	if (rc)
		kedge__incoming_done(file);
	return rc;
}

static int file_commit(struct kedge__rank_file *file, struct kedge__error *err)
{
	int rc = file->sync ? kedge__fs_sync(file->fd, file->tmp, err) : 0;

	if (!rc)
		rc = kedge__fs_rename(file->tmp, file->path, err);
	if (rc)
		return rc;
	file->renamed = true;
	return file->sync ? kedge__fs_sync_dir(file->dir, err) : 0;
}

void kedge__incoming_abort(struct kedge__rank_file *file)
{
	kedge__fs_close(file->fd);
	file->fd = -1;
	if (!file->tmp)
		return;
	(void)kedge__fs_unlink(file->renamed ? file->path : file->tmp, NULL);
	(void)kedge__fs_rmdir(file->dir, NULL);
}

void kedge__incoming_done(struct kedge__rank_file *file)
{
	kedge__fs_close(file->fd);
	kedge__free(file->dir);
	kedge__free(file->tmp);
	kedge__free(file->path);
	*file = (struct kedge__rank_file){.fd = -1};
}

/* ------------------------------------------------------------------ segments from elsewhere */

int kedge__incoming_open(struct kedge__rank_file *in, struct kedge__catalog *cat, uint64_t version, uint32_t rank,
			 uint32_t generation, bool sync, struct kedge__error *err)
{
	return file_open(in, cat, version, kedge__segment_path(cat, version, rank, generation), sync, err);
}

int kedge__incoming_put(struct kedge__rank_file *in, const void *data, size_t bytes, uint64_t at,
			struct kedge__error *err)
{
	return kedge__fs_pwrite(in->fd, data, bytes, at, in->tmp, err);
}

int kedge__incoming_commit(struct kedge__rank_file *in, const struct kedge__set_part *part, struct kedge__error *err)
{
	int rc = kedge__segment_sound(in->tmp, part, err);

	return rc ? rc : file_commit(in, err);
}

/* ------------------------------------------------------------------ shields */

static int header_write(struct kedge__shield_writer *w, const struct kedge__shield *s, struct kedge__error *err)
{
	struct kedge__bytes header = {0};
	int rc = kedge__shield_encode(s, &header, err);

	if (!rc)
		rc = kedge__fs_pwrite(w->file.fd, header.at, header.count, 0, w->file.tmp, err);
	w->header = header.count;
	kedge__bytes_done(&header);
	return rc;
}

int kedge__shield_create(struct kedge__shield_writer *w, struct kedge__catalog *cat, const struct kedge__shield *s,
			 bool sync, struct kedge__error *err)
{
	const struct kedge__shield_member *self = &s->at[s->self];
	int rc;

	*w = (struct kedge__shield_writer){.row = (size_t)s->parity * s->unit, .rows = s->rows};
	rc = file_open(&w->file, cat, s->version, kedge__shield_path(cat, s->version, self->rank, self->generation),
		       sync, err);
	if (rc)
		return rc;
	w->sums = kedge__malloc((size_t)(s->rows + 1) * 8);
	rc = w->sums ? header_write(w, s, err) : kedge__error_nomem(err);
	if (!rc)
		return 0;
	kedge__shield_abort(w);
	kedge__shield_writer_done(w);
	return rc;
}

int kedge__shield_append(struct kedge__shield_writer *w, const uint8_t *row, struct kedge__error *err)
{
	uint64_t at = w->header + w->done * w->row;

	kedge__put64(w->sums + w->done * 8, kedge__checksum(row, w->row));
	w->done++;
	return kedge__fs_pwrite(w->file.fd, row, w->row, at, w->file.tmp, err);
}

int kedge__shield_commit(struct kedge__shield_writer *w, struct kedge__error *err)
{
	int rc;

	kedge__put64(w->sums + w->rows * 8, kedge__checksum(w->sums, (size_t)w->rows * 8));
	rc = kedge__fs_pwrite(w->file.fd, w->sums, (size_t)(w->rows + 1) * 8, w->header + w->rows * w->row, w->file.tmp,
			      err);
	return rc ? rc : file_commit(&w->file, err);
}

void kedge__shield_abort(struct kedge__shield_writer *w)
{
	kedge__incoming_abort(&w->file);
}

void kedge__shield_writer_done(struct kedge__shield_writer *w)
{
	kedge__incoming_done(&w->file);
	kedge__free(w->sums);
	w->sums = NULL;
}

static int open_header(struct kedge__shield_file *f, struct kedge__error *err)
{
	uint8_t head[KEDGE__SHIELD_HEADER_MAX];
	uint64_t bytes;
	size_t n;
	int rc = kedge__fs_size(f->fd, &bytes, f->path, err);

	if (rc)
		return rc;
	n = (size_t)KEDGE__MIN(bytes, sizeof(head));
	rc = kedge__fs_pread(f->fd, head, n, 0, f->path, err);
	if (!rc)
		rc = kedge__shield_decode(head, n, &f->shield, &f->header, err);
	if (!rc && kedge__shield_file_bytes(&f->shield, f->header) != bytes)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "it has %" PRIu64 " bytes instead of %" PRIu64, bytes,
				      kedge__shield_file_bytes(&f->shield, f->header));
	return rc;
}

int kedge__shield_open(const char *path, struct kedge__shield_file *out, struct kedge__error *err)
{
	struct kedge__shield_file f = {.fd = -1};
	int rc;

	f.path = kedge__strdup(path);
	rc = f.path ? kedge__fs_open_read(path, &f.fd, err) : kedge__error_nomem(err);
	if (!rc) {
		rc = open_header(&f, err);
		if (rc && rc != KEDGE_E_NOMEM)
			kedge__error_prefix(err, "shield %s", path);
	}
	if (rc)
		kedge__shield_close(&f);
	else
		*out = f;
	return rc;
}

void kedge__shield_close(struct kedge__shield_file *f)
{
	if (f->path)
		kedge__fs_close(f->fd);
	kedge__free(f->path);
	*f = (struct kedge__shield_file){.fd = -1};
}

static int check_rows(const struct kedge__shield_file *f, uint8_t *sums, uint8_t *row, struct kedge__error *err)
{
	const struct kedge__shield *s = &f->shield;
	size_t bytes = (size_t)s->parity * s->unit, table = (size_t)s->rows * 8;
	int rc = kedge__fs_pread(f->fd, sums, table + 8, f->header + s->rows * bytes, f->path, err);

	if (!rc && kedge__get64(sums + table) != kedge__checksum(sums, table))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the checksum of the checksums does not match");
	for (uint64_t r = 0; r < s->rows && !rc; r++) {
		rc = kedge__fs_pread(f->fd, row, bytes, f->header + r * bytes, f->path, err);
		if (!rc && kedge__get64(sums + r * 8) != kedge__checksum(row, bytes))
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the checksum of row %" PRIu64 " does not match",
					      r);
	}
	return rc;
}

int kedge__shield_check(const struct kedge__shield_file *f, struct kedge__error *err)
{
	uint8_t *sums = kedge__malloc((size_t)(f->shield.rows + 1) * 8);
	uint8_t *row = kedge__malloc((size_t)f->shield.parity * f->shield.unit);
	int rc = sums && row ? check_rows(f, sums, row, err) : kedge__error_nomem(err);

	if (rc && rc != KEDGE_E_NOMEM)
		kedge__error_prefix(err, "shield %s", f->path);
	kedge__free(sums);
	kedge__free(row);
	return rc;
}

bool kedge__shield_fits(const struct kedge__shield *s, const struct kedge__set *set, uint32_t rank)
{
	if (s->version != set->version || s->at[s->self].rank != rank)
		return false;
	for (uint32_t i = 0; i < s->members; i++) {
		const struct kedge__shield_member *m = &s->at[i];

		if (m->rank >= set->ranks || m->generation != set->parts[m->rank].generation ||
		    m->file_bytes != set->parts[m->rank].file_bytes ||
		    !kedge__digest_equal(m->seal, set->parts[m->rank].seal))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ what is there */

struct walk {
	const struct kedge__catalog *cat;
	const char *dir;
	uint64_t version;
	int (*each)(void *ctx, const struct kedge__found_file *f, struct kedge__error *err);
	void *ctx;
};

static int walk_file(void *ctx, const char *name, struct kedge__error *err)
{
	const struct walk *w = ctx;
	struct kedge__found_file f = {.version = w->version};
	char *path;
	int rc = 0;

	f.shield = kedge__shield_file_parse(name, &f.rank, &f.generation);
	if (!f.shield && !kedge__segment_file_parse(name, &f.rank, &f.generation))
		return 0;
	path = kedge__asprintf("%s/%s", w->dir, name);
	if (!path)
		return kedge__error_nomem(err);
	f.path = path;
	if (kedge__fs_is_file(path))
		rc = w->each(w->ctx, &f, err);
	kedge__free(path);
	return rc;
}

static int walk_version(void *ctx, const char *name, struct kedge__error *err)
{
	struct walk *w = ctx;
	char *dir;
	int rc;

	if (!kedge__version_dir_parse(name, &w->version))
		return 0;
	dir = kedge__catalog_path(w->cat, name);
	if (!dir)
		return kedge__error_nomem(err);
	w->dir = dir;
	rc = kedge__fs_each(dir, walk_file, w, err);
	kedge__free(dir);
	return rc;
}

int kedge__catalog_files(const struct kedge__catalog *cat,
			 int (*each)(void *ctx, const struct kedge__found_file *f, struct kedge__error *err), void *ctx,
			 struct kedge__error *err)
{
	struct walk w = {.cat = cat, .each = each, .ctx = ctx};

	return kedge__fs_each(cat->dir, walk_version, &w, err);
}

int kedge__rank_files_remove(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation,
			     struct kedge__error *err)
{
	char *segment = kedge__segment_path(cat, version, rank, generation);
	char *shield = kedge__shield_path(cat, version, rank, generation);
	int rc = segment && shield ? kedge__fs_unlink(shield, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__fs_unlink(segment, err);
	kedge__free(segment);
	kedge__free(shield);
	return rc;
}
