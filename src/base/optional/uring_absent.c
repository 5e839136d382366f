/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in where liburing is absent: no kernel permits what is not built in. */
#include "base/base.h"

#include <errno.h>

static int refuse(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_IO, ENOSYS, "this build has no io_uring support");
}

bool kedge__fs_queue_built(void)
{
	return false;
}

int kedge__fs_queue_probe(void)
{
	return ENOSYS;
}

int kedge__fs_queue_new(int fd, const char *path, unsigned depth, struct kedge__fs_queue **out,
			struct kedge__error *err)
{
	(void)fd;
	(void)path;
	(void)depth;
	(void)out;
	return refuse(err);
}

int kedge__fs_queue_submit(struct kedge__fs_queue *q, unsigned slot, const void *data, size_t bytes, uint64_t at,
			   struct kedge__error *err)
{
	(void)q;
	(void)slot;
	(void)data;
	(void)bytes;
	(void)at;
	return refuse(err);
}

int kedge__fs_queue_wait(struct kedge__fs_queue *q, unsigned slot, struct kedge__error *err)
{
	(void)q;
	(void)slot;
	return refuse(err);
}

int kedge__fs_queue_drain(struct kedge__fs_queue *q, struct kedge__error *err)
{
	(void)q;
	return refuse(err);
}

void kedge__fs_queue_free(struct kedge__fs_queue *q)
{
	(void)q;
}

int kedge__fs_reads_new(unsigned depth, struct kedge__fs_reads **out, struct kedge__error *err)
{
	(void)depth;
	(void)out;
	return refuse(err);
}

void kedge__fs_reads_begin(struct kedge__fs_reads *r, unsigned slot, int fd, void *data, size_t bytes, uint64_t at)
{
	(void)r;
	(void)slot;
	(void)fd;
	(void)data;
	(void)bytes;
	(void)at;
}

void kedge__fs_reads_submit(struct kedge__fs_reads *r)
{
	(void)r;
}

size_t kedge__fs_reads_wait(struct kedge__fs_reads *r, unsigned slot)
{
	(void)r;
	(void)slot;
	return 0;
}

void kedge__fs_reads_free(struct kedge__fs_reads *r)
{
	(void)r;
}
