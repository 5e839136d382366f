/* SPDX-License-Identifier: BSD-3-Clause */
/* What all GPUs have in common, real ones and those of tests: the limit on memory, and nothing to do for no bytes. */
#include "gpu/gpu.h"

void kedge__gpu_close(struct kedge__gpu *g)
{
	if (g)
		g->ops->close(g);
}

int kedge__gpu_alloc(struct kedge__gpu *g, uint64_t bytes, kedge__gpu_address *out, struct kedge__error *err)
{
	int rc;

	if (g->limit && bytes > g->limit - KEDGE__MIN(g->taken, g->limit))
		return kedge__error_set(
		    err, KEDGE_E_NOMEM, 0,
		    "%llu bytes of the GPU's memory are needed, and Kedge may take %llu, of which %llu are "
		    "in use (gpu_memory)",
		    (unsigned long long)bytes, (unsigned long long)g->limit, (unsigned long long)g->taken);
	rc = g->ops->alloc(g, KEDGE__MAX(bytes, 1), out, err);
	if (!rc)
		g->taken += bytes;
	return rc;
}

void kedge__gpu_release(struct kedge__gpu *g, kedge__gpu_address address, uint64_t bytes)
{
	if (!address)
		return;
	g->ops->release(g, address);
	g->taken -= bytes;
}

int kedge__gpu_pin(struct kedge__gpu *g, size_t bytes, void **out, struct kedge__error *err)
{
	return g->ops->pin(g, KEDGE__MAX(bytes, 1), out, err);
}

void kedge__gpu_unpin(struct kedge__gpu *g, void *memory)
{
	if (memory)
		g->ops->unpin(g, memory);
}

int kedge__gpu_copy_in(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to, const void *from,
		       size_t bytes, struct kedge__error *err)
{
	return bytes ? g->ops->copy_in(g, s, to, from, bytes, err) : 0;
}

int kedge__gpu_copy_out(struct kedge__gpu *g, enum kedge__gpu_stream s, void *to, kedge__gpu_address from, size_t bytes,
			struct kedge__error *err)
{
	return bytes ? g->ops->copy_out(g, s, to, from, bytes, err) : 0;
}

int kedge__gpu_copy_within(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to,
			   kedge__gpu_address from, uint64_t bytes, struct kedge__error *err)
{
	return bytes ? g->ops->copy_within(g, s, to, from, bytes, err) : 0;
}

int kedge__gpu_clear(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address at, uint64_t bytes,
		     struct kedge__error *err)
{
	return bytes ? g->ops->clear(g, s, at, bytes, err) : 0;
}

int kedge__gpu_launch(struct kedge__gpu *g, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
		      unsigned threads, const void *args, struct kedge__error *err)
{
	return blocks ? g->ops->launch(g, s, kernel, blocks, threads, args, err) : 0;
}

int kedge__gpu_record(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err)
{
	return g->ops->record(g, s, event, err);
}

int kedge__gpu_follow(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err)
{
	return g->ops->follow(g, s, event, err);
}

int kedge__gpu_wait(struct kedge__gpu *g, unsigned event, struct kedge__error *err)
{
	return g->ops->wait(g, event, err);
}

int kedge__gpu_sync(struct kedge__gpu *g, enum kedge__gpu_stream s, struct kedge__error *err)
{
	int rc = kedge__gpu_record(g, s, KEDGE__GPU_EVENTS - 1, err);

	return rc ? rc : kedge__gpu_wait(g, KEDGE__GPU_EVENTS - 1, err);
}

int kedge__gpu_finish(struct kedge__gpu *g, struct kedge__error *err)
{
	return g->ops->finish(g, err);
}
