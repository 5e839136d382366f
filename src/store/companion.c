/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A segment that is written to one level is copied to another one meanwhile, from its file, as far as that is there.
 * The writer only says how far it is: it never waits for the copy, and nothing that happens to the copy happens to it.
 * What was copied was read back, and is what its checksums say; whoever gives the copy its name (level.c) compares
 * these with the sealed segment's.
 */
#include "store/internal.h"

#define ROOM KEDGE__IO_BUFFER /* copied at once, unless a block is larger */

struct kedge__companion {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more;
	int fd;     /* of the segment, for the reader; -1: it has not begun */
	char *path; /* of its file */
	const struct kedge__block_record *blocks;
	size_t announced; /* so many of them have their place in the file, */
	uint64_t bytes;   /* and so many of its bytes can be read */
	bool ended, failed;

	/* The reader's. */
	struct kedge__block_record *kept; /* BLOCKS, once they are nobody else's */
	struct kedge__segment_file file;
	bool open;
	uint32_t generation;
	uint64_t at;  /* the next offset to copy, */
	size_t block; /* and the first block there, or after it */
	uint8_t *buffer;
	size_t room;
	uint8_t *sums; /* of the pages of a block */
	size_t sums_room;
};

int kedge__companion_new(struct kedge__companion **out, struct kedge__error *err)
{
	struct kedge__companion *t = kedge__calloc(1, sizeof(*t));

	if (!t)
		return kedge__error_nomem(err);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	t->fd = -1;
	*out = t;
	return 0;
}

static void copy_drop(struct kedge__companion *t)
{
	if (t->open) {
		kedge__segment_file_abort(&t->file);
		kedge__segment_file_done(&t->file);
	}
	t->open = false;
}

void kedge__companion_free(struct kedge__companion *t)
{
	if (!t)
		return;
	copy_drop(t);
	kedge__fs_close(t->fd);
	kedge__free(t->path);
	kedge__free(t->kept);
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	kedge__free(t);
}

/* ------------------------------------------------------------------ the writer */

/* Where bytes are not in the file when its write has returned, there is nothing to follow. */
void kedge__companion_begin(struct kedge__companion *t, const struct kedge__segment_file *file)
{
	int fd = -1;
	char *path;

	if (!t || file->uring || file->direct)
		return;
	path = kedge__strdup(file->tmp);
	if (!path || kedge__fs_open_read(path, &fd, NULL) != 0) {
		kedge__free(path);
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->fd = fd;
	t->path = path;
	pthread_mutex_unlock(&t->lock);
}

void kedge__companion_announce(struct kedge__companion *t, const struct kedge__segment_file *file,
			       const struct kedge__block_record *blocks, size_t count)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->blocks = blocks;
	t->announced = count;
	t->bytes = file->written;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

void kedge__companion_end(struct kedge__companion *t, struct kedge__block_record **blocks, size_t count, uint64_t bytes)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	if (blocks && *blocks && !t->kept) {
		t->blocks = t->kept = *blocks;
		*blocks = NULL;
	}
	if (bytes)
		t->announced = count;
	t->failed = t->failed || !bytes || t->fd < 0;
	t->bytes = bytes;
	t->ended = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

void kedge__companion_give_up(struct kedge__companion *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->failed = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

/* ------------------------------------------------------------------ the reader */

struct piece { /* of the file; the header, blocks, or what comes after them */
	uint64_t at;
	size_t bytes;
	const struct kedge__block_record *first; /* final, and there for as long as the companion is */
	size_t blocks;
};

static size_t blocks_there(const struct kedge__companion *t, struct piece *p)
{
	size_t n = 0;

	while (t->block + n < t->announced) {
		size_t stored = t->blocks[t->block + n].stored_bytes;

		if ((n && p->bytes + stored > ROOM) || p->at + p->bytes + stored > t->bytes)
			break;
		p->bytes += stored;
		n++;
	}
	return n;
}

/* The next that can be copied now. Locked. */
static struct piece piece_there(const struct kedge__companion *t)
{
	struct piece p = {.at = t->at};

	if (!t->at) {
		p.bytes = t->bytes < KEDGE__SEGMENT_HEADER_BYTES ? 0 : KEDGE__SEGMENT_HEADER_BYTES;
		return p;
	}
	p.blocks = blocks_there(t, &p);
	if (p.blocks)
		p.first = &t->blocks[t->block];
	if (t->ended && t->block == t->announced)
		p.bytes = (size_t)KEDGE__MIN(t->bytes - t->at, ROOM);
	return p;
}

/* False: there is no more, or nobody will need it. */
static bool piece_wait(struct kedge__companion *t, struct piece *p)
{
	bool there = false;

	pthread_mutex_lock(&t->lock);
	while (!there && !t->failed) {
		*p = piece_there(t);
		there = p->bytes;
		if (!there && t->ended)
			break;
		if (!there)
			pthread_cond_wait(&t->more, &t->lock);
	}
	there = there && !t->failed;
	pthread_mutex_unlock(&t->lock);
	return there;
}

static int piece_check(struct kedge__companion *t, const struct piece *p, struct kedge__error *err)
{
	const uint8_t *at = t->buffer;

	for (size_t i = 0; i < p->blocks; i++) {
		size_t sums = kedge__pages_of(p->first[i].stored_bytes) * KEDGE__SUM_BYTES;

		if (!kedge__buffer_room(&t->sums, &t->sums_room, sums))
			return kedge__error_nomem(err);
		if (kedge__block_checksum(&p->first[i], at, t->sums) != p->first[i].checksum)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"%s: block %zu does not read back as it was written", t->path,
						t->block + i);
		at += p->first[i].stored_bytes;
	}
	return 0;
}

static int piece_copy(struct kedge__companion *t, const struct piece *p, struct kedge__error *err)
{
	int rc = kedge__buffer_room(&t->buffer, &t->room, KEDGE__MAX(p->bytes, ROOM)) ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__fs_pread(t->fd, t->buffer, p->bytes, p->at, t->path, err);
	if (!rc)
		rc = piece_check(t, p, err);
	if (!rc)
		rc = kedge__segment_file_append(&t->file, t->buffer, p->bytes, err);
	t->at += p->bytes;
	t->block += p->blocks;
	return rc;
}

static int copy_open(struct kedge__companion *t, const struct kedge__companion_place *to, struct kedge__error *err)
{
	struct kedge__berth berth = {0};
	int rc;

	if (kedge__catalog_find(to->cat, to->version))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "version %" PRIu64 " is there already", to->version);
	rc = kedge__catalog_next_generation(to->cat, to->version, to->rank, &berth.generation, err);
	if (!rc)
		rc = kedge__segment_file_open(&t->file, to->cat, to->version, to->rank, &berth, &to->io, to->sync,
					      to->bucket, err);
	t->generation = berth.generation;
	t->open = !rc;
	return rc;
}

