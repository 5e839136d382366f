/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/pieces.h"

#define MOST  ((size_t)32 << 20) /* of a piece */
#define LEAST ((size_t)64 << 10)
#define SHARE ((size_t)1 << 20) /* that one thread copies at a time */

void kedge__pieces_open(struct kedge__pieces *s, struct kedge__gpu *pinner)
{
	void *memory = NULL;

	*s = (struct kedge__pieces){NULL, NULL, 0};
	for (size_t bytes = MOST; bytes >= LEAST; bytes /= 2) {
		if (kedge__gpu_pin(pinner, 2 * bytes, &memory, NULL) != 0)
			continue;
		*s = (struct kedge__pieces){pinner, memory, bytes};
		return;
	}
}

void kedge__pieces_close(struct kedge__pieces *s)
{
	if (s->pinner)
		kedge__gpu_unpin(s->pinner, s->pieces);
	*s = (struct kedge__pieces){NULL, NULL, 0};
}

struct share {
	char *to;
	const char *from;
	size_t bytes;
};

static int share_copy(void *ctx, size_t i, int worker)
{
	const struct share *s = ctx;
	size_t at = i * SHARE;

	(void)worker;
	memcpy(s->to + at, s->from + at, KEDGE__MIN(SHARE, s->bytes - at));
	return 0;
}

static void copy(struct kedge__pool *pool, void *to, const void *from, size_t bytes)
{
	struct share s = {to, from, bytes};

	(void)kedge__pool_for(pool, (bytes + SHARE - 1) / SHARE, share_copy, &s);
}

static char *piece(const struct kedge__pieces *s, uint64_t i)
{
	return (char *)s->pieces + i % 2 * s->bytes;
}

static size_t piece_bytes(const struct kedge__pieces *s, uint64_t i, uint64_t bytes)
{
	return KEDGE__MIN(s->bytes, bytes - i * s->bytes);
}

int kedge__pieces_out(struct kedge__pieces *s, struct kedge__pool *pool, struct kedge__gpu *g, void *to,
		      kedge__gpu_address from, uint64_t bytes, struct kedge__error *err)
{
	uint64_t n = s->pinner ? (bytes + s->bytes - 1) / s->bytes : 0;
	int rc = 0;

	if (!s->pinner)
		return kedge__gpu_copy_out(g, KEDGE__GPU_OUT, to, from, bytes, err);
	for (uint64_t i = 0; i <= n && !rc; i++) { /* piece I is on its way while the one before it is emptied */
		if (i < n)
			rc = kedge__gpu_copy_out(g, KEDGE__GPU_OUT, piece(s, i), from + i * s->bytes,
						 piece_bytes(s, i, bytes), err);
		if (!rc && i < n)
			rc = kedge__gpu_record(g, KEDGE__GPU_OUT, i % 2, err);
		if (!rc && i)
			rc = kedge__gpu_wait(g, (i - 1) % 2, err);
		if (!rc && i)
			copy(pool, (char *)to + (i - 1) * s->bytes, piece(s, i - 1), piece_bytes(s, i - 1, bytes));
	}
	return rc;
}
