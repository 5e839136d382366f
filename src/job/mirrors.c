/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

static void memory_release(kedge_t *k)
{
	if (k->mirrors.pinner)
		kedge__gpu_unpin(k->mirrors.pinner, k->mirrors.memory);
	else if (k->mirrors.memory)
		kedge__map_free(k->mirrors.memory, k->mirrors.bytes);
	kedge__pieces_close(&k->mirrors.pieces);
	k->mirrors.memory = NULL;
	k->mirrors.pinner = NULL;
	k->mirrors.bytes = 0;
}

/* Memory that is not pinned, because of WHY. */
static int ordinary_need(kedge_t *k, struct kedge__gpu *g, uint64_t bytes, const struct kedge__error *why,
			 struct kedge__error *err)
{
	void *memory = kedge__map_alloc(bytes);

	if (!memory)
		return kedge__error_nomem(err);
	k->mirrors.memory = memory;
	k->mirrors.bytes = bytes;
	kedge__pieces_open(&k->mirrors.pieces, g);
	if (!k->mirrors.told)
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: regions on GPUs are copied through %llu bytes of pinned memory, which is slower: all "
			   "%llu bytes cannot be pinned: %s",
			   k->name, (unsigned long long)k->mirrors.pieces.bytes * 2, (unsigned long long)bytes,
			   kedge__error_text(why));
	k->mirrors.told = true;
	return 0;
}

static int memory_need(kedge_t *k, int device, uint64_t bytes, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__gpu *g = NULL;
	void *memory = NULL;
	int rc;

	if (bytes <= k->mirrors.bytes)
		return 0;
	memory_release(k);
	rc = kedge__gpus_need(k, device, &g, err);
	if (rc)
		return rc;
	rc = kedge__gpu_pin(g, bytes, &memory, &why);
	if (rc) {
		rc = ordinary_need(k, g, bytes, &why, err);
	} else {
		k->mirrors.memory = memory;
		k->mirrors.pinner = g;
		k->mirrors.bytes = bytes;
	}
	kedge__error_done(&why);
	return rc;
}

static bool has_mirror(const struct kedge__region *r)
{
	return r->memory.kind == KEDGE__MEMORY_DEVICE && r->bytes && !r->file;
}
/* Managed memory is read and written by processors: not while a GPU may still write to it. */
static int managed_wait(kedge_t *k, struct kedge__error *err)
{
	bool waited[KEDGE__GPUS] = {false};
	size_t n = kedge__region_table_count(k->regions.table);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);
		int device = r->memory.device;

		if (r->file || r->memory.kind != KEDGE__MEMORY_MANAGED || device < 0 || device >= KEDGE__GPUS)
			continue;
		if (!waited[device])
			rc = kedge__gpus_wait(k, device, err);
		waited[device] = true;
	}
	return rc;
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
			total += kedge__mirror_room(r);
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
			total += kedge__mirror_room(r);
		}
	}
	return 0;
}

static int copy_out(kedge_t *k, struct kedge__gpu *g, void *to, kedge__gpu_address from, uint64_t bytes,
		    struct kedge__error *err)
{
	if (k->mirrors.pinner)
		return kedge__gpu_copy_out(g, KEDGE__GPU_OUT, to, from, bytes, err);
	return kedge__pieces_out(&k->mirrors.pieces, k->pool, g, to, from, bytes, err);
}

/* One region, to its mirror. */
static int transfer(kedge_t *k, const struct kedge__region *r, struct kedge__error *err)
{
	struct kedge__gpu *g = NULL;
	int rc = kedge__gpus_need(k, r->memory.device, &g, err);

	if (!rc)
		rc = copy_out(k, g, r->mirror, (uintptr_t)r->data, r->bytes, err);
	return rc ? kedge__error_prefix(err, "region \"%s\"", r->name) : 0;
}

static int transfer_all(kedge_t *k, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (r->mirror)
			rc = kedge__gpus_want(k, r->memory.device, err);
	}
	if (!rc)
		rc = kedge__gpus_begin(k, err);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (r->mirror)
			rc = transfer(k, r, err);
	}
	return kedge__gpus_end(k, rc, err);
}

static int fetch(kedge_t *k, struct kedge__error *err)
{
	int rc = managed_wait(k, err);

	if (!rc)
		rc = mirrors_lay(k, err);
	return rc ? rc : transfer_all(k, err);
}

/* This is what is done where memory is short; if it is too short even for that, only patience is left. */
int kedge__mirrors_fetch(kedge_t *k, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	int rc = fetch(k, &why);

	if (rc == KEDGE_E_NOMEM) {
		kedge__log(KEDGE_LOG_NOTICE, "%s: regions on the GPU are copied once more, because memory is short: %s",
			   k->name, kedge__error_text(&why));
		kedge__error_done(&why);
		return fetch(k, err);
	}
	if (rc)
		kedge__error_move(err, &why);
	kedge__error_done(&why);
	return rc;
}

void kedge__mirrors_done(kedge_t *k)
{
	memory_release(k);
}
