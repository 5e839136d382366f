/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#define KEY_MIN 32
#define KEY_MAX 4096

/* Whoever has the key may write to the store: nobody but its owner may read it. */
static int key_check(int fd, const char *path, struct kedge__error *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return kedge__error_set(err, KEDGE_E_IO, 0, "cannot examine %s", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return kedge__error_set(err, KEDGE_E_ACCESS, 0, "the key file %s belongs to somebody else", path);
	if (st.st_mode & 077)
		return kedge__error_set(err, KEDGE_E_ACCESS, 0,
					"others may read or write the key file %s: chmod 600 it, and make another key",
					path);
	if (st.st_size < KEY_MIN || st.st_size > KEY_MAX)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"the key file %s has %lld bytes instead of %d to %d: make one with "
					"head -c 32 /dev/urandom",
					path, (long long)st.st_size, KEY_MIN, KEY_MAX);
	return 0;
}

static int key_read(const char *path, uint8_t key[KEDGE__SECRET_BYTES], struct kedge__error *err)
{
	static const uint8_t label[KEDGE__SECRET_BYTES] = "kedge staging: the key of a file";
	uint8_t text[KEY_MAX];
	uint64_t bytes;
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int fd, rc = kedge__fs_open_read(path, &fd, &problem);

	if (rc) {
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "the key file: %s", kedge__error_text(&problem));
		kedge__error_done(&problem);
		return rc;
	}
	rc = key_check(fd, path, err);
	if (!rc)
		rc = kedge__fs_size(fd, &bytes, path, err);
	if (!rc && bytes > sizeof(text))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "the key file %s grows", path);
	if (!rc)
		rc = kedge__fs_pread(fd, text, (size_t)bytes, 0, path, err);
	if (!rc)
		kedge__secret_sum(label, text, (size_t)bytes, key);
	kedge__secret_wipe(text, sizeof(text));
	kedge__fs_close(fd);
	return rc;
}

int kedge__auth_open(const char *text, struct kedge__auth *a, struct kedge__error *err)
{
	*a = (struct kedge__auth){.kind = KEDGE__STAGE_AUTH_MUNGE};
	if (!text || !text[0] || strcmp(text, "munge") == 0)
		return 0;
	if (strncmp(text, "munge:", 6) == 0) {
		a->socket = kedge__strdup(text + 6);
		return a->socket ? 0 : kedge__error_nomem(err);
	}
	if (strncmp(text, "key:", 4) == 0 && text[4]) {
		a->kind = KEDGE__STAGE_AUTH_KEY;
		return key_read(text + 4, a->key, err);
	}
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "\"%s\" is not munge, munge:SOCKET or key:FILE", text);
}

void kedge__auth_close(struct kedge__auth *a)
{
	kedge__free(a->socket);
	kedge__secret_wipe(a, sizeof(*a));
}

int kedge__auth_offer(const struct kedge__auth *a, struct kedge__stage_hello *h, uint8_t secret[KEDGE__SECRET_BYTES],
		      struct kedge__error *err)
{
	int rc = kedge__secret_draw(h->nonce, sizeof(h->nonce), err);

	h->auth = (uint16_t)a->kind;
	h->credential_bytes = 0;
	if (rc || a->kind == KEDGE__STAGE_AUTH_KEY) {
		memcpy(secret, a->key, KEDGE__SECRET_BYTES);
		return rc;
	}
	rc = kedge__secret_draw(secret, KEDGE__SECRET_BYTES, err);
	if (!rc)
		rc = kedge__munge_seal(a->socket, geteuid(), secret, h->credential, sizeof(h->credential),
				       &h->credential_bytes, err);
	return rc;
}

int kedge__auth_accept(const struct kedge__auth *a, const struct kedge__stage_hello *h, uid_t *who,
		       uint8_t secret[KEDGE__SECRET_BYTES], struct kedge__error *err)
{
	if (h->auth != (uint16_t)a->kind)
		return kedge__error_set(err, KEDGE_E_ACCESS, 0, "this server wants clients to prove themselves by %s",
					a->kind == KEDGE__STAGE_AUTH_KEY ? "its key file" : "MUNGE");
	if (a->kind == KEDGE__STAGE_AUTH_MUNGE)
		return kedge__munge_open(a->socket, h->credential, h->credential_bytes, who, secret, err);
	memcpy(secret, a->key, KEDGE__SECRET_BYTES);
	*who = geteuid();
	return 0;
}
