/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/secret.h"

#include <sodium.h>

_Static_assert(KEDGE__SECRET_BYTES <= crypto_generichash_BYTES_MAX &&
		   KEDGE__SECRET_BYTES >= crypto_generichash_BYTES_MIN &&
		   KEDGE__SECRET_BYTES <= crypto_generichash_KEYBYTES_MAX,
	       "BLAKE2b has keys and sums of this size");

bool kedge__secret_built(void)
{
	return true;
}

int kedge__secret_draw(uint8_t *to, size_t bytes, struct kedge__error *err)
{
	if (sodium_init() < 0)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "libsodium finds no source of random numbers");
	randombytes_buf(to, bytes);
	return 0;
}

void kedge__secret_sum(const uint8_t key[KEDGE__SECRET_BYTES], const void *data, size_t bytes,
		       uint8_t sum[KEDGE__SECRET_BYTES])
{
	(void)crypto_generichash(sum, KEDGE__SECRET_BYTES, data, bytes, key, KEDGE__SECRET_BYTES);
}

bool kedge__secret_equal(const uint8_t a[KEDGE__SECRET_BYTES], const uint8_t b[KEDGE__SECRET_BYTES])
{
	return sodium_memcmp(a, b, KEDGE__SECRET_BYTES) == 0;
}

void kedge__secret_wipe(void *at, size_t bytes)
{
	sodium_memzero(at, bytes);
}
