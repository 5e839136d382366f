/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

int kedge__mirrors_gpu(kedge_t *k, int device, struct kedge__gpu **out, struct kedge__error *err)
{
	struct kedge__gpu **g = &k->mirrors.gpus[device < 0 || device >= KEDGE__GPUS ? 0 : device];
	int rc = 0;

	if (device < 0 || device >= KEDGE__GPUS)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "GPU %d: numbers go up to %d", device, KEDGE__GPUS - 1);
	if (!*g)
		rc = kedge__gpu_open(device, g, err);
	*out = *g;
	return rc;
}

static void memory_release(kedge_t *k)
{
	if (k->mirrors.pinner)
		kedge__gpu_unpin(k->mirrors.pinner, k->mirrors.memory);
	k->mirrors.memory = NULL;
	k->mirrors.pinner = NULL;
	k->mirrors.bytes = 0;
}

static int memory_need(kedge_t *k, int device, uint64_t bytes, struct kedge__error *err)
{
	struct kedge__gpu *g = NULL;
	void *memory = NULL;
	int rc;

	if (bytes <= k->mirrors.bytes)
		return 0;
	memory_release(k);
	rc = kedge__mirrors_gpu(k, device, &g, err);
	if (!rc)
		rc = kedge__gpu_pin(g, bytes, &memory, err);
	if (rc)
		return rc;
	k->mirrors.memory = memory;
	k->mirrors.pinner = g;
	k->mirrors.bytes = bytes;
	return 0;
}

static bool has_mirror(const struct kedge__region *r)
{
	return r->memory.kind == KEDGE__MEMORY_DEVICE && r->bytes && !r->file;
}

/* Mirrors begin at multiples of this. */
static uint64_t room_of(const struct kedge__region *r)
{
	return (r->bytes + 255) / 256 * 256;
}

static int mirrors_lay(kedge_t *k, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	uint64_t total = 0;
	int device = -1, rc;

	for (size_t i = 0; i < n; i++) {
		struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		r->mirror = NULL;
		if (has_mirror(r)) {
			total += room_of(r);
			device = r->memory.device;
		}
	}
	if (!total)
		return 0;
	rc = memory_need(k, device, total, err);
	if (rc)
		return kedge__error_prefix(err, "%llu bytes of the host's memory for regions on a GPU",
					   (unsigned long long)total);
	total = 0;
	for (size_t i = 0; i < n; i++) {
		struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (has_mirror(r)) {
			r->mirror = (char *)k->mirrors.memory + total;
			total += room_of(r);
		}
	}
	return 0;
}

static int finish_all(kedge_t *k, struct kedge__error *err)
{
	int rc = 0;

	for (int i = 0; i < KEDGE__GPUS && !rc; i++)
		if (k->mirrors.gpus[i])
			rc = kedge__gpu_finish(k->mirrors.gpus[i], err);
	return rc;
}

/* One region, to its mirror. */
static int transfer(kedge_t *k, const struct kedge__region *r, struct kedge__error *err)
{
	struct kedge__gpu *g = NULL;
	int rc = kedge__mirrors_gpu(k, r->memory.device, &g, err);

	if (!rc)
		rc = kedge__gpu_copy_out(g, KEDGE__GPU_OUT, r->mirror, (uintptr_t)r->data, r->bytes, err);
	return rc ? kedge__error_prefix(err, "region \"%s\"", r->name) : 0;
}

static int transfer_all(kedge_t *k, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	struct kedge__gpu *g;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (r->mirror)
			rc = kedge__mirrors_gpu(k, r->memory.device, &g, err);
	}
	if (!rc)
		rc = finish_all(k, err); /* the application's work comes first */
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (r->mirror)
			rc = transfer(k, r, err);
	}
	return rc ? rc : finish_all(k, err);
}

int kedge__mirrors_fetch(kedge_t *k, struct kedge__error *err)
{
	int rc = mirrors_lay(k, err);

	return rc ? rc : transfer_all(k, err);
}

void kedge__mirrors_done(kedge_t *k)
{
	memory_release(k);
	for (int i = 0; i < KEDGE__GPUS; i++)
		kedge__gpu_close(k->mirrors.gpus[i]);
}
