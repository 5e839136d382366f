/* SPDX-License-Identifier: BSD-3-Clause */
/* rex: when a full L2 checkpoint pays, and how many L1 checkpoints go into one L2 checkpoint: what a running job asks.
 */
#include "base/exact.h"
#include "plan/plan.h"
#include <math.h>

uint64_t kedge__rex_coalesce(double full, double delta_cost, double delta_restore, double interval, double mtbf)
{
	double gain = -expm1(-interval / mtbf) * delta_restore; /* what a delta less saves at the next failure */
	double n;

	if (full <= delta_cost)
		return 0;
	if (!(gain > 0))
		return UINT64_MAX;
	n = ceil((full - delta_cost) / gain - 1);
	if (n >= 0x1p63)
		return UINT64_MAX;
	return n > 0 ? (uint64_t)n : 0;
}

const double kedge__rex_table_ic[KEDGE__REX_ROWS] = {1.0 / 16, 1.0 / 12, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1};
const double kedge__rex_table_cr[KEDGE__REX_COLUMNS] = {1, 2, 4, 8, 12, 16};
const int kedge__rex_table[KEDGE__REX_ROWS][KEDGE__REX_COLUMNS] = {
    {9, 7, 7, 7, 6, 5}, {8, 6, 6, 5, 5, 5}, {8, 7, 6, 5, 5, 5},
    {8, 7, 6, 5, 5, 5}, {7, 7, 6, 5, 5, 5}, {5, 4, 4, 4, 4, 4},
};

/* Cell of AXIS that holds X, and how far into it on a logarithmic scale; beyond the ends the table is constant. */
static size_t locate(const double *axis, size_t n, double x, double *part)
{
	size_t i = 0;

	x = KEDGE__MAX(axis[0], KEDGE__MIN(axis[n - 1], x));
	while (i + 2 < n && x > axis[i + 1])
		i++;
	*part = log(x / axis[i]) / log(axis[i + 1] / axis[i]);
	return i;
}

int kedge__rex_table_lookup(double ic, double ratio)
{
	double u, v, top, bottom, chi;
	size_t r = locate(kedge__rex_table_ic, KEDGE__REX_ROWS, ic, &u);
	size_t c = locate(kedge__rex_table_cr, KEDGE__REX_COLUMNS, ratio, &v);

	top = (1 - v) * kedge__rex_table[r][c] + v * kedge__rex_table[r][c + 1];
	bottom = (1 - v) * kedge__rex_table[r + 1][c] + v * kedge__rex_table[r + 1][c + 1];
	chi = floor((1 - u) * top + u * bottom + 0.5);
	return (int)KEDGE__MAX(4, KEDGE__MIN(9, chi));
}
