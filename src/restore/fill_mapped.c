/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches that the page cache has are taken from there without read(2): one pass checks, sums and copies them to their
 * places, while the next lines are on their way from memory. Where the cache has files in large pieces of memory that
 * takes less time; where not, faults take as long as the kernel's copy. So each thread tries both, and goes on with the
 * faster one.
 *
 * The file could be changed by somebody else between two looks at a byte. So what is not checked and copied at once is
 * copied first, and checked then.
 */
#include "restore/fill.h"

#define WINDOW  (UINT64_C(128) << 20) /* mapped at once: page tables are memory, too */
#define TRIES   4                     /* batches by each way */
#define SPARSE  16 /* the kernel is asked for each page from the first to the last: one of so many has to be wanted */
#define THREADS 4  /* more of them wait for each other in the kernel when they map pages of one file */

static bool unit_suits(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	return u->segment->blocks[u->block].codec == KEDGE__CODEC_NONE &&
	       (!u->place ||
		kedge__fill_sum_suits(f, u->target, (uint64_t)(u->place - f->goals[u->target].data), u->bytes));
}

/* Asked once, because batches of a segment follow each other. */
static bool segment_suits(struct kedge__fill_mapped *m, const struct kedge__segment *seg)
{
	if (m->segment != seg) {
		kedge__fill_mapped_done(m);
		m->segment = seg;
		m->suits = seg->fd >= 0 && !kedge__bucket_limits(seg->bucket) && kedge__file_map_suits(seg->fd);
	}
	return m->suits;
}

bool kedge__fill_mapped_suits(const struct kedge__filling *f, struct kedge__fill_mapped *m,
			      const struct kedge__read_plan_unit *u, size_t count)
{
	uint64_t bytes = 0, end = kedge__read_plan_unit_at(&u[count - 1]) + u[count - 1].bytes;

	if (f->worker_count > THREADS)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!unit_suits(f, &u[i]))
			return false;
		bytes += u[i].bytes;
	}
	return end - kedge__read_plan_unit_at(u) <= SPARSE * bytes && segment_suits(m, u->segment);
}

bool kedge__fill_mapped_wanted(const struct kedge__fill_mapped *m)
{
	if (m->tried < 2 * TRIES)
		return m->tried % 2;
	return m->seconds[1] * (double)m->amount[0] < m->seconds[0] * (double)m->amount[1];
}

void kedge__fill_mapped_note(struct kedge__fill_mapped *m, bool mapped, uint64_t bytes, double seconds)
{
	m->tried++;
	m->seconds[mapped] += seconds;
	m->amount[mapped] += bytes;
}

/* The window with the bytes FROM to TO of the file. */
static bool window_move(struct kedge__fill_mapped *m, uint64_t from, uint64_t to)
{
	uint64_t start = from / WINDOW * WINDOW, bytes = KEDGE__MAX(WINDOW, to - start);

	if (m->at && from >= m->from && to <= m->from + m->bytes)
		return true;
	kedge__file_unmap(m->at, m->bytes);
	m->at = kedge__file_map(m->segment->fd, start, bytes);
	m->from = start;
	m->bytes = bytes;
	return m->at;
}

const uint8_t *kedge__fill_mapped_at(struct kedge__fill_mapped *m, const struct kedge__read_plan_unit *u, size_t count)
{
	uint64_t from = m->segment->start + kedge__read_plan_unit_at(u);
	uint64_t to = m->segment->start + kedge__read_plan_unit_at(&u[count - 1]) + u[count - 1].bytes;

	if (!window_move(m, from, to) ||
	    !kedge__file_map_is_there(m->segment->fd, from, m->at + (from - m->from), to - from))
		return NULL;
	return m->at + (from - m->from);
}

/* Every byte of it is read once by unit_carry(). */
static bool is_read_once(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	bool pages = kedge__block_has_pages(&u->segment->blocks[u->block]);

	return (pages ? u->bytes % KEDGE__BLOCK_PAGE == 0 : u->bytes == KEDGE__BLOCK_PAGE) &&
	       kedge__copy_reads_once(u->place, KEDGE__BLOCK_PAGE, (uint64_t)(u->place - f->goals[u->target].data));
}

uint8_t *kedge__fill_mapped_take(const struct kedge__filling *f, struct kedge__fill_worker *h,
				 const struct kedge__read_plan_unit *u, uint8_t *at)
{
	if (is_read_once(f, u))
		return at;
	memcpy(h->stored, at, u->bytes);
	return h->stored;
}

void kedge__fill_mapped_done(struct kedge__fill_mapped *m)
{
	kedge__file_unmap(m->at, m->bytes);
	m->at = NULL;
}
