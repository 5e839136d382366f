/* What happens to the files of a job between two of its lives. */
#include "round.h"
#include "store/store.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void remove_tree(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct {
	char paths[1024][256];
	size_t count;
} found;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_F && st->st_size > 0 && found.count < 1024)
		snprintf(found.paths[found.count++], sizeof(found.paths[0]), "%s", path);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Alter a byte of some file of a level. */
static void flip(struct round *r, const char *level)
{
	struct stat st;
	uint8_t byte;
	off_t at;
	int fd;

	found.count = 0;
	(void)nftw(level, note_file, 16, FTW_PHYS);
	if (!found.count)
		return;
	qsort(found.paths, found.count, sizeof(found.paths[0]), by_name);
	fd = open(found.paths[draw_below(&r->state, found.count)], O_RDWR);
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	at = (off_t)draw_below(&r->state, (uint64_t)st.st_size);
	if (pread(fd, &byte, 1, at) == 1) {
		byte ^= (uint8_t)(1u << draw_below(&r->state, 8));
		(void)!pwrite(fd, &byte, 1, at);
	}
	close(fd);
}

void first_level_path(const struct round *r, int rank, char *path, size_t room)
{
	if (r->own_first)
		snprintf(path, room, "%s/l1-%d", r->dir, rank);
	else
		snprintf(path, room, "%s/l1", r->dir);
}

const char *damage(struct round *r)
{
	struct shared *s = r->shared;
	uint64_t kind = draw_below(&r->state, 10);
	bool second = r->second_level && kind == 9;
	char level[80];

	if (kind < 6)
		return "nothing";
	if (second)
		snprintf(level, sizeof(level), "%s/l2", r->dir);
	else
		first_level_path(r, (int)draw_below(&r->state, (uint64_t)r->ranks), level, sizeof(level));
	s->damaged = true;
	s->level[second].held = false;
	s->second_damaged = s->second_damaged || second;
	if (second && s->first_needs_second)
		s->level[0].held = false;
	if (!second)
		s->first_needs_second = true;
	if (kind == 6) {
		remove_tree(level);
		return "loss of L1";
	}
	flip(r, level);
	s->first_flipped = s->first_flipped || !second;
	return second ? "a bit of L2" : "a bit of L1";
}

/* What somebody at the command line may do to a store: nothing that was promised may be lost by it. */
const char *tend(struct round *r)
{
	struct kedge__coalesce_options options = {.block_bytes = 4096};
	struct kedge__coalesce_report merged;
	struct kedge__gc_report report = {0};
	struct kedge__catalog *cat;
	uint64_t kind = draw_below(&r->state, 8);
	char level[80];
	size_t count;

	if (kind > 2 || (r->own_first && !r->second_level)) /* what one directory of several has is nobody's to tend */
		return "";
	if (r->own_first || (r->second_level && draw_below(&r->state, 2)))
		snprintf(level, sizeof(level), "%s/l2", r->dir);
	else
		first_level_path(r, 0, level, sizeof(level));
	if (kedge__catalog_open(level, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return "";
	count = kedge__catalog_count(cat);
	if (kind == 0) {
		(void)kedge__gc(cat, 1 + draw_below(&r->state, 3), false, &report, NULL);
		kedge__gc_report_done(&report);
	} else if (count) {
		size_t i = draw_below(&r->state, count);

		options.version = kedge__catalog_at(cat, i)->version;
		options.keep_old = draw_below(&r->state, 2);
		options.onto = i && kind == 2;
		if (options.onto)
			options.parent = kedge__catalog_at(cat, draw_below(&r->state, i))->version;
		(void)kedge__coalesce(cat, NULL, &options, &merged, NULL);
	}
	kedge__catalog_close(cat);
	return kind == 0 ? " and gc" : " and coalescing";
}
