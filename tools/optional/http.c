/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An HTTP server by libmicrohttpd, with one thread of its own. Nothing of a request is used but method, path and Host.
 *
 * The library is opened when a server is: with all that it needs itself, it would be a third of the time that the
 * command takes to start, for whatever reason it was started.
 */
#include "base/library.h"
#include "tool_http.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>
#include <unistd.h>

#define LIBRARY     "libmicrohttpd.so.12"
#define CONNECTIONS 32    /* at once */
#define MEMORY      16384 /* bytes of a connection: a longer request is refused */
#define TIMEOUT     10    /* seconds of silence */

#define CALL(name) __typeof__(&(name)) name
static struct {
	CALL(MHD_start_daemon);
	CALL(MHD_stop_daemon);
	CALL(MHD_create_response_from_buffer_with_free_callback);
	CALL(MHD_add_response_header);
	CALL(MHD_queue_response);
	CALL(MHD_destroy_response);
	CALL(MHD_lookup_connection_value);
} lib;
#undef CALL

struct kedge__http {
	const struct kedge__http_page *pages;
	size_t count;
	void *ctx;
	struct kedge__address bound;
	bool loopback;
	struct MHD_Daemon *daemon;
};

bool kedge__http_built(void)
{
	return true;
}

/* ------------------------------------------------------------------ answers */

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned code, const char *type, char *text, size_t bytes)
{
	static const char *const headers[][2] = {
	    {"Cache-Control", "no-store"},
	    {"X-Content-Type-Options", "nosniff"},
	    {"Content-Security-Policy",
	     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"},
	};
	struct MHD_Response *r = lib.MHD_create_response_from_buffer_with_free_callback(bytes, text, kedge__free);
	enum MHD_Result done;

	if (!r) {
		kedge__free(text);
		return MHD_NO;
	}
	for (size_t i = 0; i < KEDGE__COUNT(headers); i++)
		(void)lib.MHD_add_response_header(r, headers[i][0], headers[i][1]);
	(void)lib.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)lib.MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	done = lib.MHD_queue_response(c, code, r);
	lib.MHD_destroy_response(r);
	return done;
}

static enum MHD_Result send_words(struct MHD_Connection *c, unsigned code, const char *words)
{
	char *text = kedge__asprintf("%s\n", words);

	return text ? send_text(c, code, "text/plain; charset=utf-8", text, strlen(text)) : MHD_NO;
}

static enum MHD_Result send_page(const struct kedge__http *h, const struct kedge__http_page *p,
				 struct MHD_Connection *c)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	enum MHD_Result done;
	size_t bytes = 0;
	char *text = NULL;

	if (p->make(h->ctx, &text, &bytes, &err) == 0)
		done = send_text(c, MHD_HTTP_OK, p->type, text, bytes);
	else
		done = send_words(c, MHD_HTTP_INTERNAL_SERVER_ERROR, kedge__error_text(&err));
	kedge__error_done(&err);
	return done;
}

/* A page of elsewhere may have its own name resolve to this host, and so read what only this host should see. */
static bool host_is_ours(const struct kedge__http *h, struct MHD_Connection *c)
{
	const char *host = lib.MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	size_t n = host ? strcspn(host[0] == '[' ? strchr(host, ']') ? strchr(host, ']') : host : host, ":") : 0;

	if (!h->loopback || !host)
		return true;
	if (host[0] == '[')
		return strncmp(host, "[::1]", 5) == 0;
	if (n == strlen(h->bound.host) && strncasecmp(host, h->bound.host, n) == 0)
		return true;
	return (n == 9 && strncasecmp(host, "localhost", n) == 0) ||
	       (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= n);
}

static const struct kedge__http_page *find_page(const struct kedge__http *h, const char *path)
{
	for (size_t i = 0; i < h->count; i++)
		if (strcmp(path, h->pages[i].path) == 0)
			return &h->pages[i];
	return NULL;
}

/* Called when the head of a request is there (*SEEN is NULL), for parts of its body, and at its end. */
static enum MHD_Result serve(void *cls, struct MHD_Connection *c, const char *path, const char *method,
			     const char *version, const char *data, size_t *data_bytes, void **seen)
{
	static int mark;
	const struct kedge__http *h = cls;
	const struct kedge__http_page *page = find_page(h, path);

	(void)version;
	(void)data;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return *seen ? MHD_NO : send_words(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
	if (*data_bytes)
		return MHD_NO; /* a body: whoever sends one is cut off */
	if (!*seen) {
		*seen = &mark;
		return MHD_YES;
	}
	if (!host_is_ours(h, c))
		return send_words(c, MHD_HTTP_FORBIDDEN, "this server is asked for by the name of another host");
	if (!page)
		return send_words(c, MHD_HTTP_NOT_FOUND, "there is no such page: try /, /metrics or /status.json");
	return send_page(h, page, c);
}

/* ------------------------------------------------------------------ open and close */

static void quiet(void *ctx, const char *format, va_list args)
{
	(void)ctx;
	(void)format;
	(void)args;
}

/* Signals are for the thread that serves clients. */
static struct MHD_Daemon *start(struct kedge__http *h, int fd)
{
	sigset_t all, before;
	struct MHD_Daemon *d;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	d = lib.MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, serve, h,
				 MHD_OPTION_EXTERNAL_LOGGER, quiet, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
				 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				 (size_t)MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT, MHD_OPTION_END);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return d;
}

static int library_load(struct kedge__error *err)
{
#define CALL(name)                                                                                                     \
	{                                                                                                              \
#name, &lib.name                                                                                       \
	}
	static const struct kedge__library_call calls[] = {
	    CALL(MHD_start_daemon),
	    CALL(MHD_stop_daemon),
	    CALL(MHD_create_response_from_buffer_with_free_callback),
	    CALL(MHD_add_response_header),
	    CALL(MHD_queue_response),
	    CALL(MHD_destroy_response),
	    CALL(MHD_lookup_connection_value),
	};
#undef CALL
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!handle)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "pages need libmicrohttpd: %s", dlerror());
	missing = kedge__library_find(handle, calls, KEDGE__COUNT(calls));
	return missing ? kedge__error_set(err, KEDGE_E_CONFIG, 0,
					  "pages need libmicrohttpd, but " LIBRARY " has no %s()", missing)
		       : 0;
}

int kedge__http_open(const struct kedge__address *a, const struct kedge__http_page *pages, size_t count, void *ctx,
		     struct kedge__http **out, struct kedge__error *err)
{
	struct kedge__http *h = kedge__calloc(1, sizeof(*h));
	int fd, rc = h ? library_load(err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__link_listen(a, &fd, &h->bound, err);
	if (rc) {
		kedge__free(h);
		return rc;
	}
	h->pages = pages;
	h->count = count;
	h->ctx = ctx;
	h->loopback = kedge__address_is_loopback(a);
	h->daemon = start(h, fd);
	if (!h->daemon) {
		close(fd);
		kedge__free(h);
		return kedge__error_set(err, KEDGE_E_IO, 0, "libmicrohttpd cannot start");
	}
	*out = h;
	return 0;
}

const struct kedge__address *kedge__http_address(const struct kedge__http *h)
{
	return &h->bound;
}

void kedge__http_close(struct kedge__http *h)
{
	if (!h)
		return;
	lib.MHD_stop_daemon(h->daemon);
	kedge__free(h);
}
