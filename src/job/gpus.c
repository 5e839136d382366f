/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

void kedge__gpus_init(kedge_t *k)
{
	for (int i = 0; i < KEDGE__GPUS; i++)
		k->gpus.at[i].turn = (struct kedge__gpu_turn)KEDGE__GPU_TURN_NONE;
}

void kedge__gpus_done(kedge_t *k)
{
	for (int i = 0; i < KEDGE__GPUS; i++)
		kedge__gpu_close(k->gpus.at[i].gpu);
}

static int number_check(int device, struct kedge__error *err)
{
	if (device < 0)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0,
					"the driver does not say which GPU the memory belongs to: the GPU has failed");
	if (device >= KEDGE__GPUS)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "GPU %d: numbers go up to %d", device, KEDGE__GPUS - 1);
	return 0;
}

int kedge__gpus_need(kedge_t *k, int device, struct kedge__gpu **out, struct kedge__error *err)
{
	struct kedge__gpu *g = NULL;
	int rc = number_check(device, err);

	if (rc)
		return rc;
	if (!k->gpus.at[device].gpu) {
		rc = kedge__gpu_open(device, &g, err);
		if (!rc)
			rc = kedge__job_settings_gpu(&k->set, g, err);
		if (rc) {
			kedge__gpu_close(g);
			return rc;
		}
		g->stream = k->gpus.at[device].stream;
		k->gpus.at[device].gpu = g;
	}
	*out = k->gpus.at[device].gpu;
	return 0;
}

int kedge__gpus_wait(kedge_t *k, int device, struct kedge__error *err)
{
	struct kedge__gpu *g = NULL;
	int rc = kedge__gpus_need(k, device, &g, err);

	if (!rc)
		rc = kedge__gpu_after(g, err);
	return rc ? rc : kedge__gpu_drain(g, err);
}

int kedge__gpus_want(kedge_t *k, int device, struct kedge__error *err)
{
	struct kedge__gpu *g;
	int rc = kedge__gpus_need(k, device, &g, err);

	if (!rc)
		k->gpus.at[device].wanted = true;
	return rc;
}

/* Of those that are wanted, the one with the next uuid after AFTER; NULL: there is none. */
static struct kedge__job_gpu *next_by_uuid(kedge_t *k, const struct kedge__job_gpu *after)
{
	struct kedge__job_gpu *next = NULL;

	for (int i = 0; i < KEDGE__GPUS; i++) {
		struct kedge__job_gpu *g = &k->gpus.at[i];

		if (!g->wanted || (after && memcmp(g->gpu->uuid, after->gpu->uuid, sizeof(g->gpu->uuid)) <= 0))
			continue;
		if (!next || memcmp(g->gpu->uuid, next->gpu->uuid, sizeof(g->gpu->uuid)) < 0)
			next = g;
	}
	return next;
}

/* Two processes that need the same turns, but have other numbers for the GPUs, take them in one order. */
static void turns_take(kedge_t *k)
{
	for (struct kedge__job_gpu *g = next_by_uuid(k, NULL); g; g = next_by_uuid(k, g))
		kedge__gpu_turn_take(g->gpu, &g->turn);
}

int kedge__gpus_begin(kedge_t *k, struct kedge__error *err)
{
	int rc = 0;

	turns_take(k);
	for (int i = 0; i < KEDGE__GPUS && !rc; i++)
		if (k->gpus.at[i].wanted)
			rc = kedge__gpu_after(k->gpus.at[i].gpu, err);
	return rc;
}

int kedge__gpus_end(kedge_t *k, int rc, struct kedge__error *err)
{
	for (int i = 0; i < KEDGE__GPUS; i++) {
		if (!rc && k->gpus.at[i].wanted)
			rc = kedge__gpu_drain(k->gpus.at[i].gpu, err);
		k->gpus.at[i].wanted = false;
		kedge__gpu_turn_give(&k->gpus.at[i].turn);
	}
	return rc;
}

int kedge_gpu_stream(kedge_t *k, int device, void *stream)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && (device < 0 || device >= KEDGE__GPUS))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "GPU %d: numbers go from 0 to %d", device, KEDGE__GPUS - 1);
	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	k->gpus.at[device].stream = stream;
	if (k->gpus.at[device].gpu)
		k->gpus.at[device].gpu->stream = stream;
	pthread_mutex_unlock(&k->lock);
	return 0;
}
