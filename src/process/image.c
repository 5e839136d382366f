/* SPDX-License-Identifier: BSD-3-Clause */
/* image: the region `process` (FORMAT.md, "Process images"). Each record is described once, for both directions. */
#include "process/process.h"

#include <stdlib.h>

#define MAGIC       "KEDGEPRC"
#define MAGIC_BYTES 8
#define HEAD_BYTES  16
#define MAJOR       1
#define RECORD_HEAD 8
#define REQUIRED    1u
#define TEXT_MOST   65536
#define SIGNALS     64

enum record_kind {
	RECORD_ORIGIN = 1,
	RECORD_MACHINE,
	RECORD_STATE,
	RECORD_ACTION,
	RECORD_THREAD,
	RECORD_FILE,
	RECORD_MAPPING,
	RECORD_DESCRIPTOR,
};

/* A cursor that writes to OUT, or reads from AT. Errors are sticky. */
struct wire {
	bool reading, failed, no_memory;
	KEDGE__ARRAY(uint8_t) out;
	const uint8_t *at;
	size_t left;
};

static void put(struct wire *w, const void *data, size_t n)
{
	if (w->failed)
		return;
	if (!kedge__array_reserve(&w->out, w->out.count + n)) {
		w->failed = w->no_memory = true;
		return;
	}
	if (n)
		memcpy(w->out.at + w->out.count, data, n);
	w->out.count += n;
}

static const uint8_t *get(struct wire *w, uint64_t n)
{
	const uint8_t *at = w->at;

	if (w->failed || n > w->left) {
		w->failed = true;
		return NULL;
	}
	w->at += n;
	w->left -= (size_t)n;
	return at;
}

static void word(struct wire *w, uint64_t *v)
{
	uint8_t bytes[8];
	const uint8_t *at;

	if (!w->reading) {
		kedge__put64(bytes, *v);
		put(w, bytes, sizeof(bytes));
		return;
	}
	at = get(w, sizeof(bytes));
	if (at)
		*v = kedge__get64(at);
}

static void words(struct wire *w, uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		word(w, v + i);
}

static void word32(struct wire *w, uint32_t *v)
{
	uint8_t bytes[4];
	const uint8_t *at;

	if (!w->reading) {
		kedge__put32(bytes, *v);
		put(w, bytes, sizeof(bytes));
		return;
	}
	at = get(w, sizeof(bytes));
	if (at)
		*v = kedge__get32(at);
}

static void blob(struct wire *w, struct kedge__process_blob *b)
{
	const uint8_t *at;

	word(w, &b->bytes);
	if (!w->reading) {
		put(w, b->data, (size_t)b->bytes);
		return;
	}
	at = get(w, b->bytes);
	if (!at)
		b->bytes = 0;
	if (!at || !b->bytes)
		return;
	b->data = kedge__malloc((size_t)b->bytes);
	if (b->data)
		memcpy(b->data, at, (size_t)b->bytes);
	else
		b->bytes = 0, w->failed = w->no_memory = true;
}

static void text(struct wire *w, char **s)
{
	struct kedge__process_blob b = {(uint8_t *)*s, w->reading || !*s ? 0 : strlen(*s)};
	const uint8_t *at;

	word(w, &b.bytes);
	if (!w->reading) {
		put(w, b.data, (size_t)b.bytes);
		return;
	}
	at = b.bytes <= TEXT_MOST ? get(w, b.bytes) : NULL;
	if (!at || memchr(at, 0, (size_t)b.bytes)) {
		w->failed = true;
		return;
	}
	*s = kedge__malloc((size_t)b.bytes + 1);
	if (!*s) {
		w->failed = w->no_memory = true;
		return;
	}
	memcpy(*s, at, (size_t)b.bytes);
	(*s)[b.bytes] = '\0';
}

/* ------------------------------------------------------------------ the records */

static void origin(struct wire *w, struct kedge__process_image *image)
{
	text(w, &image->boot);
	text(w, &image->release);
	text(w, &image->cwd);
	word(w, &image->uid);
	word(w, &image->pid);
	word(w, &image->started);
	word(w, &image->monotonic_ns);
	blob(w, &image->command);
}

