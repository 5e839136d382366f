/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/group.h"

#include <stdio.h>

int kedge__channel_init(struct kedge__channel *ch, const struct kedge_group *group, void *ctx, struct kedge__error *err)
{
	*ch = (struct kedge__channel){.group = group, .ctx = ctx};
	if (group->size == 1 || (group->reduce && group->gather))
		return 0;
	ch->room = kedge__malloc((size_t)group->size * KEDGE__MSG_BYTES);
	return ch->room ? 0 : kedge__error_nomem(err);
}

void kedge__channel_done(struct kedge__channel *ch)
{
	kedge__free(ch->room);
	*ch = (struct kedge__channel){0};
}

int kedge__channels_init(struct kedge__channels *c, const struct kedge_group *group)
{
	bool by_itself = group->size == 1 || group->any_thread;
	int rc;

	c->writer_speaks = by_itself;
	c->flusher_speaks = group->size == 1 || (by_itself && group->background);
	rc = kedge__channel_init(&c->front, group, group->ctx, NULL);
	if (rc)
		return rc;
	return kedge__channel_init(&c->back, group,
				   c->flusher_speaks && group->background ? group->background : group->ctx, NULL);
}

void kedge__channels_done(struct kedge__channels *c)
{
	kedge__channel_done(&c->front);
	kedge__channel_done(&c->back);
}

static int unreachable(const struct kedge__channel *ch, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_GROUP, 0,
				"rank %d cannot reach the other ranks: the group's transport failed", ch->group->rank);
}

/* ------------------------------------------------------------------ exchanges */

static int reduce(struct kedge__channel *ch, union kedge__msg *msg)
{
	const struct kedge_group *g = ch->group;

	ch->exchanges++;
	if (!ch->room)
		return g->reduce(ch->ctx, msg, sizeof(*msg), kedge__msg_fold);
	if (g->allgather(ch->ctx, msg, sizeof(*msg), ch->room))
		return -1;
	memcpy(msg, ch->room, sizeof(*msg));
	for (int r = 1; r < g->size; r++)
		kedge__msg_fold(msg, ch->room + (size_t)r * sizeof(*msg));
	return 0;
}

static void head_set(struct kedge__msg_head *head, int rank, enum kedge__step step, uint64_t version, int rc,
		     const struct kedge__error *err)
{
	uint64_t flags = head->flags;

	memset(head, 0, sizeof(*head));
	head->step = step;
	head->rank = rank;
	head->version = version;
	head->flags = flags;
	head->failed = rc ? rank : -1;
	head->odd = -1;
	head->code = rc;
	if (rc)
		snprintf(head->text, sizeof(head->text), "%s",
			 err && err->code ? kedge__error_text(err) : kedge_strerror(rc));
}

static int out_of_step(const struct kedge__msg_head *head, struct kedge__error *err)
{
	const char *odd = kedge__step_call((enum kedge__step)head->odd_step);
	const char *call = kedge__step_call((enum kedge__step)head->step);

	return kedge__error_set(
	    err, KEDGE_E_GROUP, 0,
	    "ranks are out of step: rank %d is in %s() (step %s, version %llu), rank %d in %s() (step %s, "
	    "version %llu); every rank has to make the same calls in the same order",
	    head->odd, odd, kedge__step_name((enum kedge__step)head->odd_step), (unsigned long long)head->odd_version,
	    head->rank, call, kedge__step_name((enum kedge__step)head->step), (unsigned long long)head->version);
}

int kedge__exchange(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc, union kedge__msg *msg,
		    struct kedge__error *err)
{
	const struct kedge__msg_head *head = &msg->head;

	head_set(&msg->head, ch->group->rank, step, version, rc, err);
	if (ch->group->size == 1)
		return rc;
	if (reduce(ch, msg))
		return rc ? rc : unreachable(ch, err);
	if (rc)
		return rc;
	if (head->odd >= 0)
		return out_of_step(head, err);
	if (head->failed < 0)
		return 0;
	return kedge__error_set(err, KEDGE_E_GROUP, 0, "rank %d: %.*s", head->failed, (int)sizeof(head->text) - 1,
				head->text);
}

