#include "job/group.h"

#include <stdio.h>

int kedge__channel_gather(const struct kedge__channel *ch, const void *send, size_t bytes, void *recv,
			  struct kedge__error *err)
{
	if (ch->group->size == 1) {
		memcpy(recv, send, bytes);
		return 0;
	}
	if (ch->group->allgather(ch->ctx, send, bytes, recv) == 0)
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

int kedge__channel_agree(const struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc,
			 uint64_t *flags, struct kedge__error *err)
{
	struct kedge__say say, *all;
	int judged;

	if (ch->group->size == 1)
		return rc;
	kedge__say_set(&say, step, version, rc, err);
	say.flags = flags ? *flags : 0;
	all = kedge__calloc((size_t)ch->group->size, sizeof(say));
	if (!all)
		return rc ? rc : kedge__error_nomem(err);
	judged = kedge__channel_gather(ch, &say, sizeof(say), all, rc ? NULL : err);
	if (!judged)
		judged = kedge__say_judge(ch, all, sizeof(say), err);
	for (int r = 0; flags && r < ch->group->size; r++)
		*flags |= all[r].flags;
	kedge__free(all);
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

/* Every rank's list, padded to ROOM entries, at all + rank * room. */
static void keep_common(const struct kedge__channel *ch, const struct kedge__set_key *all, const uint64_t *counts,
			uint64_t room, struct kedge__set_key *list, size_t *count)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		bool everywhere = true;

		for (int r = 0; r < ch->group->size && everywhere; r++)
			everywhere = has_key(all + (uint64_t)r * room, counts[2 * r], list[i]);
		if (everywhere)
			list[kept++] = list[i];
	}
	*count = kept;
}

int kedge__channel_common(const struct kedge__channel *ch, struct kedge__set_key *list, size_t *count,
			  struct kedge__error *err)
{
	uint64_t own[2] = {*count, kedge__checksum(list, *count * sizeof(*list))}, room = 0;
	size_t size = (size_t)ch->group->size;
	struct kedge__set_key *send = NULL, *all = NULL;
	uint64_t *counts;
	bool equal = true;
	int rc;

	if (size == 1)
		return 0;
	counts = kedge__calloc(size, sizeof(own));
	rc = counts ? kedge__channel_gather(ch, own, sizeof(own), counts, err) : kedge__error_nomem(err);
	for (size_t r = 0; !rc && r < size; r++) {
		equal = equal && memcmp(&counts[2 * r], own, sizeof(own)) == 0;
		room = KEDGE__MAX(room, counts[2 * r]);
	}
	if (rc || equal)
		goto out;
	send = kedge__calloc(room + 1, sizeof(*send));
	all = kedge__calloc(size * (room + 1), sizeof(*all));
	if (!send || !all) {
		rc = kedge__error_nomem(err);
		goto out;
	}
	memcpy(send, list, *count * sizeof(*list));
	rc = kedge__channel_gather(ch, send, room * sizeof(*send), all, err);
	if (!rc)
		keep_common(ch, all, counts, room, list, count);
out:
	kedge__free(send);
	kedge__free(all);
	kedge__free(counts);
	return rc;
}
