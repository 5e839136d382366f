/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * http: a few pages for whoever may connect, and a way to get one. The server answers GET and HEAD for the paths that it was
 * given, and nothing else; it reads no files, and takes no data.
 */
#ifndef KEDGE_TOOLS_TOOL_HTTP_H
#define KEDGE_TOOLS_TOOL_HTTP_H

#include "tool.h"
#include "transport/transport.h"

struct kedge__http_page {
	const char *path, *type; /* "/metrics", "text/plain" */
	/* *TEXT: kedge__free(). Called by a thread of the HTTP server, one at a time. */
	int (*make)(void *ctx, char **text, size_t *bytes, struct kedge__error *err);
};

/* ------------------------------------------------------------------ optional/http.c, or optional/http_absent.c */

struct kedge__http;
bool kedge__http_built(void); /* with libmicrohttpd */
/* Listen at A (port 0: any); PAGES and CTX must stay valid until it is closed. */
int kedge__http_open(const struct kedge__address *a, const struct kedge__http_page *pages, size_t count, void *ctx,
		     struct kedge__http **out, struct kedge__error *err);
const struct kedge__address *kedge__http_address(const struct kedge__http *h); /* with the port that was taken */
void kedge__http_close(struct kedge__http *h); /* takes NULL */

/* ------------------------------------------------------------------ tool_http.c */

/* [http://]HOST:PORT[/] */
int kedge__http_address_parse(const char *text, struct kedge__address *out, struct kedge__error *err);
/* The body of PATH at A, ended by a zero byte: kedge__free(). All of it takes SECONDS at most. */
int kedge__http_get(const struct kedge__address *a, const char *path, double seconds, char **body, size_t *bytes, struct kedge__error *err);

#endif