int kedge__agree(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc, uint64_t *flags,
		 struct kedge__error *err)
{
	union kedge__msg msg = {.head = {.flags = flags ? *flags : 0}};

	rc = kedge__exchange(ch, step, version, rc, &msg, err);
	if (flags)
		*flags = msg.head.flags;
	return rc;
}

int kedge__gather(struct kedge__channel *ch, int root, const void *own, size_t bytes, void *all,
		  struct kedge__error *err)
{
	const struct kedge_group *g = ch->group;
	bool here = root < 0 || g->rank == root;
	int failed;

	ch->gathers++;
	if (g->size == 1) {
		memcpy(all, own, bytes);
		return 0;
	}
	if (root >= 0 && !ch->room) {
		failed = g->gather(ch->ctx, own, bytes, here ? all : NULL, root);
	} else if (here) {
		failed = g->allgather(ch->ctx, own, bytes, all);
	} else {
		failed = g->allgather(ch->ctx, own, bytes, ch->room);
	}
	return failed ? unreachable(ch, err) : 0;
}

/* ------------------------------------------------------------------ what does not fit into one message */

int kedge__share(struct kedge__channel *ch, int root, void *data, size_t bytes, struct kedge__error *err)
{
	char *at = data;
	int rc = 0;

	for (size_t done = 0; done < bytes && !rc; done += sizeof(((struct kedge__share_msg *)0)->data)) {
		union kedge__msg msg = {.share = {.from = ch->group->rank == root ? root : -1}};
		size_t n = KEDGE__MIN(bytes - done, sizeof(msg.share.data));

		if (ch->group->rank == root && at)
			memcpy(msg.share.data, at + done, n);
		rc = kedge__exchange(ch, KEDGE__STEP_SHARE, bytes, 0, &msg, err);
		if (!rc && at)
			memcpy(at + done, msg.share.data, n);
	}
	return rc;
}

static bool has_key(const struct kedge__set_key *list, size_t count, struct kedge__set_key key)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i].version == key.version && list[i].id == key.id)
			return true;
	}
	return false;
}

/* Which of the keys of the message before this rank has. */
static uint64_t mask_of(const struct kedge__set_key *list, size_t count, const struct kedge__set_key *keys, size_t n)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < n; i++)
		mask |= (uint64_t)has_key(list, count, keys[i]) << i;
	return mask;
}

/*
 * Rank 0 names its versions, some at a time; the next message says which of them all have. What all have comes to stand
 * at the front of the list: a version that was not named yet must not be lost by that, and so changes places.
 */
static void keep_front(struct kedge__set_key *list, size_t count, size_t *kept, struct kedge__set_key key)
{
	for (size_t i = *kept; i < count; i++) {
		if (list[i].version == key.version && list[i].id == key.id) {
			struct kedge__set_key other = list[*kept];

			list[(*kept)++] = key;
			list[i] = other;
			return;
		}
	}
}

static int common_find(struct kedge__channel *ch, struct kedge__set_key *list, size_t *count, size_t total,
		       struct kedge__error *err)
{
	struct kedge__set_key named[KEDGE__MSG_KEYS];
	const bool names = ch->group->rank == 0;
	size_t kept = 0, known = 0; /* of those named */
	int rc = 0;

	for (size_t next = 0; next < total || known; next += KEDGE__MSG_KEYS) {
		size_t n = next < total ? KEDGE__MIN(total - next, (size_t)KEDGE__MSG_KEYS) : 0;
		union kedge__msg msg = {.common = {.mask = mask_of(list, *count, named, known)}};

		if (names && n)
			memcpy(msg.common.keys, list + next, n * sizeof(*list));
		rc = kedge__exchange(ch, KEDGE__STEP_COMMON, 1, 0, &msg, err);
		if (rc)
			return rc;
		for (size_t i = 0; i < known; i++) {
			if (msg.common.mask >> i & 1)
				keep_front(list, *count, &kept, named[i]);
		}
		memcpy(named, msg.common.keys, n * sizeof(*named));
		known = n;
	}
	*count = kept;
	return 0;
}

