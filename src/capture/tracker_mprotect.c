/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking by mprotect: pages are made read-only, and the SIGSEGV handler notes the page and makes it writable again.
 *
 * Pages are kept in chunks of 512, found by address in a hash table that the handler reads without a lock. Invariant,
 * under a chunk's lock: a tracked page that is not noted as dirty is read-only. Evidence that a page is clean is its
 * not being noted, its mapping still being read-only (memory mapped anew is not), and its page still being there.
 */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"
#include "capture/tracker_signal.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_PAGES 512
#define CHUNK_WORDS (CHUNK_PAGES / 64)

struct chunk {
	uintptr_t base;
	atomic_flag lock; /* guards what follows */
	uint64_t tracked[CHUNK_WORDS], dirty[CHUNK_WORDS];
};

struct table {
	struct table *older; /* may still be read by a handler: freed at close */
	size_t bytes, mask, used;
	_Atomic(struct chunk *) slots[];
};

#define SLAB_CHUNKS 448 /* some 64 KiB */

struct slab {
	struct slab *next;
	size_t used;
	struct chunk chunks[SLAB_CHUNKS];
};

struct mprotect_state {
	_Atomic(struct table *) table;
	struct slab *slabs;
	/* Taken before a chunk's lock: by collect, by what changes `tracked`, by a handler that opens more than a page.
	 */
	atomic_flag wide;
	struct kedge__mapping_list mappings;
	int pagemap;
	uint64_t entries[CHUNK_PAGES];
};

static size_t chunk_bytes(void)
{
	return CHUNK_PAGES * kedge__page_size();
}

/*
 * Held for a few system calls, by threads that do not wait for anything else meanwhile, and with signals blocked (by
 * the handler's mask, or by the tracker's lock): a handler of the application's must not fault under it.
 */
static void acquire(atomic_flag *lock)
{
	while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
		sched_yield();
}

static void release(atomic_flag *lock)
{
	atomic_flag_clear_explicit(lock, memory_order_release);
}

/* ---- the table of chunks */

static size_t slot_of(const struct table *t, uintptr_t base)
{
	return (size_t)((base / chunk_bytes()) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & t->mask;
}

static struct chunk *chunk_find(struct mprotect_state *s, uintptr_t address)
{
	struct table *t = atomic_load_explicit(&s->table, memory_order_acquire);
	uintptr_t base = address / chunk_bytes() * chunk_bytes();

	for (size_t i = slot_of(t, base);; i = (i + 1) & t->mask) {
		struct chunk *c = atomic_load_explicit(&t->slots[i], memory_order_acquire);

		if (!c || c->base == base)
			return c;
	}
}

static void table_put(struct table *t, struct chunk *c)
{
	size_t i = slot_of(t, c->base);

	while (atomic_load_explicit(&t->slots[i], memory_order_relaxed))
		i = (i + 1) & t->mask;
	t->used++;
	atomic_store_explicit(&t->slots[i], c, memory_order_release);
}

static struct table *table_new(size_t slots)
{
	size_t bytes = sizeof(struct table) + slots * sizeof(struct chunk *);
	struct table *t = kedge__map_alloc(bytes);

	if (t) {
		t->bytes = bytes;
		t->mask = slots - 1;
	}
	return t;
}

/* At most half full, so that a search ends soon. */
static bool table_reserve(struct mprotect_state *s)
{
	struct table *t = atomic_load(&s->table), *grown;

	if (2 * (t->used + 1) <= t->mask + 1)
		return true;
	grown = table_new(2 * (t->mask + 1));
	if (!grown)
		return false;
	for (size_t i = 0; i <= t->mask; i++) {
		struct chunk *c = atomic_load(&t->slots[i]);

		if (c)
			table_put(grown, c);
	}
	grown->older = t;
	atomic_store_explicit(&s->table, grown, memory_order_release);
	return true;
}

static struct chunk *chunk_make(struct mprotect_state *s, uintptr_t address)
{
	struct chunk *c = chunk_find(s, address);

	if (c)
		return c;
	if (!table_reserve(s))
		return NULL;
	if (!s->slabs || s->slabs->used == SLAB_CHUNKS) {
		struct slab *slab = kedge__map_alloc(sizeof(*slab));

		if (!slab)
			return NULL;
		slab->next = s->slabs;
		s->slabs = slab;
	}
	c = &s->slabs->chunks[s->slabs->used++];
	c->base = address / chunk_bytes() * chunk_bytes();
	table_put(atomic_load(&s->table), c);
	return c;
}

/* ---- bits of a chunk */

struct bits {
	uint64_t word[CHUNK_WORDS];
};

static bool bit_get(const uint64_t *words, size_t i)
{
	return words[i / 64] >> (i % 64) & 1;
}

static void bit_set(uint64_t *words, size_t i)
{
	words[i / 64] |= UINT64_C(1) << (i % 64);
}

/* The pages of a chunk that lie within [begin, end). */
static struct bits bits_of(const struct chunk *c, uintptr_t begin, uintptr_t end)
{
	size_t page = kedge__page_size();
	struct bits b = {{0}};

	begin = KEDGE__MAX(begin, c->base);
	end = KEDGE__MIN(end, c->base + chunk_bytes());
	for (uintptr_t at = begin; at < end; at += page)
		bit_set(b.word, (at - c->base) / page);
	return b;
}

/* The next run of set bits from *I on; false when there is none. */
static bool bits_run(const uint64_t *words, size_t *i, size_t *run)
{
	size_t at = *i;

	while (at < CHUNK_PAGES && !bit_get(words, at))
		at = words[at / 64] >> (at % 64) ? at + 1 : (at / 64 + 1) * 64;
	*i = at;
	while (at < CHUNK_PAGES && bit_get(words, at))
		at++;
	*run = at - *i;
	return *run != 0;
}

/* ---- faults */

static bool make_writable(uintptr_t begin, uintptr_t end)
{
	return mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) == 0;
}

