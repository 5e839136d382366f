/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/matches.h"

#define GROUP KEDGE__MATCH_GROUP
#define FIRST 12 /* bytes that are compared of each place; beyond them, of matches that were chosen */

static uint32_t hash(const uint8_t *p)
{
	uint32_t h = kedge__get32(p) * UINT32_C(2654435761) ^ kedge__get16(p + 3) * UINT32_C(0x85EBCA77);

	return h >> (32 - KEDGE__MATCH_BITS);
}

/* Bytes that are equal at A and B, of LIMIT. */
static size_t equal(const uint8_t *a, const uint8_t *b, size_t limit)
{
	size_t n = 0;

	for (; n + 8 <= limit; n += 8) {
		uint64_t x = kedge__get64(a + n) ^ kedge__get64(b + n);

		if (x)
			return n + (size_t)__builtin_ctzll(x) / 8;
	}
	while (n < limit && a[n] == b[n])
		n++;
	return n;
}

void kedge__matcher_init(struct kedge__matcher *m, const uint8_t *raw, size_t bytes, size_t at, size_t keep)
{
	size_t end = KEDGE__MIN(at + KEDGE__MATCH_PART, bytes);

	memset(m->table, 0, sizeof(m->table));
	m->raw = raw;
	m->start = at > KEDGE__MATCH_BEFORE ? at - KEDGE__MATCH_BEFORE : 0;
	m->at = at;
	m->over = bytes < at + KEDGE__MATCH_TAIL;
	if (m->over)
		return;
	m->last = KEDGE__MIN(end - KEDGE__MATCH_LEAST, bytes - KEDGE__MATCH_TAIL);
	m->limit = KEDGE__MIN(end, bytes - keep);
	for (size_t i = m->start; i < at; i++)
		m->table[hash(raw + i)] = (uint16_t)(i - m->start);
}

/* Of each place of the group: the length of its match, as far as FIRST bytes show it, and where it begins. */
static size_t group_find(struct kedge__matcher *m, size_t length[GROUP], size_t from[GROUP])
{
	size_t n = KEDGE__MIN(m->last - m->at + 1, (size_t)GROUP);

	for (size_t i = 0; i < n; i++) {
		size_t at = m->at + i;
		uint16_t *entry = &m->table[hash(m->raw + at)];

		length[i] = 0;
		from[i] = m->start + *entry;
		*entry = (uint16_t)(at - m->start);
		if (from[i] < at)
			length[i] = equal(m->raw + from[i], m->raw + at, KEDGE__MIN(m->limit - at, (size_t)FIRST));
		if (length[i] < KEDGE__MATCH_LEAST)
			length[i] = 0;
	}
	return n;
}

/* The match of FIRST bytes or fewer, at AT, as long as it is; bytes before it are free from FLOOR on. */
static struct kedge__match whole(const struct kedge__matcher *m, size_t at, size_t from, size_t length, size_t floor)
{
	size_t back = 0, most = KEDGE__MIN(KEDGE__MIN(at - floor, from), (size_t)KEDGE__MATCH_BACK);

	if (length == FIRST)
		length += equal(m->raw + from + FIRST, m->raw + at + FIRST, m->limit - at - FIRST);
	while (back < most && m->raw[at - back - 1] == m->raw[from - back - 1])
		back++;
	return (struct kedge__match){at - back, length + back, at - from};
}

bool kedge__matcher_next(struct kedge__matcher *m, struct kedge__match out[GROUP / KEDGE__MATCH_LEAST], size_t *count)
{
	size_t length[GROUP], from[GROUP], n, end = m->at;

	*count = 0;
	if (m->over || m->at > m->last)
		return false;
	n = group_find(m, length, from);
	for (size_t i = 0; i < n;) {
		if (!length[i]) {
			i++;
			continue;
		}
		if (i + 1 < n && length[i + 1] > length[i])
			i++;
		out[*count] = whole(m, m->at + i, from[i], length[i], end);
		end = out[*count].at + out[*count].length;
		(*count)++;
		i = end - m->at;
	}
	m->at = KEDGE__MAX(end, m->at + GROUP);
	return true;
}