static void machine(struct wire *w, struct kedge__process_image *image)
{
	word(w, &image->xcr0);
	words(w, image->features, KEDGE__PROCESS_FEATURES);
	blob(w, &image->vdso);
}

static void state(struct wire *w, struct kedge__process_image *image)
{
	word(w, &image->umask);
	word(w, &image->personality);
	words(w, image->limits, KEDGE__COUNT(image->limits));
	words(w, image->timers, KEDGE__COUNT(image->timers));
	words(w, image->mm, KEDGE__PROCESS_MM);
	blob(w, &image->auxv);
	blob(w, &image->pending);
}

static void action(struct wire *w, struct kedge__process_action *a)
{
	word(w, &a->signal);
	word(w, &a->handler);
	word(w, &a->flags);
	word(w, &a->restorer);
	word(w, &a->mask);
}

static void thread(struct wire *w, struct kedge__process_thread *t)
{
	word32(w, &t->id);
	words(w, t->registers, KEDGE__PROCESS_REGISTERS);
	blob(w, &t->xstate);
	word(w, &t->mask);
	word(w, &t->stack_at);
	word(w, &t->stack_bytes);
	word(w, &t->stack_flags);
	word(w, &t->robust_at);
	word(w, &t->robust_bytes);
	word(w, &t->rseq_at);
	word(w, &t->rseq_bytes);
	word(w, &t->rseq_signature);
	word(w, &t->clear_id);
	word(w, &t->nice);
	blob(w, &t->cpus);
	blob(w, &t->pending);
	text(w, &t->name);
}

static void file(struct wire *w, struct kedge__process_file *f)
{
	text(w, &f->path);
	word(w, &f->bytes);
	word(w, &f->mtime_ns);
	blob(w, &f->build_id);
}

static void mapping(struct wire *w, struct kedge__process_mapping *m)
{
	word(w, &m->start);
	word(w, &m->end);
	word(w, &m->offset);
	word32(w, &m->kind);
	word32(w, &m->bits);
	word32(w, &m->file);
	text(w, &m->name);
}

static void descriptor(struct wire *w, struct kedge__process_descriptor *d)
{
	word32(w, &d->number);
	word32(w, &d->kind);
	word32(w, &d->flags);
	word32(w, &d->same);
	word(w, &d->object);
	word(w, &d->offset);
	word(w, &d->bytes);
	word(w, &d->mtime_ns);
	word32(w, &d->contents);
	text(w, &d->path);
	blob(w, &d->data);
}

/* ------------------------------------------------------------------ encode */

static size_t record_open(struct wire *w, enum record_kind kind)
{
	uint8_t head[RECORD_HEAD] = {0};
	size_t at = w->out.count;

	kedge__put16(head + 4, (uint16_t)kind);
	kedge__put16(head + 6, REQUIRED);
	put(w, head, sizeof(head));
	return at;
}

static void record_close(struct wire *w, size_t at)
{
	if (!w->failed)
		kedge__put32(w->out.at + at, (uint32_t)(w->out.count - at));
}

#define EACH(w, kind, list, describe)                                                                                  \
	for (size_t i_ = 0; i_ < (list).count; i_++) {                                                                 \
		size_t at_ = record_open(w, kind);                                                                     \
                                                                                                                       \
		describe(w, &(list).at[i_]);                                                                           \
		record_close(w, at_);                                                                                  \
	}

int kedge__process_image_encode(const struct kedge__process_image *image, uint8_t **out, size_t *bytes,
				struct kedge__error *err)
{
	struct kedge__process_image *p = (struct kedge__process_image *)image; /* the description also reads */
	struct wire w = {0};
	uint8_t head[HEAD_BYTES] = MAGIC;
	size_t at;