/* It is on storage by the time that it is needed there, or on its way. */
static int copy_all(struct kedge__companion *t, const struct kedge__companion_place *to, struct kedge__error *err)
{
	struct piece p;
	bool whole;
	int rc = 0;

	while (!rc && piece_wait(t, &p)) {
		if (!t->open)
			rc = copy_open(t, to, err);
		if (!rc)
			rc = piece_copy(t, &p, err);
	}
	pthread_mutex_lock(&t->lock);
	whole = t->ended && !t->failed && t->at == t->bytes;
	pthread_mutex_unlock(&t->lock);
	if (!rc && whole && t->open)
		rc = kedge__segment_file_flush(&t->file, err);
	if (!rc && whole && t->open && to->sync)
		rc = kedge__segment_file_sync(&t->file, err);
	return rc;
}

int kedge__companion_run(struct kedge__companion *t, const struct kedge__companion_place *to, struct kedge__error *err)
{
	int rc = copy_all(t, to, err);

	kedge__free(t->buffer);
	kedge__free(t->sums);
	t->buffer = t->sums = NULL;
	t->room = t->sums_room = 0;
	if (rc) {
		kedge__companion_give_up(t);
		copy_drop(t);
	}
	return rc;
}

/* ------------------------------------------------------------------ whoever completes it */

/* What was copied is all of SEG, which is sealed. */
static bool fits(const struct kedge__companion *t, const struct kedge__segment *seg)
{
	if (t->block != seg->block_count || t->at != seg->footer.file_bytes)
		return false;
	for (size_t i = 0; i < t->block; i++) {
		if (t->blocks[i].stored_bytes != seg->blocks[i].stored_bytes ||
		    t->blocks[i].checksum != seg->blocks[i].checksum)
			return false;
	}
	return true;
}

bool kedge__companion_take(struct kedge__companion *t, const struct kedge__segment *seg,
			   struct kedge__segment_file *file, uint32_t *generation)
{
	if (!t || !t->open || t->failed || !fits(t, seg))
		return false;
	*file = t->file;
	*generation = t->generation;
	t->open = false;
	return true;
}
