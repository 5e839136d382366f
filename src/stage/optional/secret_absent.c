/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/secret.h"

bool kedge__secret_built(void)
{
	return false;
}

int kedge__secret_draw(uint8_t *to, size_t bytes, struct kedge__error *err)
{
	(void)to;
	(void)bytes;
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "this build of Kedge has no staging: libsodium was not found");
}

void kedge__secret_sum(const uint8_t key[KEDGE__SECRET_BYTES], const void *data, size_t bytes,
		       uint8_t sum[KEDGE__SECRET_BYTES])
{
	(void)key;
	(void)data;
	(void)bytes;
	memset(sum, 0, KEDGE__SECRET_BYTES);
}

/* Without sums nothing is from whom it says. */
bool kedge__secret_equal(const uint8_t a[KEDGE__SECRET_BYTES], const uint8_t b[KEDGE__SECRET_BYTES])
{
	(void)a;
	(void)b;
	return false;
}

void kedge__secret_wipe(void *at, size_t bytes)
{
	memset(at, 0, bytes);
}
