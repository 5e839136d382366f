#include "job/group_old.h"

#include <stdio.h>

/* All ranks have as much room as each other, and so come here together. */
static int grow(struct kedge__channel *ch, size_t bytes, struct kedge__error *err)
{
	char *more = kedge__malloc(2 * bytes);
	int rc = kedge__agree(ch, KEDGE__STEP_SHARE, bytes, more ? 0 : kedge__error_nomem(err), NULL, err);

	if (rc) {
		kedge__free(more);
		return rc;
	}
	kedge__free(ch->old_room);
	ch->old_room = more;
	ch->old_bytes = 2 * bytes;
	return 0;
}

int kedge__channel_begin(struct kedge__channel *ch, size_t bytes, void **slot, struct kedge__error *err)
{
	size_t all = (size_t)ch->group->size * bytes;
	int rc = all + bytes > ch->old_bytes ? grow(ch, all + bytes, err) : 0;

	if (rc)
		return rc;
	*slot = memset(ch->old_room + all, 0, bytes);
	return 0;
}

int kedge__channel_gather(struct kedge__channel *ch, size_t bytes, void **all, struct kedge__error *err)
{
	const void *own = ch->old_room + (size_t)ch->group->size * bytes;

	*all = ch->old_room;
	if (ch->group->size == 1) {
		memcpy(ch->old_room, own, bytes);
		return 0;
	}
	if (ch->group->allgather(ch->ctx, own, bytes, ch->old_room) == 0)
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

