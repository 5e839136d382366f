/* SPDX-License-Identifier: BSD-3-Clause */
/* One Zstandard frame a block, without its checksum: the block table has one over the stored bytes. */
#include "codec/codec_table.h"

#include <pthread.h>
#include <zstd.h>
#include <zstd_errors.h>

#define IDLE_MOST  16
#define IDLE_BYTES ((size_t)4 << 20) /* of a context that is kept; those of high levels have much more */

/* Contexts that nobody uses: a new one takes longer than a small block. Nobody waits for them, a process that was
 * forked while another thread had the lock least of all. */
static struct {
	pthread_mutex_t lock;
	ZSTD_CCtx *at[IDLE_MOST];
	size_t count;
} idle = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ZSTD_CCtx *context_get(void)
{
	ZSTD_CCtx *ctx = NULL;

	if (pthread_mutex_trylock(&idle.lock) == 0) {
		if (idle.count)
			ctx = idle.at[--idle.count];
		pthread_mutex_unlock(&idle.lock);
	}
	return ctx ? ctx : ZSTD_createCCtx();
}

static void context_put(ZSTD_CCtx *ctx)
{
	if (ZSTD_sizeof_CCtx(ctx) <= IDLE_BYTES && pthread_mutex_trylock(&idle.lock) == 0) {
		if (idle.count < IDLE_MOST) {
			idle.at[idle.count++] = ctx;
			ctx = NULL;
		}
		pthread_mutex_unlock(&idle.lock);
	}
	ZSTD_freeCCtx(ctx);
}

__attribute__((destructor)) static void contexts_free(void)
{
	while (idle.count)
		ZSTD_freeCCtx(idle.at[--idle.count]);
}

static size_t zstd_bound(size_t raw)
{
	return ZSTD_compressBound(raw);
}

static int zstd_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		       size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	ZSTD_CCtx *ctx = context_get();
	size_t n;

	if (!ctx)
		return kedge__error_nomem(err);
	n = ZSTD_compressCCtx(ctx, out, room, in->raw, in->bytes, how->level);
	context_put(ctx);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return kedge__error_nomem(err);
	if (ZSTD_isError(n))
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec zstd: %zu bytes do not compress into %zu: %s",
					in->bytes, room, ZSTD_getErrorName(n));
	*used = n;
	*param = 0;
	return 0;
}

static int zstd_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		       struct kedge__error *err)
{
	size_t n;

	(void)base;
	if (param != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec zstd: invalid parameter %u", param);
	n = ZSTD_decompress(raw, raw_bytes, in, in_bytes);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return kedge__error_nomem(err);
	if (ZSTD_isError(n))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec zstd: %s", ZSTD_getErrorName(n));
	if (n != raw_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"codec zstd: %zu bytes decompress to %zu instead of %zu", in_bytes, n,
					raw_bytes);
	return 0;
}

const struct kedge__codec kedge__codec_zstd = {
    .id = KEDGE__CODEC_ZSTD,
    .name = "zstd",
    .min_level = -7,
    .max_level = 19,
    .preset_level = 3,
    .general = true,
    .bound = zstd_bound,
    .encode = zstd_encode,
    .decode = zstd_decode,
};