	kedge__put16(head + MAGIC_BYTES, MAJOR);
	put(&w, head, sizeof(head));
	at = record_open(&w, RECORD_ORIGIN);
	origin(&w, p);
	record_close(&w, at);
	at = record_open(&w, RECORD_MACHINE);
	machine(&w, p);
	record_close(&w, at);
	at = record_open(&w, RECORD_STATE);
	state(&w, p);
	record_close(&w, at);
	EACH(&w, RECORD_ACTION, p->actions, action);
	EACH(&w, RECORD_THREAD, p->threads, thread);
	EACH(&w, RECORD_FILE, p->files, file);
	EACH(&w, RECORD_MAPPING, p->mappings, mapping);
	EACH(&w, RECORD_DESCRIPTOR, p->descriptors, descriptor);
	if (w.failed) {
		kedge__array_done(&w.out);
		return kedge__error_nomem(err);
	}
	*out = w.out.at;
	*bytes = w.out.count;
	return 0;
}

/* ------------------------------------------------------------------ decode */

static bool threads_valid(const struct kedge__process_image *image)
{
	for (size_t i = 0; i < image->threads.count; i++) {
		const struct kedge__process_thread *t = &image->threads.at[i];

		if (t->id == 0 || t->id > INT32_MAX || t->pending.bytes % KEDGE__PROCESS_SIGINFO ||
		    t->xstate.bytes < 576 || t->xstate.bytes > (1 << 20) || !t->name)
			return false;
	}
	return image->threads.count > 0;
}

static bool mappings_valid(const struct kedge__process_image *image)
{
	uint64_t end = 0;

	for (size_t i = 0; i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];
		bool file = m->kind == KEDGE__MAPPING_PRIVATE_FILE || m->kind == KEDGE__MAPPING_SHARED_FILE;

		if (m->start < end || m->end <= m->start || (m->start | m->end | m->offset) % KEDGE__PAGE_BYTES ||
		    m->end > UINT64_C(1) << 56 || m->kind >= KEDGE__MAPPING_KINDS || (m->bits & ~KEDGE__MAPPING_BITS) ||
		    (file && m->file >= image->files.count) || !m->name)
			return false;
		end = m->end;
	}
	return true;
}

static bool descriptors_valid(const struct kedge__process_image *image)
{
	for (size_t i = 0; i < image->descriptors.count; i++) {
		const struct kedge__process_descriptor *d = &image->descriptors.at[i];

		if (d->kind >= KEDGE__DESCRIPTOR_KINDS || d->number > 1 << 20 || d->same > d->number || !d->path ||
		    (i && d->number <= image->descriptors.at[i - 1].number) ||
		    (d->kind == KEDGE__DESCRIPTOR_EPOLL && d->data.bytes % 24) ||
		    (d->kind == KEDGE__DESCRIPTOR_TIMER && d->data.bytes != 32) ||
		    (d->kind == KEDGE__DESCRIPTOR_INHERITED && d->object > 2))
			return false;
	}
	return true;
}

static bool image_valid(const struct kedge__process_image *image)
{
	for (size_t i = 0; i < image->actions.count; i++)
		if (image->actions.at[i].signal < 1 || image->actions.at[i].signal > SIGNALS)
			return false;
	return image->boot && image->cwd && image->release && image->files.count > 0 &&
	       image->pending.bytes % KEDGE__PROCESS_SIGINFO == 0 && image->auxv.bytes % 8 == 0 &&
	       image->auxv.bytes <= 4096 && image->vdso.bytes <= 1 << 20 && threads_valid(image) &&
	       mappings_valid(image) && descriptors_valid(image);
}

#define READ_ONE(w, list, describe)                                                                                    \
	do {                                                                                                           \
		if (!kedge__array_reserve(&(list), (list).count + 1)) {                                                \
			(w)->failed = (w)->no_memory = true;                                                           \
			break;                                                                                         \
		}                                                                                                      \
		memset(&(list).at[(list).count], 0, sizeof((list).at[0]));                                             \
		describe(w, &(list).at[(list).count++]);                                                               \
	} while (0)

