/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define OUT_MAX ((size_t)1 << 20)

static int failed(struct kedge__error *err, int sys_errno, const char *what, const char *whom)
{
	return kedge__error_set(err, KEDGE_E_IO, sys_errno, "cannot %s %s", what, whom);
}

static int resolve(const struct kedge__address *a, int flags, struct addrinfo **list, struct kedge__error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
	char port[8];
	int rc;

	snprintf(port, sizeof(port), "%u", a->port);
	rc = getaddrinfo(a->host, port, &hints, list);
	return rc ? kedge__error_set(err, KEDGE_E_IO, 0, "cannot find the host %s: %s", a->host, gai_strerror(rc)) : 0;
}

/* Small messages go out at once; a peer that is cut off without a word is noticed by the kernel, too. */
static void tune(int fd)
{
	int on = 1, idle = 30;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
}

static void link_init(struct kedge__link *link, int fd)
{
	link->fd = fd;
	link->in_bytes = link->out_bytes = link->out_room = 0;
	link->out = NULL;
	link->out_max = OUT_MAX;
}

/* ------------------------------------------------------------------ how it begins */

static int listen_at(const struct addrinfo *i, int *out)
{
	int fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, cause;

	if (fd < 0)
		return errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, i->ai_addr, i->ai_addrlen) == 0 && listen(fd, 128) == 0) {
		*out = fd;
		return 0;
	}
	cause = errno;
	close(fd);
	return cause;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage sa = {0};
	socklen_t n = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &n) != 0)
		return 0;
	return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
					      : ((struct sockaddr_in *)&sa)->sin_port);
}

int kedge__link_listen(const struct kedge__address *a, int *fd, struct kedge__address *bound, struct kedge__error *err)
{
	char text[KEDGE__ADDRESS_TEXT];
	struct addrinfo *list;
	int cause = 0, rc = resolve(a, AI_PASSIVE, &list, err);

	if (rc)
		return rc;
	for (const struct addrinfo *i = list; i; i = i->ai_next) {
		cause = listen_at(i, fd);
		if (!cause)
			break;
	}
	freeaddrinfo(list);
	kedge__address_text(a, text);
	if (cause)
		return failed(err, cause, "listen at", text);
	*bound = *a;
	bound->port = port_of(*fd);
	return 0;
}

