/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool model_has(const struct model *m, int tip, int node)
{
	while (tip != MODEL_NONE && tip != node)
		tip = m->nodes[tip].parent;
	return tip != MODEL_NONE;
}

int model_below(const struct model *m, int tip, uint64_t version)
{
	while (tip != MODEL_NONE && m->nodes[tip].version >= version)
		tip = m->nodes[tip].parent;
	return tip;
}

bool model_reaches(const struct model *m, int level)
{
	return level == 0 || !m->second_away;
}

bool model_later(const struct model *m, int a, int b)
{
	const struct node *x = &m->nodes[a], *y = &m->nodes[b];

	if (x->epoch != y->epoch)
		return x->epoch > y->epoch;
	return x->run != y->run ? x->run > y->run : a > b;
}

void model_published(struct model *m, int node)
{
	for (int i = 0; i < m->count; i++) {
		for (int level = 0; level < 2; level++) {
			if (model_reaches(m, level) && !model_has(m, node, i))
				m->nodes[i].sure[level] = false;
		}
	}
}

void model_keep(struct model *m, int level, int tip, uint64_t keep)
{
	for (; tip != MODEL_NONE && keep; tip = m->nodes[tip].parent) {
		uint64_t *trim = &m->nodes[tip].trim[level];

		*trim = *trim && *trim < keep ? *trim : keep;
	}
}

int model_guess(const struct model *m, uint64_t version, int base)
{
	int best = MODEL_NONE;
	bool sure = false;

	for (int i = 0; i < m->count; i++) {
		const struct node *n = &m->nodes[i];
		bool this = n->sure[0] || n->sure[1];

		if (n->version != version || n->gone || (sure && !this))
			continue;
		if (base != MODEL_NONE && !model_has(m, i, base))
			continue;
		best = i;
		sure = this;
	}
	return best;
}

void model_unsure(struct model *m, int level)
{
	for (int i = 0; i < m->count; i++)
		m->nodes[i].sure[level] = false;
}

/* ".../set-00000000000000000007" and ".../v00000000000000000007/r0000000-....seg" */
static uint64_t version_of(const char *path)
{
	const char *at = strstr(path, "/job/set-");

	if (at)
		return strtoull(at + 9, NULL, 10);
	at = strstr(path, "/job/v0");
	return at ? strtoull(at + 6, NULL, 10) : NO_VERSION;
}

void model_mark(struct model *m, int level, const char *path)
{
	struct mark *mark = &m->marks[m->mark_count < MODEL_MARKS ? m->mark_count++ : MODEL_MARKS - 1];

	snprintf(mark->path, sizeof(mark->path), "%s", path);
	mark->version = version_of(path);
	mark->level = level;
}

bool model_marked(const struct model *m, int level)
{
	for (int i = 0; i < m->mark_count; i++) {
		if (m->marks[i].level == level && access(m->marks[i].path, F_OK) == 0)
			return true;
	}
	return false;
}