static bool is_tracked(struct mprotect_state *s, uintptr_t page_address)
{
	struct chunk *c = chunk_find(s, page_address);

	return c && bit_get(c->tracked, (page_address - c->base) / kedge__page_size());
}

/*
 * A process may have only so many mappings, and huge pages cannot be split: then all tracked memory around ADDRESS is
 * opened, which takes no new mapping, and counts as dirty. What is tracked does not change meanwhile: see `wide`.
 */
static bool open_wide(struct mprotect_state *s, uintptr_t address)
{
	size_t page = kedge__page_size();
	uintptr_t begin = address / page * page, end = begin + page;

	while (is_tracked(s, begin - page))
		begin -= page;
	while (is_tracked(s, end))
		end += page;
	if (!make_writable(begin, end))
		return false;
	for (uintptr_t at = begin; at < end; at = (at / chunk_bytes() + 1) * chunk_bytes()) {
		struct chunk *c = chunk_find(s, at);
		struct bits opened = bits_of(c, begin, end);

		acquire(&c->lock);
		for (size_t w = 0; w < CHUNK_WORDS; w++)
			c->dirty[w] |= opened.word[w];
		release(&c->lock);
	}
	return true;
}

static enum kedge__fault_verdict on_fault(void *ctx, uintptr_t address)
{
	struct mprotect_state *s = ctx;
	struct chunk *c = chunk_find(s, address);
	size_t page = kedge__page_size(), i;
	uintptr_t begin = address / page * page;
	enum kedge__fault_verdict verdict = KEDGE__FAULT_STALE;
	bool failed = false;

	if (!c)
		return KEDGE__FAULT_FOREIGN;
	i = (begin - c->base) / page;
	acquire(&c->lock);
	if (bit_get(c->tracked, i) && !bit_get(c->dirty, i)) {
		failed = !make_writable(begin, begin + page);
		verdict = KEDGE__FAULT_DONE;
		if (!failed)
			bit_set(c->dirty, i);
	}
	release(&c->lock);
	if (failed) {
		acquire(&s->wide);
		verdict = open_wide(s, address) ? KEDGE__FAULT_DONE : KEDGE__FAULT_FOREIGN;
		release(&s->wide);
	}
	return verdict;
}

static void mprotect_touch(void *state, uintptr_t begin, uintptr_t end)
{
	for (uintptr_t at = begin; at < end; at += kedge__page_size())
		(void)on_fault(state, at);
}

/* ---- collect */

/* Whether the mapping is what arm() left there, so that a write would have been noticed. */
static bool vouched(const struct kedge__mapping *m, enum kedge__backing backing)
{
	if (!m->read || m->write)
		return false;
	if (backing == KEDGE__BACKING_SHARED || m->shared)
		return backing == KEDGE__BACKING_SHARED && m->shared;
	return !m->file || backing == KEDGE__BACKING_PRIVATE_FILE;
}