int kedge__common(struct kedge__channel *ch, struct kedge__set_key *list, size_t *count, struct kedge__error *err)
{
	union kedge__msg msg = {.common = {.count = *count}};
	int between[2], rc;

	if (ch->group->size == 1)
		return 0;
	kedge__msg_same_set(&msg.common.list, ch->group->rank, kedge__checksum(list, *count * sizeof(*list)) + *count);
	rc = kedge__exchange(ch, KEDGE__STEP_COMMON, 0, 0, &msg, err);
	if (rc || kedge__msg_same_is(&msg.common.list, between))
		return rc;
	return common_find(ch, list, count, (size_t)msg.common.count, err);
}

/* ------------------------------------------------------------------ bytes from rank to rank */

/* A letter: how many bytes of it are used, whether more follow, then for each piece the rank it goes to, its bytes,
 * itself. */
#define LETTER ((size_t)64 << 10)
#define HEAD   ((size_t)8)

int kedge__courier_init(struct kedge__courier *c, struct kedge__channel *ch, struct kedge__error *err)
{
	size_t size = (size_t)ch->group->size;

	*c = (struct kedge__courier){.ch = ch};
	if (ch->group->transfer || size == 1)
		return 0;
	c->own = kedge__malloc(LETTER);
	c->all = kedge__malloc(size * LETTER);
	c->next = kedge__calloc(size, sizeof(*c->next));
	c->done = kedge__calloc(size, sizeof(*c->done));
	if (c->own && c->all && c->next && c->done)
		return 0;
	kedge__courier_done(c);
	return kedge__error_nomem(err);
}

void kedge__courier_done(struct kedge__courier *c)
{
	kedge__free(c->own);
	kedge__free(c->all);
	kedge__free(c->next);
	kedge__free(c->done);
	*c = (struct kedge__courier){0};
}

/* As much as fits, from byte *FROM of SEND[*I] on; both move. */
static void letter_write(char *letter, const struct kedge_transfer *send, size_t sends, size_t *i, size_t *from)
{
	size_t used = HEAD;

	while (*i < sends && used + HEAD < LETTER) {
		size_t n = KEDGE__MIN(send[*i].bytes - *from, LETTER - used - HEAD);

		kedge__put32(letter + used, (uint32_t)send[*i].rank);
		kedge__put32(letter + used + 4, (uint32_t)n);
		memcpy(letter + used + HEAD, (const char *)send[*i].data + *from, n);
		used += HEAD + n;
		*from += n;
		if (*from < send[*i].bytes)
			break;
		++*i;
		*from = 0;
	}
	kedge__put32(letter, (uint32_t)used);
	kedge__put32(letter + 4, *i < sends);
}

/* N bytes that FROM has sent to this rank. False: they were not expected. */
static bool piece_take(struct kedge__courier *c, int from, const char *data, size_t n,
		       const struct kedge_transfer *recv, size_t recvs)
{
	size_t *i = &c->next[from], *done = &c->done[from];

	while (*i < recvs && (recv[*i].rank != from || *done == recv[*i].bytes)) {
		++*i;
		*done = 0;
	}
	if (*i == recvs || n > recv[*i].bytes - *done)
		return n == 0;
	memcpy((char *)recv[*i].data + *done, data, n);
	*done += n;
	return true;
}

/* What is in the letter of FROM for this rank; *MORE: another one follows. */
static bool letter_read(struct kedge__courier *c, int from, const struct kedge_transfer *recv, size_t recvs, bool *more)
{
	const char *letter = c->all + (size_t)from * LETTER;
	size_t used = kedge__get32(letter);
	bool well = used >= HEAD && used <= LETTER;

	*more = *more || kedge__get32(letter + 4);
	for (size_t at = HEAD; well && at + HEAD <= used;) {
		size_t n = kedge__get32(letter + at + 4);

		well = n <= used - at - HEAD;
		if (well && kedge__get32(letter + at) == (uint32_t)c->ch->group->rank)
			well = piece_take(c, from, letter + at + HEAD, n, recv, recvs);
		at += HEAD + n;
	}
	return well;
}

