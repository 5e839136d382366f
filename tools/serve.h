/* SPDX-License-Identifier: BSD-3-Clause */
/* serve: what the files of `kedge serve` share. serve_pages.c has what it says of itself over HTTP. */
#ifndef KEDGE_TOOLS_SERVE_H
#define KEDGE_TOOLS_SERVE_H

#include "stage/stage.h"
#include "tool_http.h"

struct kedge__serve_watch { /* zeroed: closed */
	struct kedge__server *server;
	json_t *store, *address;
	struct kedge__http *http;
};

/* Pages on SERVER at the HTTP address A. */
int kedge__serve_watch_open(struct kedge__serve_watch *w, struct kedge__server *server, const char *store,
			    const struct kedge__address *a, struct kedge__error *err);
void kedge__serve_watch_close(struct kedge__serve_watch *w); /* before the server */

#endif