/* False: an unknown record that a reader must know. */
static bool read_record(struct wire *w, unsigned kind, unsigned flags, struct kedge__process_image *image)
{
	bool again = (kind == RECORD_ORIGIN && image->boot) || (kind == RECORD_MACHINE && image->xcr0) ||
		     (kind == RECORD_STATE && (image->auxv.data || image->pending.data));

	w->failed |= again;
	switch (kind) {
	case RECORD_ORIGIN:
		again ? (void)0 : origin(w, image);
		break;
	case RECORD_MACHINE:
		again || image->vdso.data ? (void)(w->failed = true) : machine(w, image);
		break;
	case RECORD_STATE:
		again ? (void)0 : state(w, image);
		break;
	case RECORD_ACTION:
		READ_ONE(w, image->actions, action);
		break;
	case RECORD_THREAD:
		READ_ONE(w, image->threads, thread);
		break;
	case RECORD_FILE:
		READ_ONE(w, image->files, file);
		break;
	case RECORD_MAPPING:
		READ_ONE(w, image->mappings, mapping);
		break;
	case RECORD_DESCRIPTOR:
		READ_ONE(w, image->descriptors, descriptor);
		break;
	default:
		w->left = 0;
		return !(flags & REQUIRED);
	}
	w->failed |= w->left > 0;
	return true;
}

static int read_records(struct wire *all, struct kedge__process_image *image, struct kedge__error *err)
{
	while (all->left && !all->failed) {
		const uint8_t *head = get(all, RECORD_HEAD);
		struct wire w = {.reading = true};
		uint32_t bytes = head ? kedge__get32(head) : 0;

		w.left = bytes >= RECORD_HEAD ? bytes - RECORD_HEAD : SIZE_MAX;
		w.at = get(all, w.left);
		if (!w.at)
			break;
		if (!read_record(&w, kedge__get16(head + 4), kedge__get16(head + 6), image))
			return kedge__error_set(
			    err, KEDGE_E_FORMAT, 0,
			    "the process image has records that this version of Kedge does not know");
		all->failed |= w.failed;
		all->no_memory |= w.no_memory;
	}
	return 0;
}

int kedge__process_image_decode(const void *data, size_t bytes, struct kedge__process_image *out,
				struct kedge__error *err)
{
	struct kedge__process_image image = {0};
	struct wire w = {.reading = true, .at = data, .left = bytes};
	const uint8_t *head = get(&w, HEAD_BYTES);
	int rc;

	if (!head || memcmp(head, MAGIC, MAGIC_BYTES) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "this is not a process image");
	if (kedge__get16(head + MAGIC_BYTES) != MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"the process image has format %u, and this version of Kedge knows %u",
					kedge__get16(head + MAGIC_BYTES), MAJOR);
	rc = read_records(&w, &image, err);
	if (!rc && w.no_memory)
		rc = kedge__error_nomem(err);
	if (!rc && (w.failed || !image_valid(&image)))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the process image is damaged");
	if (rc) {
		kedge__process_image_done(&image);
		return rc;
	}
	*out = image;
	return 0;
}

static void thread_done(struct kedge__process_thread *t)
{
	kedge__free(t->xstate.data);
	kedge__free(t->cpus.data);
	kedge__free(t->pending.data);
	kedge__free(t->name);
}

void kedge__process_image_done(struct kedge__process_image *image)
{
	for (size_t i = 0; i < image->threads.count; i++)
		thread_done(&image->threads.at[i]);
	for (size_t i = 0; i < image->files.count; i++) {
		kedge__free(image->files.at[i].path);
		kedge__free(image->files.at[i].build_id.data);
	}
	for (size_t i = 0; i < image->mappings.count; i++)
		kedge__free(image->mappings.at[i].name);
	for (size_t i = 0; i < image->descriptors.count; i++) {
		kedge__free(image->descriptors.at[i].path);
		kedge__free(image->descriptors.at[i].data.data);
	}
	kedge__array_done(&image->threads);
	kedge__array_done(&image->files);
	kedge__array_done(&image->mappings);
	kedge__array_done(&image->descriptors);
	kedge__array_done(&image->actions);
	kedge__free(image->boot);
	kedge__free(image->release);
	kedge__free(image->cwd);
	kedge__free(image->command.data);
	kedge__free(image->vdso.data);
	kedge__free(image->auxv.data);
	kedge__free(image->pending.data);
	*image = (struct kedge__process_image){0};
}
