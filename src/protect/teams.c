/* SPDX-License-Identifier: BSD-3-Clause */
#include "protect/protect.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ what fails together */

static int compare_seats(const void *a, const void *b, void *ctx)
{
	const struct kedge__seat *seats = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	int order = strcmp(seats[i].node, seats[j].node);

	return order ? order : (i > j) - (i < j);
}

static uint32_t root_of(uint32_t *of, uint32_t r)
{
	while (of[r] != r)
		r = of[r] = of[of[r]];
	return r;
}

static void join(uint32_t *of, uint32_t a, uint32_t b)
{
	a = root_of(of, a);
	b = root_of(of, b);
	of[KEDGE__MAX(a, b)] = KEDGE__MIN(a, b);
}

int kedge__nodes_number(const struct kedge__seat *seats, uint32_t ranks, uint32_t *node, uint32_t *count,
			struct kedge__error *err)
{
	uint32_t *order = kedge__calloc(ranks + 1, sizeof(*order)), n = 0;

	if (!order)
		return kedge__error_nomem(err);
	for (uint32_t r = 0; r < ranks; r++)
		order[r] = node[r] = r;
	qsort_r(order, ranks, sizeof(*order), compare_seats, (void *)seats);
	for (uint32_t i = 1; i < ranks; i++)
		if (strcmp(seats[order[i - 1]].node, seats[order[i]].node) == 0)
			join(node, order[i - 1], order[i]);
	for (uint32_t r = 0; r < ranks; r++)
		join(node, r, seats[r].leader);
	for (uint32_t r = 0; r < ranks; r++)
		order[r] = root_of(node, r);
	/* A root comes before all others of its tree. */
	for (uint32_t r = 0; r < ranks; r++)
		node[r] = order[r] == r ? n++ : node[order[r]];
	kedge__free(order);
	*count = n;
	return 0;
}

/* ------------------------------------------------------------------ who protects whom
 *
 * Ranks are lined up node by node, the nodes with most ranks first, and dealt out to the teams in turn: as no node has
 * more ranks than there are teams, no two of its ranks come to one team. */

struct line {
	const uint32_t *node, *size; /* of a rank; ranks of a node */
};

static int compare_ranks(const void *a, const void *b, void *ctx)
{
	const struct line *l = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b, m = l->node[i], n = l->node[j];

	if (l->size[m] != l->size[n])
		return l->size[m] > l->size[n] ? -1 : 1;
	if (m != n)
		return m < n ? -1 : 1;
	return (i > j) - (i < j);
}

/* Of about as many members as asked for, and enough for the redundancy; 0: that cannot be. */
static uint32_t teams_count(const struct kedge__protection *p, uint32_t ranks, uint32_t most)
{
	uint32_t teams = KEDGE__MAX((2 * ranks + p->members) / (2 * p->members), 1);

	while (teams > 1 && ranks / teams <= p->parity)
		teams--;
	teams = KEDGE__MAX(teams, most);
	return ranks / teams > p->parity && (ranks + teams - 1) / teams <= KEDGE__TEAM_MOST ? teams : 0;
}

int kedge__teams_form(const struct kedge__protection *p, const uint32_t *node, uint32_t ranks, uint32_t *team,
		      uint32_t *teams, struct kedge__error *err)
{
	uint32_t *order = kedge__calloc(ranks + 1, sizeof(*order)), *size = kedge__calloc(ranks + 1, sizeof(*size));
	struct line l = {node, size};
	uint32_t most = 1, count;

	if (!order || !size) {
		kedge__free(order);
		kedge__free(size);
		return kedge__error_nomem(err);
	}
	for (uint32_t r = 0; r < ranks; r++) {
		order[r] = r;
		size[node[r]]++;
		most = KEDGE__MAX(most, size[node[r]]);
	}
	count = teams_count(p, ranks, most);
	qsort_r(order, ranks, sizeof(*order), compare_ranks, &l);
	for (uint32_t i = 0; i < ranks && count; i++)
		team[order[i]] = i % count;
	kedge__free(order);
	kedge__free(size);
	*teams = count;
	return 0;
}