static void add_unvouched(struct mprotect_state *s, const struct chunk *c, const struct bits *wanted,
			  enum kedge__backing backing, struct bits *dirty)
{
	const struct kedge__mapping *m = kedge__mappings_find(&s->mappings, c->base);
	const struct kedge__mapping *last = s->mappings.at + s->mappings.count;

	for (size_t i = 0; i < CHUNK_PAGES; i++) {
		uintptr_t at = c->base + i * kedge__page_size();

		while (m && m < last && m->end <= at)
			m++;
		if (bit_get(wanted->word, i) && (!m || m == last || m->begin > at || !vouched(m, backing)))
			bit_set(dirty->word, i);
	}
}

static int add_discarded(struct mprotect_state *s, const struct chunk *c, const struct bits *wanted,
			 enum kedge__backing backing, struct bits *dirty, struct kedge__error *err)
{
	int rc = kedge__pagemap_read(s->pagemap, c->base, CHUNK_PAGES, s->entries, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < CHUNK_PAGES; i++) {
		if (bit_get(wanted->word, i) && !kedge__pagemap_kept(s->entries[i], backing))
			bit_set(dirty->word, i);
	}
	return 0;
}

/*
 * One call from the first dirty page to the last: pages between them are read-only already, which costs nothing, and
 * mappings come together again. False when the kernel refuses: the chunk is then as it happens to be, and the area is
 * lost.
 */
static bool protect_again(const struct chunk *c, const struct bits *dirty)
{
	size_t page = kedge__page_size(), first = 0, last, run;

	if (!bits_run(dirty->word, &first, &run))
		return true;
	for (last = CHUNK_PAGES; !bit_get(dirty->word, last - 1); last--)
		;
	return mprotect((void *)(c->base + first * page), (last - first) * page, PROT_READ) == 0;
}

/* Dirty pages of one chunk within AREA; with RESET they are noted anew from here on. */
static int chunk_gather(struct mprotect_state *s, struct chunk *c, const struct kedge__area *area, bool reset,
			struct bits *dirty, struct kedge__error *err)
{
	struct bits wanted = bits_of(c, area->begin, area->end);
	bool held = true;

	acquire(&c->lock);
	for (size_t w = 0; w < CHUNK_WORDS; w++) {
		dirty->word[w] = c->dirty[w] & wanted.word[w];
		if (reset)
			c->dirty[w] &= ~wanted.word[w];
	}
	add_unvouched(s, c, &wanted, area->backing, dirty);
	if (reset)
		held = protect_again(c, dirty);
	release(&c->lock);
	return held ? add_discarded(s, c, &wanted, area->backing, dirty, err) : KEDGE__AREA_LOST;
}

static int mprotect_collect(void *state, const struct kedge__area *area, struct kedge__pages_list *out,
			    struct kedge__error *err)
{
	struct mprotect_state *s = state;
	size_t page = kedge__page_size();
	int rc = 0;

	acquire(&s->wide);
	for (uintptr_t at = area->begin; rc == 0 && at < area->end; at = (at / chunk_bytes() + 1) * chunk_bytes()) {
		struct chunk *c = chunk_find(s, at);
		struct bits dirty;
		size_t i = 0, run;

		rc = chunk_gather(s, c, area, true, &dirty, err);
		for (; rc == 0 && bits_run(dirty.word, &i, &run); i += run) {
			if (!kedge__pages_list_add(out, c->base + i * page, c->base + (i + run) * page))
				rc = kedge__error_nomem(err);
		}
	}
	release(&s->wide);
	return rc;
}

static int mprotect_count(void *state, const struct kedge__area *area, uint64_t *bytes, struct kedge__error *err)
{
	struct mprotect_state *s = state;
	uint64_t pages = 0;
	int rc = 0;

	for (uintptr_t at = area->begin; rc == 0 && at < area->end; at = (at / chunk_bytes() + 1) * chunk_bytes()) {
		struct bits dirty;

		rc = chunk_gather(s, chunk_find(s, at), area, false, &dirty, err);
		for (size_t w = 0; rc == 0 && w < CHUNK_WORDS; w++)
			pages += (uint64_t)__builtin_popcountll(dirty.word[w]);
	}
	if (rc == 0)
		*bytes += pages * kedge__page_size();
	return rc;
}

