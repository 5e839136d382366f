/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random: xoshiro256++ seeded by splitmix64 (Blackman, Vigna), and variates made of it by IEEE arithmetic alone, so
 * that every machine draws the same numbers. A libm's log() may differ in the last bit between releases and processors.
 */
#include "base/exact.h"
#include "simulate/simulate.h"
#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void kedge__random_init(struct kedge__random *r, uint64_t seed, uint64_t stream)
{
	uint64_t state = seed;

	state = splitmix(&state) ^ (stream * UINT64_C(0xd1342543de82ef95) + UINT64_C(0x2545f4914f6cdd1d));
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&state);
	r->spare = 0;
	r->has_spare = false;
}

static uint64_t rotate(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static uint64_t next(struct kedge__random *r)
{
	uint64_t *s = r->s, out = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return out;
}

double kedge__random_uniform(struct kedge__random *r)
{
	return (double)((next(r) >> 11) + 1) * 0x1p-53;
}

/* ln 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33

/* x = m 2^e with m in [sqrt 1/2, sqrt 2); log m = 2 atanh((m - 1) / (m + 1)), whose series converges by 0.03 a term. */
double kedge__portable_log(double x)
{
	static const double term[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
				      1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
	uint64_t bits;
	int64_t e;
	double m, s, z, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	e = (int64_t)(bits >> 52) - 1023;
	bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(0x3ff0000000000000);
	memcpy(&m, &bits, sizeof(m));
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	s = (m - 1) / (m + 1);
	z = s * s;
	for (int i = (int)KEDGE__COUNT(term) - 1; i >= 0; i--)
		sum = (sum + term[i]) * z;
	return (double)e * LN2_HIGH + (2 * s * sum + (double)e * LN2_LOW + 2 * s);
}

/* exp(x) = 2^k exp(y) with |y| <= ln(2)/2, by the Taylor series of exp(y). */
double kedge__portable_exp(double x)
{
	double k, y, sum = 1;
	uint64_t bits;
	double scale;

	if (x > 700)
		return INFINITY;
	if (x < -700)
		return 0;
	k = (double)(int64_t)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
	y = (x - k * LN2_HIGH) - k * LN2_LOW;
	for (int i = 17; i > 0; i--)
		sum = 1 + sum * y / i;
	bits = (uint64_t)(1023 + (int64_t)k) << 52;
	memcpy(&scale, &bits, sizeof(scale));
	return sum * scale;
}

/* Stirling's series at x + 12, brought down by the recurrence; 1e-13 relative is ample for a mean. */
double kedge__portable_gamma(double x)
{
	double down = 1, y = x, inverse;

	for (int i = 0; i < 12; i++) {
		down *= y;
		y += 1;
	}
	inverse = 1 / (y * y);
	return kedge__portable_exp((y - 0.5) * kedge__portable_log(y) - y + 0.91893853320467274178 +
				   (1.0 / 12 - inverse * (1.0 / 360 - inverse * (1.0 / 1260 - inverse / 1680))) / y) /
	       down;
}

double kedge__random_exponential(struct kedge__random *r)
{
	return -kedge__portable_log(kedge__random_uniform(r));
}

double kedge__random_weibull(struct kedge__random *r, double shape)
{
	double x = kedge__random_exponential(r);

	return x > 0 ? kedge__portable_exp(kedge__portable_log(x) / shape) : 0;
}

/* Marsaglia's polar method. */
double kedge__random_normal(struct kedge__random *r)
{
	double u, v, q, scale;

	if (r->has_spare) {
		r->has_spare = false;
		return r->spare;
	}
	do {
		u = 2 * kedge__random_uniform(r) - 1;
		v = 2 * kedge__random_uniform(r) - 1;
		q = u * u + v * v;
	} while (q >= 1 || q == 0);
	scale = sqrt(-2 * kedge__portable_log(q) / q);
	r->spare = v * scale;
	r->has_spare = true;
	return u * scale;
}

/* Gamma distributed, with shape A >= 1: Marsaglia and Tsang. */
static double draw_gamma(struct kedge__random *r, double a)
{
	double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);

	for (;;) {
		double x = kedge__random_normal(r), v = 1 + c * x;

		if (v <= 0)
			continue;
		v = v * v * v;
		if (kedge__portable_log(kedge__random_uniform(r)) <
		    0.5 * x * x + d - d * v + d * kedge__portable_log(v))
			return d * v;
	}
}

/* A point in time lies in a lifetime with a chance that goes with its length, and anywhere in it. */
double kedge__random_weibull_residual(struct kedge__random *r, double shape)
{
	double life = kedge__portable_exp(kedge__portable_log(draw_gamma(r, 1 + 1 / shape)) / shape);

	return life * kedge__random_uniform(r);
}
