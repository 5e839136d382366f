/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <ctype.h>

#define WORD_MAX 48 /* longer words are not near anything that we know */

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * Edit distance with swaps of neighbours ("optimal string alignment"): insert, delete, replace and swap cost 1 each,
 * case nothing. ROWS are those of the dynamic programme for a[0..i-2], a[0..i-1], a[0..i].
 */
static size_t edit_distance(const char *a, size_t la, const char *b, size_t lb)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2], *spare;

	for (size_t j = 0; j <= lb; j++)
		last[j] = j;
	for (size_t i = 1; i <= la; i++) {
		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = last[j - 1] + !same(a[i - 1], b[j - 1]);

			best = KEDGE__MIN(best, KEDGE__MIN(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				best = KEDGE__MIN(best, before[j - 2] + 1);
			now[j] = best;
		}
		spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[lb];
}

const char *kedge__nearest_word(const char *word, const char *const *words, size_t n)
{
	size_t length = strlen(word);
	size_t nearest = KEDGE__MAX(length / 3, (size_t)1) + 1; /* at this distance a guess is no help any more */
	const char *found = NULL;

	if (length > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t other = strlen(words[i]);
		size_t distance = other <= WORD_MAX ? edit_distance(word, length, words[i], other) : SIZE_MAX;

		if (distance < nearest && distance < KEDGE__MAX(length, other)) {
			nearest = distance;
			found = words[i];
		}
	}
	return found;
}

size_t kedge__utf8_bytes(const char *from)
{
	const unsigned char *text = (const unsigned char *)from;
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} forms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t n = 0; n < KEDGE__COUNT(forms); n++) {
		uint32_t code = text[0] & (unsigned char)~forms[n].mask;

		if ((text[0] & forms[n].mask) != forms[n].lead)
			continue;
		for (size_t i = 1; i <= n; i++) {
			if ((text[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (text[i] & 0x3f);
		}
		return code < forms[n].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n + 1;
	}
	return 0;
}
