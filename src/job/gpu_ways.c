/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#define MOST_BYTES  (UINT64_C(32) << 20) /* more is no faster */
#define LEAST_BYTES (UINT64_C(1) << 20)

/* Little data need no large buffers. */
static uint64_t buffer_bytes(const kedge_t *k, uint64_t bytes)
{
	uint64_t most = k->gpu_ways.most ? k->gpu_ways.most : MOST_BYTES, size = KEDGE__MIN(LEAST_BYTES, most);

	while (size < bytes && size < most)
		size *= 2;
	return KEDGE__MIN(size, most);
}

int kedge__gpu_ways_need(kedge_t *k, int device, uint64_t bytes, struct kedge__restore_device **out,
			 struct kedge__error *err)
{
	uint64_t size = buffer_bytes(k, bytes);
	struct kedge__restore_device **way;
	struct kedge__gpu *g = NULL;
	int rc = kedge__gpus_need(k, device, &g, err);

	if (rc)
		return rc;
	way = &k->gpu_ways.devices[device].way;
	if (*way && k->gpu_ways.devices[device].bytes < size) {
		kedge__restore_device_free(*way);
		*way = NULL;
	}
	if (!*way) {
		rc = kedge__restore_device_new(g, size, way, err);
		k->gpu_ways.devices[device].bytes = size;
	}
	if (!rc)
		*out = *way;
	return rc;
}

void kedge__gpu_ways_done(kedge_t *k)
{
	for (int i = 0; i < KEDGE__GPUS; i++)
		kedge__restore_device_free(k->gpu_ways.devices[i].way);
}
