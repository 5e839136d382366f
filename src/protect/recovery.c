/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure functions of what is where: all ranks have the same inventory, and come to the same conclusions. */
#include "protect/protect.h"

uint32_t kedge__item_host(const struct kedge__item *item, const uint32_t *home)
{
	return home[item->rank] == item->place ? item->rank : item->place;
}

bool kedge__shape_equal(const struct kedge__shield *a, const struct kedge__shield *b)
{
	if (a->members != b->members || a->parity != b->parity || a->unit != b->unit || a->rows != b->rows)
		return false;
	for (uint32_t i = 0; i < a->members; i++)
		if (a->at[i].rank != b->at[i].rank)
			return false;
	return true;
}

size_t kedge__item_find(const struct kedge__item_list *items, uint32_t rank, const struct kedge__shield *shape,
			uint32_t home)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < items->count; i++) {
		const struct kedge__item *item = &items->at[i];

		if (item->rank != rank || item->bad || !item->shield != !shape ||
		    (shape && !kedge__shape_equal(shape, item->shield)))
			continue;
		if (item->place == home)
			return i;
		if (found == SIZE_MAX)
			found = i;
	}
	return found;
}

void kedge__team_hosts(const struct kedge__item_list *items, const struct kedge__shield *shape, const uint32_t *home,
		       uint32_t *segment_host, uint32_t *shield_host, size_t *item)
{
	for (uint32_t i = 0; i < shape->members; i++) {
		uint32_t rank = shape->at[i].rank;
		size_t segment = kedge__item_find(items, rank, NULL, home[rank]);
		size_t shield = kedge__item_find(items, rank, shape, home[rank]);

		segment_host[i] = segment == SIZE_MAX ? KEDGE__NO_RANK : kedge__item_host(&items->at[segment], home);
		shield_host[i] = shield == SIZE_MAX ? KEDGE__NO_RANK : kedge__item_host(&items->at[shield], home);
		if (item) {
			item[i] = segment;
			item[shape->members + i] = shield;
		}
	}
}

static bool is_member(const struct kedge__shield *shape, uint32_t rank)
{
	for (uint32_t i = 0; i < shape->members; i++)
		if (shape->at[i].rank == rank)
			return true;
	return false;
}

/* The first of the teams that RANK was in, as shields have them, that can make up for it; else any of them. */
static bool team_find(const struct kedge__item_list *items, const uint32_t *home, uint32_t rank,
		      const struct kedge__shield **shape)
{
	uint32_t segments[KEDGE__TEAM_MOST], shields[KEDGE__TEAM_MOST];

	for (size_t i = 0; i < items->count; i++) {
		const struct kedge__shield *s = items->at[i].bad ? NULL : items->at[i].shield;

		if (!s || !is_member(s, rank))
			continue;
		*shape = s;
		kedge__team_hosts(items, s, home, segments, shields, NULL);
		if (kedge__rebuild_possible(s, segments, shields))
			return true;
	}
	return false;
}

void kedge__recovery_plan(const struct kedge__item_list *items, const uint32_t *home, uint32_t ranks,
			  struct kedge__path *out)
{
	for (uint32_t r = 0; r < ranks; r++) {
		size_t i = kedge__item_find(items, r, NULL, home[r]);

		out[r] = (struct kedge__path){.way = KEDGE__WAY_NONE, .item = i};
		if (i == SIZE_MAX && team_find(items, home, r, &out[r].shape))
			out[r].way = KEDGE__WAY_REBUILD;
		else if (i != SIZE_MAX)
			out[r].way = items->at[i].place == home[r] ? KEDGE__WAY_HERE : KEDGE__WAY_MOVE;
	}
}