int kedge__link_accept(int listening, struct kedge__link *link, char *peer, bool *made, struct kedge__error *err)
{
	char host[64] = "?", port[8] = "?";
	struct sockaddr_storage sa = {0};
	socklen_t n = sizeof(sa);
	int fd = accept4(listening, (struct sockaddr *)&sa, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

	*made = fd >= 0;
	if (fd < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED
			   ? 0
			   : failed(err, errno, "accept", "a client");
	tune(fd);
	(void)getnameinfo((struct sockaddr *)&sa, n, host, sizeof(host), port, sizeof(port),
			  NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(peer, KEDGE__ADDRESS_TEXT, "%s:%s", host, port);
	link_init(link, fd);
	return 0;
}

static int wait_for(int fd, short events, double seconds)
{
	struct pollfd p = {.fd = fd, .events = events};
	double end = kedge__clock_seconds() + seconds;
	int n;

	do
		n = poll(&p, 1, (int)(KEDGE__MAX(end - kedge__clock_seconds(), 0.0) * 1000));
	while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : n == 0 ? ETIMEDOUT : errno;
}

static int connect_to(const struct addrinfo *i, double seconds, int *out)
{
	int fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int cause = fd < 0 || connect(fd, i->ai_addr, i->ai_addrlen) != 0 ? errno : 0;
	socklen_t n = sizeof(cause);

	if (fd >= 0 && cause == EINPROGRESS) {
		cause = wait_for(fd, POLLOUT, seconds);
		if (!cause && getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &n) != 0)
			cause = errno;
	}
	if (!cause)
		*out = fd;
	else if (fd >= 0)
		close(fd);
	return cause;
}

int kedge__link_connect(struct kedge__link *link, const struct kedge__address *a, double seconds,
			struct kedge__error *err)
{
	char text[KEDGE__ADDRESS_TEXT];
	struct addrinfo *list;
	int fd = -1, cause = 0, rc = resolve(a, 0, &list, err);

	if (rc)
		return rc;
	for (const struct addrinfo *i = list; i && fd < 0; i = i->ai_next)
		cause = connect_to(i, seconds, &fd);
	freeaddrinfo(list);
	kedge__address_text(a, text);
	if (fd < 0)
		return failed(err, cause, "reach", text);
	tune(fd);
	link_init(link, fd);
	return 0;
}

void kedge__link_close(struct kedge__link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	kedge__free(link->out);
	link_init(link, -1);
}

void kedge__link_cut(const struct kedge__link *link)
{
	if (link->fd >= 0)
		(void)shutdown(link->fd, SHUT_RDWR);
}

int kedge__link_host(const struct kedge__link *link, char host[KEDGE__HOST_MAX + 1], struct kedge__error *err)
{
	struct sockaddr_storage sa = {0};
	socklen_t n = sizeof(sa);

	if (getsockname(link->fd, (struct sockaddr *)&sa, &n) != 0 ||
	    getnameinfo((struct sockaddr *)&sa, n, host, KEDGE__HOST_MAX + 1, NULL, 0, NI_NUMERICHOST) != 0)
		return failed(err, errno, "find", "the own address of a link");
	return 0;
}

/* ------------------------------------------------------------------ frames out */

static int lost(struct kedge__error *err, int sys_errno)
{
	return kedge__error_set(err, KEDGE_E_IO, sys_errno, "the connection is lost");
}

static int send_some(struct kedge__link *link, const uint8_t *data, size_t bytes, size_t *sent,
		     struct kedge__error *err)
{
	for (*sent = 0; *sent < bytes;) {
		ssize_t n = send(link->fd, data + *sent, bytes - *sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0)
			return lost(err, n < 0 ? errno : 0);
		*sent += (size_t)n;
	}
	return 0;
}

static int keep(struct kedge__link *link, const uint8_t *data, size_t bytes, struct kedge__error *err)
{
	if (link->out_bytes + bytes > link->out_max)
		return kedge__error_set(err, KEDGE_E_IO, 0, "the other side does not read what it is sent");
	if (!kedge__array_grow((void **)&link->out, &link->out_room, link->out_bytes + bytes, 1))
		return kedge__error_nomem(err);
	memcpy(link->out + link->out_bytes, data, bytes);
	link->out_bytes += bytes;
	return 0;
}

static int send_or_keep(struct kedge__link *link, const uint8_t *data, size_t bytes, struct kedge__error *err)
{
	size_t sent = 0;
	int rc = link->out_bytes ? 0 : send_some(link, data, bytes, &sent, err);

	return rc || sent == bytes ? rc : keep(link, data + sent, bytes - sent, err);
}

int kedge__link_send(struct kedge__link *link, const void *frame, size_t bytes, struct kedge__error *err)
{
	uint8_t text[KEDGE__FRAME_MAX + 4];

	if (link->fd < 0)
		return lost(err, 0);
	if (!bytes || bytes > KEDGE__FRAME_MAX)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a frame of %zu bytes", bytes);
	kedge__put32(text, (uint32_t)bytes);
	memcpy(text + 4, frame, bytes);
	return send_or_keep(link, text, bytes + 4, err);
}

int kedge__link_push(struct kedge__link *link, struct kedge__error *err)
{
	size_t sent = 0;
	int rc = link->out_bytes ? send_some(link, link->out, link->out_bytes, &sent, err) : 0;

	if (rc)
		return rc;
	link->out_bytes -= sent;
	if (sent && link->out_bytes)
		memmove(link->out, link->out + sent, link->out_bytes);
	return 0;
}

bool kedge__link_wants_out(const struct kedge__link *link)
{
	return link->out_bytes;
}

/* ------------------------------------------------------------------ and in */

int kedge__link_pull(struct kedge__link *link, struct kedge__error *err)
{
	ssize_t n;

	if (link->fd < 0)
		return lost(err, 0);
	if (link->in_bytes == sizeof(link->in))
		return 0;
	do
		n = recv(link->fd, link->in + link->in_bytes, sizeof(link->in) - link->in_bytes, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n <= 0)
		return lost(err, n < 0 ? errno : 0);
	link->in_bytes += (size_t)n;
	return 0;
}

int kedge__link_frame(const struct kedge__link *link, const uint8_t **frame, size_t *bytes, struct kedge__error *err)
{
	uint32_t length = link->in_bytes < 4 ? 0 : kedge__get32(link->in);

	*frame = NULL;
	*bytes = 0;
	if (link->in_bytes >= 4 && (!length || length > KEDGE__FRAME_MAX))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"a frame of %u bytes: the other side does not speak "
					"the protocol of Kedge's staging",
					length);
	if (length && link->in_bytes >= 4 + (size_t)length) {
		*frame = link->in + 4;
		*bytes = length;
	}
	return 0;
}

void kedge__link_drop(struct kedge__link *link)
{
	size_t bytes = 4 + (size_t)kedge__get32(link->in);

	link->in_bytes -= bytes;
	memmove(link->in, link->in + bytes, link->in_bytes);
}

int kedge__link_wait(struct kedge__link *link, double seconds, const uint8_t **frame, size_t *bytes,
		     struct kedge__error *err)
{
	double end = kedge__clock_seconds() + seconds;

	for (;;) {
		int rc = kedge__link_frame(link, frame, bytes, err), cause;

		if (rc || *frame)
			return rc;
		cause = wait_for(link->fd, POLLIN, KEDGE__MAX(end - kedge__clock_seconds(), 0.0));
		if (cause)
			return kedge__error_set(err, KEDGE_E_IO, cause, "the other side does not answer");
		rc = kedge__link_pull(link, err);
		if (rc)
			return rc;
	}
}