static int mprotect_start(void *state, struct kedge__error *err)
{
	struct mprotect_state *s = state;

	return kedge__mappings_load(&s->mappings, err);
}

static int mprotect_finish(void *state, struct kedge__error *err)
{
	(void)state;
	(void)err;
	return 0;
}

/* ---- areas */

static void track(struct mprotect_state *s, const struct kedge__area *area, bool on)
{
	acquire(&s->wide);
	for (uintptr_t at = area->begin; at < area->end; at = (at / chunk_bytes() + 1) * chunk_bytes()) {
		struct chunk *c = chunk_find(s, at);
		struct bits wanted;

		if (!c)
			continue;
		wanted = bits_of(c, area->begin, area->end);
		acquire(&c->lock);
		for (size_t w = 0; w < CHUNK_WORDS; w++) {
			c->tracked[w] = on ? c->tracked[w] | wanted.word[w] : c->tracked[w] & ~wanted.word[w];
			c->dirty[w] &= ~wanted.word[w];
		}
		release(&c->lock);
	}
	release(&s->wide);
}

/* The stack of the caller, or of the main thread: there would be no room for the signal that reports a write to it. */
static bool holds_stack(struct mprotect_state *s, const struct kedge__area *area)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct kedge__mapping *m = kedge__mappings_find(&s->mappings, area->begin);

	return (area->begin <= here && here < area->end) || (m && m->stack);
}

static void mprotect_drop(void *state, const struct kedge__area *area)
{
	/* Writable first: a page that is not tracked and still protected would be nobody's. It fails where it is gone.
	 */
	(void)make_writable(area->begin, area->end);
	track(state, area, false);
}

static int mprotect_arm(void *state, const struct kedge__area *area, struct kedge__error *err)
{
	struct mprotect_state *s = state;

	if (holds_stack(s, area))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "a stack cannot be tracked by mprotect");
	for (uintptr_t at = area->begin; at < area->end; at = (at / chunk_bytes() + 1) * chunk_bytes()) {
		if (!chunk_make(s, at))
			return kedge__error_nomem(err);
	}
	track(s, area, true);
	if (mprotect((void *)area->begin, area->end - area->begin, PROT_READ) == 0)
		return 0;
	kedge__error_set(err, KEDGE_E_STATE, errno, "cannot protect memory at 0x%zx", (size_t)area->begin);
	mprotect_drop(s, area);
	return KEDGE_E_STATE;
}

static void mprotect_close(void *state)
{
	struct mprotect_state *s = state;
	struct table *t;

	if (!s)
		return;
	kedge__fault_handler_remove(s);
	t = atomic_load(&s->table);
	while (t) {
		struct table *older = t->older;

		kedge__map_free(t, t->bytes);
		t = older;
	}
	while (s->slabs) {
		struct slab *next = s->slabs->next;

		kedge__map_free(s->slabs, sizeof(*s->slabs));
		s->slabs = next;
	}
	kedge__array_done(&s->mappings);
	if (s->pagemap >= 0)
		close(s->pagemap);
	kedge__free(s);
}

static int mprotect_open(void **out, struct kedge__error *err)
{
	struct mprotect_state *s = kedge__calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return kedge__error_nomem(err);
	s->pagemap = -1;
	atomic_flag_clear(&s->wide);
	atomic_store(&s->table, table_new(256));
	rc = atomic_load(&s->table) ? kedge__pagemap_open(&s->pagemap, err) : kedge__error_nomem(err);
	if (rc == 0)
		rc = kedge__fault_handler_add(on_fault, s, err);
	if (rc) {
		mprotect_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

static int mprotect_probe(struct kedge__error *err)
{
	int fd, rc = kedge__pagemap_open(&fd, err);

	if (rc == 0)
		close(fd);
	return rc;
}

const struct kedge__tracker_ops kedge__tracker_mprotect = {
    .name = "mprotect",
    .live = true,
    .whole_pages = true,
    .probe = mprotect_probe,
    .open = mprotect_open,
    .close = mprotect_close,
    .start = mprotect_start,
    .finish = mprotect_finish,
    .arm = mprotect_arm,
    .drop = mprotect_drop,
    .collect = mprotect_collect,
    .count = mprotect_count,
    .touch = mprotect_touch,
};