/* All of it has come. */
static bool all_came(const struct kedge__courier *c, const struct kedge_transfer *recv, size_t recvs)
{
	for (size_t i = 0; i < recvs; i++) {
		size_t next = c->next[recv[i].rank];

		if (next < i || (next == i && c->done[recv[i].rank] < recv[i].bytes))
			return false;
	}
	return true;
}

static int by_letters(struct kedge__courier *c, const struct kedge_transfer *send, size_t sends,
		      const struct kedge_transfer *recv, size_t recvs)
{
	const struct kedge_group *g = c->ch->group;
	size_t i = 0, from = 0;
	bool more = true, well = true;

	memset(c->next, 0, (size_t)g->size * sizeof(*c->next));
	memset(c->done, 0, (size_t)g->size * sizeof(*c->done));
	while (more) {
		letter_write(c->own, send, sends, &i, &from);
		if (g->allgather(c->ch->ctx, c->own, LETTER, c->all))
			return -1;
		more = false;
		for (int r = 0; r < g->size; r++)
			well = letter_read(c, r, recv, recvs, &more) && well;
	}
	return well && all_came(c, recv, recvs) ? 0 : -1;
}

int kedge__courier_move(void *courier, const struct kedge_transfer *send, size_t sends,
			const struct kedge_transfer *recv, size_t recvs)
{
	struct kedge__courier *c = courier;
	const struct kedge_group *g = c->ch->group;

	if (g->size == 1)
		return 0;
	if (g->transfer)
		return g->transfer(c->ch->ctx, send, sends, recv, recvs);
	return by_letters(c, send, sends, recv, recvs);
}

/* Rooms of the same size, as large as the largest text needs, so that one allgather brings them. */
static int rooms_gather(struct kedge__channel *ch, const char *own, struct kedge__texts *t, struct kedge__error *err)
{
	const struct kedge_group *g = ch->group;

	ch->gathers++;
	if (g->size == 1)
		memcpy(t->rooms, own, t->room);
	else if (g->allgather(ch->ctx, own, t->room, t->rooms))
		return unreachable(ch, err);
	return 0;
}

int kedge__spread(struct kedge__channel *ch, int rc, const void *own, size_t bytes, struct kedge__texts *out,
		  struct kedge__error *err)
{
	union kedge__msg msg = {.protect = {.most = bytes}};
	struct kedge__texts t;
	char *mine;

	rc = kedge__exchange(ch, KEDGE__STEP_RECOVER, 1, rc, &msg, err);
	if (rc)
		return rc;
	t.room = (size_t)msg.protect.most + 8;
	mine = kedge__calloc(1, t.room);
	t.rooms = mine ? kedge__malloc((size_t)ch->group->size * t.room) : NULL;
	rc = kedge__agree(ch, KEDGE__STEP_RECOVER, 2, t.rooms ? 0 : kedge__error_nomem(err), NULL, err);
	if (!rc) {
		kedge__put64(mine, bytes);
		if (bytes)
			memcpy(mine + 8, own, bytes);
		rc = rooms_gather(ch, mine, &t, err);
	}
	kedge__free(mine);
	if (rc)
		kedge__free(t.rooms);
	else
		*out = t;
	return rc;
}

const char *kedge__texts_at(const struct kedge__texts *t, int rank, size_t *bytes)
{
	const char *room = t->rooms + (size_t)rank * t->room;

	*bytes = (size_t)KEDGE__MIN(kedge__get64(room), t->room - 8);
	return room + 8;
}

void kedge__texts_done(struct kedge__texts *t)
{
	kedge__free(t->rooms);
	*t = (struct kedge__texts){0};
}
