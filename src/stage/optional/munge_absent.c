/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/secret.h"

static int absent(struct kedge__error *err)
{
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "this build of Kedge cannot use MUNGE (libmunge was not found): use a key file, key:FILE");
}

bool kedge__munge_built(void)
{
	return false;
}

int kedge__munge_seal(const char *socket, uid_t whom, const uint8_t secret[KEDGE__SECRET_BYTES], uint8_t *credential,
		      size_t room, size_t *bytes, struct kedge__error *err)
{
	(void)socket;
	(void)whom;
	(void)secret;
	(void)credential;
	(void)room;
	(void)bytes;
	return absent(err);
}

int kedge__munge_open(const char *socket, const uint8_t *credential, size_t bytes, uid_t *who,
		      uint8_t secret[KEDGE__SECRET_BYTES], struct kedge__error *err)
{
	(void)socket;
	(void)credential;
	(void)bytes;
	(void)who;
	(void)secret;
	return absent(err);
}
