/* SPDX-License-Identifier: BSD-3-Clause */
/* One page by HTTP, which may come from anybody: its size and the time that it takes are bounded. */
#include "tool_http.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define ANSWER_MAX (UINT32_C(4) << 20)

int kedge__http_address_parse(const char *text, struct kedge__address *out, struct kedge__error *err)
{
	char *copy = kedge__strdup(text);
	size_t n = strlen(text);
	int rc = copy ? 0 : kedge__error_nomem(err);

	if (!rc && n && copy[n - 1] == '/')
		copy[n - 1] = '\0';
	if (!rc)
		rc = kedge__address_parse(copy, out, err);
	if (!rc && strstr(text, "://") && strcmp(out->provider, "http") != 0)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "\"%s\" is not an address of HTTP ([http://]HOST:PORT)",
				      text);
	if (!rc)
		strcpy(out->provider, "http");
	kedge__free(copy);
	return rc;
}

struct fetch {
	struct kedge__link link;
	char where[KEDGE__ADDRESS_TEXT];
	double until;
	KEDGE__ARRAY(char) got;
};

static int wait_for(struct fetch *f, short events, struct kedge__error *err)
{
	double left = f->until - kedge__clock_seconds();
	struct pollfd p = {.fd = f->link.fd, .events = events};
	int n = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;

	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	return kedge__error_set(err, KEDGE_E_IO, n ? errno : ETIMEDOUT, "%s does not answer", f->where);
}

static int ask(struct fetch *f, const char *path, const char *host, struct kedge__error *err)
{
	char *text = kedge__asprintf("GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
	size_t n = text ? strlen(text) : 0, sent = 0;
	int rc = text ? 0 : kedge__error_nomem(err);

	while (!rc && sent < n) {
		ssize_t did = send(f->link.fd, text + sent, n - sent, MSG_NOSIGNAL);

		if (did > 0)
			sent += (size_t)did;
		else if (errno == EAGAIN)
			rc = wait_for(f, POLLOUT, err);
		else if (errno != EINTR)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "%s is not to be asked", f->where);
	}
	kedge__free(text);
	return rc;
}

static int hear(struct fetch *f, struct kedge__error *err)
{
	for (;;) {
		ssize_t did;
		int rc = wait_for(f, POLLIN, err);

		if (rc)
			return rc;
		if (f->got.count >= ANSWER_MAX)
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "the answer of %s is too long", f->where);
		if (!kedge__array_reserve(&f->got, f->got.count + 16384))
			return kedge__error_nomem(err);
		did = recv(f->link.fd, f->got.at + f->got.count, 16383, 0);
		if (did == 0)
			break;
		if (did > 0)
			f->got.count += (size_t)did;
		else if (errno != EAGAIN && errno != EINTR)
			return kedge__error_set(err, KEDGE_E_IO, errno, "%s does not answer", f->where);
	}
	f->got.at[f->got.count] = '\0';
	return 0;
}

/* The head goes, the body stays. */
static int open_answer(struct fetch *f, struct kedge__error *err)
{
	char *at = f->got.at, *body = memmem(at, f->got.count, "\r\n\r\n", 4);

	if (!body || strncmp(at, "HTTP/1.", 7) != 0 || f->got.count < 12)
		return kedge__error_set(err, KEDGE_E_IO, 0,
					"%s does not speak HTTP: name the address that `kedge serve --http` printed",
					f->where);
	if (strncmp(at + 8, " 200", 4) != 0)
		return kedge__error_set(err, KEDGE_E_IO, 0, "%s answers: %.*s", f->where, (int)strcspn(at + 9, "\r\n"),
					at + 9);
	body += 4;
	f->got.count -= (size_t)(body - at);
	memmove(at, body, f->got.count + 1);
	return 0;
}

int kedge__http_get(const struct kedge__address *a, const char *path, double seconds, char **body, size_t *bytes,
		    struct kedge__error *err)
{
	struct fetch *f = kedge__calloc(1, sizeof(*f));
	int rc = f ? 0 : kedge__error_nomem(err);

	if (rc)
		return rc;
	kedge__address_text(a, f->where);
	f->until = kedge__clock_seconds() + seconds;
	rc = kedge__link_connect(&f->link, a, seconds, err);
	if (rc) {
		kedge__free(f);
		return rc;
	}
	rc = ask(f, path, strstr(f->where, "://") + 3, err);
	if (!rc)
		rc = hear(f, err);
	if (!rc)
		rc = open_answer(f, err);
	kedge__link_close(&f->link);
	if (rc) {
		kedge__array_done(&f->got);
	} else {
		*body = f->got.at;
		*bytes = f->got.count;
	}
	kedge__free(f);
	return rc;
}
