/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/secret.h"

#include <munge.h>
#include <stdlib.h>

static int context_make(const char *socket, munge_ctx_t *out, struct kedge__error *err)
{
	munge_ctx_t ctx = munge_ctx_create();

	if (!ctx)
		return kedge__error_nomem(err);
	if (socket && munge_ctx_set(ctx, MUNGE_OPT_SOCKET, socket) != EMUNGE_SUCCESS) {
		munge_ctx_destroy(ctx);
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "MUNGE does not accept the socket %s", socket);
	}
	*out = ctx;
	return 0;
}

static int failed(munge_ctx_t ctx, munge_err_t code, const char *what, struct kedge__error *err)
{
	const char *why = munge_ctx_strerror(ctx);

	return kedge__error_set(err, KEDGE_E_ACCESS, 0, "MUNGE cannot %s: %s", what, why ? why : munge_strerror(code));
}

bool kedge__munge_built(void)
{
	return true;
}

int kedge__munge_seal(const char *socket, uid_t whom, const uint8_t secret[KEDGE__SECRET_BYTES], uint8_t *credential,
		      size_t room, size_t *bytes, struct kedge__error *err)
{
	munge_ctx_t ctx;
	char *text = NULL;
	munge_err_t code;
	int rc = context_make(socket, &ctx, err);

	if (rc)
		return rc;
	code = munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, whom);
	if (code == EMUNGE_SUCCESS)
		code = munge_encode(&text, ctx, secret, KEDGE__SECRET_BYTES);
	if (code != EMUNGE_SUCCESS)
		rc = failed(ctx, code, "say who this client is", err);
	else if (strlen(text) + 1 > room)
		rc = kedge__error_set(err, KEDGE_E_LIMIT, 0, "a credential of MUNGE has %zu bytes", strlen(text));
	if (!rc) {
		*bytes = strlen(text) + 1;
		memcpy(credential, text, *bytes);
	}
	free(text);
	munge_ctx_destroy(ctx);
	return rc;
}

int kedge__munge_open(const char *socket, const uint8_t *credential, size_t bytes, uid_t *who,
		      uint8_t secret[KEDGE__SECRET_BYTES], struct kedge__error *err)
{
	void *payload = NULL;
	int length = 0, rc;
	munge_ctx_t ctx;
	munge_err_t code;
	uid_t uid;
	gid_t gid;

	if (!bytes || credential[bytes - 1])
		return kedge__error_set(err, KEDGE_E_ACCESS, 0, "the client has no credential of MUNGE");
	rc = context_make(socket, &ctx, err);
	if (rc)
		return rc;
	code = munge_decode((const char *)credential, ctx, &payload, &length, &uid, &gid);
	if (code != EMUNGE_SUCCESS)
		rc = failed(ctx, code, "say who the client is", err);
	else if (length != KEDGE__SECRET_BYTES)
		rc = kedge__error_set(err, KEDGE_E_ACCESS, 0, "the client's credential was made for something else");
	if (!rc) {
		memcpy(secret, payload, KEDGE__SECRET_BYTES);
		*who = uid;
	}
	if (payload)
		kedge__secret_wipe(payload, (size_t)length);
	free(payload);
	munge_ctx_destroy(ctx);
	return rc;
}
