/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of an emulated GPU. Everything is done at once. Its memory comes from malloc(), in pieces of exactly
 * the size that was asked for, so that the address sanitizer sees what goes beyond them.
 */
#include "emulated.h"

#include "gpu/gpu.h"

#include <stdlib.h>

static int emulated_alloc(struct kedge__gpu *g, uint64_t bytes, kedge__gpu_address *out, struct kedge__error *err)
{
	void *p = NULL;

	(void)g;
	if (posix_memalign(&p, 256, bytes) != 0)
		return kedge__error_nomem(err);
	memset(p, 0xA5, bytes);
	*out = (uintptr_t)p;
	return 0;
}

static void emulated_release(struct kedge__gpu *g, kedge__gpu_address address)
{
	(void)g;
	free((void *)(uintptr_t)address);
}

static int emulated_pin(struct kedge__gpu *g, size_t bytes, void **out, struct kedge__error *err)
{
	(void)g;
	*out = malloc(bytes);
	return *out ? 0 : kedge__error_nomem(err);
}

static void emulated_unpin(struct kedge__gpu *g, void *memory)
{
	(void)g;
	free(memory);
}

static int emulated_copy_in(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to, const void *from,
			    size_t bytes, struct kedge__error *err)
{
	(void)g, (void)s, (void)err;
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int emulated_copy_out(struct kedge__gpu *g, enum kedge__gpu_stream s, void *to, kedge__gpu_address from,
			     size_t bytes, struct kedge__error *err)
{
	(void)g, (void)s, (void)err;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static int emulated_copy_within(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to,
				kedge__gpu_address from, uint64_t bytes, struct kedge__error *err)
{
	return emulated_copy_out(g, s, (void *)(uintptr_t)to, from, bytes, err);
}

static int emulated_clear(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address at, uint64_t bytes,
			  struct kedge__error *err)
{
	(void)g, (void)s, (void)err;
	memset((void *)(uintptr_t)at, 0, bytes);
	return 0;
}

static int emulated_run(struct kedge__gpu *g, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
			unsigned threads, const void *args, struct kedge__error *err)
{
	(void)g, (void)s;
	if (emulated_launch(kernel, blocks, threads, args) != 0)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "there is no kernel %s", kernel);
	return 0;
}

static int emulated_event(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err)
{
	(void)g, (void)s, (void)event, (void)err;
	return 0;
}

static int emulated_wait(struct kedge__gpu *g, unsigned event, struct kedge__error *err)
{
	(void)g, (void)event, (void)err;
	return 0;
}

static int emulated_finish(struct kedge__gpu *g, struct kedge__error *err)
{
	(void)g, (void)err;
	return 0;
}

static void emulated_close(struct kedge__gpu *g)
{
	free(g);
}

static const struct kedge__gpu_ops ops = {
    .alloc = emulated_alloc,
    .release = emulated_release,
    .pin = emulated_pin,
    .unpin = emulated_unpin,
    .copy_in = emulated_copy_in,
    .copy_out = emulated_copy_out,
    .copy_within = emulated_copy_within,
    .clear = emulated_clear,
    .launch = emulated_run,
    .record = emulated_event,
    .follow = emulated_event,
    .wait = emulated_wait,
    .finish = emulated_finish,
    .close = emulated_close,
};

struct kedge__gpu *emulated_gpu_new(void)
{
	struct kedge__gpu *g = calloc(1, sizeof(*g));

	if (!g)
		abort();
	g->ops = &ops;
	g->processors = 2;
	memcpy(g->name, "emulated", sizeof("emulated"));
	return g;
}
