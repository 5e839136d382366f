/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of GF(2^8) that decides what a shield contains (FORMAT.md, "The shield"): with one unit of redundancy
 * it is the exclusive or of the data; with several, number j is the sum over d of data unit d divided by (k + j) xor d
 * (a Cauchy matrix: any k of the k + m units determine the others).
 */
#include "protect/protect.h"

static uint8_t multiply(uint8_t a, uint8_t b)
{
	unsigned product = 0, x = a;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= x;
		x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
	}
	return (uint8_t)product;
}

/* a^254; that of 0 is 0. */
static uint8_t inverse(uint8_t a)
{
	uint8_t result = 1;

	for (int i = 0; i < 7; i++) {
		a = multiply(a, a);
		result = multiply(result, a);
	}
	return result;
}

void kedge__code_rows(uint32_t k, uint32_t m, uint8_t *rows)
{
	for (uint32_t j = 0; j < m; j++)
		for (uint32_t d = 0; d < k; d++)
			rows[j * k + d] = m == 1 ? 1 : inverse((uint8_t)((k + j) ^ d));
}

/* Row R of the matrix that makes all units of the data. */
static void full_row(uint32_t k, uint32_t r, const uint8_t *parity, uint8_t *out)
{
	if (r >= k) {
		memcpy(out, parity + (r - k) * k, k);
		return;
	}
	memset(out, 0, k);
	out[r] = 1;
}

static void row_scale(uint8_t *row, uint32_t n, uint8_t by)
{
	for (uint32_t i = 0; i < n; i++)
		row[i] = multiply(row[i], by);
}

static void row_subtract(uint8_t *row, const uint8_t *other, uint32_t n, uint8_t by)
{
	for (uint32_t i = 0; i < n; i++)
		row[i] ^= multiply(other[i], by);
}

static void rows_swap(uint8_t *a, uint8_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint8_t was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

#define SIDE KEDGE__TEAM_MOST

/* Gauss and Jordan, on A with the identity beside it; A has an inverse. */
static void invert(uint8_t a[SIDE][2 * SIDE], uint32_t k)
{
	for (uint32_t c = 0; c < k; c++) {
		uint32_t pivot = c;

		while (pivot < k - 1 && !a[pivot][c])
			pivot++;
		if (pivot != c)
			rows_swap(a[pivot], a[c], 2 * k);
		row_scale(a[c], 2 * k, inverse(a[c][c]));
		for (uint32_t r = 0; r < k; r++)
			if (r != c && a[r][c])
				row_subtract(a[r], a[c], 2 * k, a[r][c]);
	}
}

uint32_t kedge__code_repair(uint32_t k, uint32_t m, const bool *have, uint32_t *use, uint8_t *rows)
{
	uint8_t parity[SIDE * SIDE], a[SIDE][2 * SIDE] = {{0}};
	uint32_t used = 0, count = 0;

	kedge__code_rows(k, m, parity);
	for (uint32_t u = 0; u < k + m && used < k; u++) {
		if (!have[u])
			continue;
		full_row(k, u, parity, a[used]);
		a[used][k + used] = 1;
		use[used++] = u;
	}
	invert(a, k);
	for (uint32_t d = 0; d < k; d++)
		if (!have[d])
			memcpy(rows + (count++) * k, a[d] + k, k);
	return count;
}
