#include "job/group.h"

#include <stdio.h>

#define LEAST 1024 /* bytes of a message that there is always room for: more than a kedge__say */

int kedge__channel_init(struct kedge__channel *ch, const struct kedge_group *group, void *ctx, struct kedge__error *err)
{
	*ch = (struct kedge__channel){group, ctx, NULL, ((size_t)group->size + 1) * LEAST};
	ch->room = kedge__malloc(ch->bytes);
	return ch->room ? 0 : kedge__error_nomem(err);
}

void kedge__channel_done(struct kedge__channel *ch)
{
	kedge__free(ch->room);
	*ch = (struct kedge__channel){0};
}

/* All ranks have as much room as each other, and so come here together. */
static int grow(struct kedge__channel *ch, size_t bytes, struct kedge__error *err)
{
	char *more = kedge__malloc(2 * bytes);
	int rc = kedge__channel_agree(ch, KEDGE__STEP_ROOM, bytes, more ? 0 : kedge__error_nomem(err), NULL, err);

	if (rc) {
		kedge__free(more);
		return rc;
	}
	kedge__free(ch->room);
	ch->room = more;
	ch->bytes = 2 * bytes;
	return 0;
}

int kedge__channel_begin(struct kedge__channel *ch, size_t bytes, void **slot, struct kedge__error *err)
{
	size_t all = (size_t)ch->group->size * bytes;
	int rc = all + bytes > ch->bytes ? grow(ch, all + bytes, err) : 0;

	if (rc)
		return rc;
	*slot = memset(ch->room + all, 0, bytes);
	return 0;
}

int kedge__channel_gather(struct kedge__channel *ch, size_t bytes, void **all, struct kedge__error *err)
{
	const void *own = ch->room + (size_t)ch->group->size * bytes;

	*all = ch->room;
	if (ch->group->size == 1) {
		memcpy(ch->room, own, bytes);
		return 0;
	}
	if (ch->group->allgather(ch->ctx, own, bytes, ch->room) == 0)
		return 0;
	return kedge__error_set(err, KEDGE_E_GROUP, 0, "rank %d cannot reach the other ranks: the allgather failed",
				ch->group->rank);
}

void kedge__say_set(struct kedge__say *say, enum kedge__step step, uint64_t version, int rc,
		    const struct kedge__error *err)
{
	memset(say, 0, sizeof(*say));
	say->step = step;
	say->version = version;
	say->code = rc;
	if (rc)
		snprintf(say->text, sizeof(say->text), "%s",
			 err && err->code ? kedge__error_text(err) : kedge_strerror(rc));
}

static const struct kedge__say *say_of(const void *all, size_t stride, int rank)
{
	return (const struct kedge__say *)((const char *)all + (size_t)rank * stride);
}

int kedge__say_judge(const struct kedge__channel *ch, const void *all, size_t stride, struct kedge__error *err)
{
	const struct kedge__say *own = say_of(all, stride, ch->group->rank);

	if (own->code)
		return own->code;
	for (int r = 0; r < ch->group->size; r++) {
		const struct kedge__say *say = say_of(all, stride, r);

		if (say->step != own->step || say->version != own->version)
			return kedge__error_set(
			    err, KEDGE_E_GROUP, 0,
			    "the ranks do not call the same: rank %d is at step %u of version %llu, "
			    "rank %d at step %u of version %llu",
			    r, (unsigned)say->step, (unsigned long long)say->version, ch->group->rank,
			    (unsigned)own->step, (unsigned long long)own->version);
	}
	for (int r = 0; r < ch->group->size; r++) {
		const struct kedge__say *say = say_of(all, stride, r);

		if (say->code)
			return kedge__error_set(err, KEDGE_E_GROUP, 0, "rank %d: %.*s", r, (int)sizeof(say->text) - 1,
						say->text);
	}
	return 0;
}

int kedge__channel_agree(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc, uint64_t *flags,
			 struct kedge__error *err)
{
	struct kedge__say *say;
	void *slot, *all;
	int judged;

	if (ch->group->size == 1)
		return rc;
	(void)kedge__channel_begin(ch, sizeof(*say), &slot, NULL); /* there is always room */
	say = slot;
	kedge__say_set(say, step, version, rc, err);
	say->flags = flags ? *flags : 0;
	judged = kedge__channel_gather(ch, sizeof(*say), &all, rc ? NULL : err);
	for (int r = 0; flags && !judged && r < ch->group->size; r++)
		*flags |= say_of(all, sizeof(*say), r)->flags;
	if (!judged)
		judged = kedge__say_judge(ch, all, sizeof(*say), err);
	return rc ? rc : judged;
}

static bool has_key(const struct kedge__set_key *list, uint64_t count, struct kedge__set_key key)
{
	for (uint64_t i = 0; i < count; i++) {
		if (list[i].version == key.version && list[i].id == key.id)
			return true;
	}
	return false;
}

/* Every rank's list, padded to ROOM entries with what is no version, at all + rank * room. */
static void keep_common(const struct kedge__channel *ch, const struct kedge__set_key *all, uint64_t room,
			struct kedge__set_key *list, size_t *count)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		bool everywhere = true;

		for (int r = 0; r < ch->group->size && everywhere; r++)
			everywhere = has_key(all + (size_t)r * room, room, list[i]);
		if (everywhere)
			list[kept++] = list[i];
	}
	*count = kept;
}

/* How long the longest list is; 0: all are the same. */
static int lists_compare(struct kedge__channel *ch, const struct kedge__set_key *list, size_t count, uint64_t *longest,
			 struct kedge__error *err)
{
	uint64_t own[2] = {count, kedge__checksum(list, count * sizeof(*list))};
	bool equal = true;
	void *slot, *all;
	int rc = kedge__channel_begin(ch, sizeof(own), &slot, err);

	if (!rc) {
		memcpy(slot, own, sizeof(own));
		rc = kedge__channel_gather(ch, sizeof(own), &all, err);
	}
	*longest = 0;
	for (int r = 0; !rc && r < ch->group->size; r++) {
		const uint64_t *other = (const uint64_t *)all + 2 * r;

		equal = equal && memcmp(other, own, sizeof(own)) == 0;
		*longest = KEDGE__MAX(*longest, other[0]);
	}
	if (equal)
		*longest = 0;
	return rc;
}

int kedge__channel_common(struct kedge__channel *ch, struct kedge__set_key *list, size_t *count,
			  struct kedge__error *err)
{
	uint64_t room;
	size_t bytes;
	void *slot, *all;
	int rc;

	if (ch->group->size == 1)
		return 0;
	rc = lists_compare(ch, list, *count, &room, err);
	if (rc || !room)
		return rc;
	bytes = (size_t)room * sizeof(*list);
	rc = kedge__channel_begin(ch, bytes, &slot, err);
	if (rc)
		return rc;
	memset(slot, 0xff, bytes);
	memcpy(slot, list, *count * sizeof(*list));
	rc = kedge__channel_gather(ch, bytes, &all, err);
	if (!rc)
		keep_common(ch, all, room, list, count);
	return rc;
}
