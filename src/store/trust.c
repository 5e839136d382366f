/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/internal.h"

#include <pthread.h>

struct trusted {
	uint64_t version;
	struct kedge__digest seals; /* of all its segments */
};

struct kedge__trust {
	pthread_mutex_t lock;
	KEDGE__ARRAY(struct trusted) list; /* ascending */
};

struct kedge__trust *kedge__trust_new(void)
{
	struct kedge__trust *t = kedge__calloc(1, sizeof(*t));

	if (t)
		pthread_mutex_init(&t->lock, NULL);
	return t;
}

void kedge__trust_free(struct kedge__trust *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	kedge__array_done(&t->list);
	kedge__free(t);
}

/* Incrementally: there may be many ranks. */
static struct kedge__digest seals_of(const struct kedge__set *set)
{
	struct kedge__digest seals = {set->version, set->ranks};

	for (uint32_t rank = 0; rank < set->ranks; rank++) {
		struct kedge__digest link[2] = {seals, set->parts[rank].seal};

		seals = kedge__seal(link, sizeof(link));
	}
	return seals;
}

/* The first item that is not below VERSION. */
static size_t place_of(const struct kedge__trust *t, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, t->list.count, t->list.at[i].version < version);
	return i;
}

static bool is_at(const struct kedge__trust *t, size_t i, uint64_t version)
{
	return i < t->list.count && t->list.at[i].version == version;
}

void kedge__trust_add(struct kedge__trust *t, const struct kedge__set *set)
{
	struct trusted fresh = {set->version, seals_of(set)};
	size_t i;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	i = place_of(t, set->version);
	if (is_at(t, i, set->version)) {
		t->list.at[i] = fresh;
	} else if (kedge__array_reserve(&t->list, t->list.count + 1)) {
		memmove(t->list.at + i + 1, t->list.at + i, (t->list.count - i) * sizeof(fresh));
		t->list.at[i] = fresh;
		t->list.count++;
	}
	pthread_mutex_unlock(&t->lock);
}

bool kedge__trust_has(struct kedge__trust *t, const struct kedge__set *set)
{
	bool has;
	size_t i;

	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	i = place_of(t, set->version);
	has = is_at(t, i, set->version) && kedge__digest_equal(t->list.at[i].seals, seals_of(set));
	pthread_mutex_unlock(&t->lock);
	return has;
}

void kedge__trust_drop(struct kedge__trust *t, uint64_t version)
{
	size_t i;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	i = place_of(t, version);
	if (is_at(t, i, version)) {
		t->list.count--;
		memmove(t->list.at + i, t->list.at + i + 1, (t->list.count - i) * sizeof(*t->list.at));
	}
	pthread_mutex_unlock(&t->lock);
}

void kedge__trust_clear(struct kedge__trust *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->list.count = 0;
	pthread_mutex_unlock(&t->lock);
}
