/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of http.c in a build without libmicrohttpd. */
#include "tool_http.h"

bool kedge__http_built(void)
{
	return false;
}

int kedge__http_open(const struct kedge__address *a, const struct kedge__http_page *pages, size_t count, void *ctx,
		     struct kedge__http **out, struct kedge__error *err)
{
	(void)a;
	(void)pages;
	(void)count;
	(void)ctx;
	(void)out;
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "this build has no HTTP: it was made without libmicrohttpd");
}

const struct kedge__address *kedge__http_address(const struct kedge__http *h)
{
	(void)h;
	return NULL;
}

void kedge__http_close(struct kedge__http *h)
{
	(void)h;
}
