/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport: how two processes talk. Small messages go through a link, a stream socket: its end says at once that the
 * other process is gone. Data goes over a fabric (libfabric): one side registers memory, the other one reads it without
 * a word from the first. A message of the link carries the name under which a port of the fabric is reached, so that any
 * provider will do, whatever its addresses look like.
 *
 * Threads: an object is for one thread at a time, unless it says otherwise.
 */
#ifndef KEDGE_TRANSPORT_TRANSPORT_H
#define KEDGE_TRANSPORT_TRANSPORT_H

#include "base/base.h"

#include <sys/socket.h>

/* ------------------------------------------------------------------ address.c */

#define KEDGE__PROVIDER_MAX 31
#define KEDGE__HOST_MAX     255

/* [PROVIDER://]HOST:PORT; an IPv6 address is in brackets. The provider is libfabric's word: tcp (which it is unless said
 * otherwise), shm, verbs, cxi, efa. HOST:PORT is that of the link. */
struct kedge__address {
	char provider[KEDGE__PROVIDER_MAX + 1];
	char host[KEDGE__HOST_MAX + 1];
	uint16_t port;
};

int kedge__address_parse(const char *text, struct kedge__address *out, struct kedge__error *err);
/* ADDRESS[,ADDRESS...]; *OUT: kedge__free(). */
int kedge__address_list(const char *text, struct kedge__address **out, size_t *count, struct kedge__error *err);

#define KEDGE__ADDRESS_TEXT (KEDGE__PROVIDER_MAX + KEDGE__HOST_MAX + 16)
void kedge__address_text(const struct kedge__address *a, char text[KEDGE__ADDRESS_TEXT]);
bool kedge__address_is_loopback(const struct kedge__address *a); /* all that its host resolves to is */

/* ------------------------------------------------------------------ link.c: frames over a stream socket
 * A frame is a length of four bytes and so many bytes. Nothing is believed of the other side but that: a length above
 * KEDGE__FRAME_MAX ends the link. */

#define KEDGE__FRAME_MAX 16384

struct kedge__link {
	int fd; /* -1: closed */
	uint8_t in[KEDGE__FRAME_MAX + 4];
	size_t in_bytes;
	uint8_t *out; /* what the socket would not take yet */
	size_t out_bytes, out_room;
	size_t out_max; /* more than that may not wait: the other side does not read */
};

/* Listen at A; *BOUND has the port that was taken where A has 0. */
int kedge__link_listen(const struct kedge__address *a, int *fd, struct kedge__address *bound, struct kedge__error *err);
/* *MADE false: nobody is there to be accepted. PEER has room for KEDGE__ADDRESS_TEXT. */
int kedge__link_accept(int listening, struct kedge__link *link, char *peer, bool *made, struct kedge__error *err);
int kedge__link_connect(struct kedge__link *link, const struct kedge__address *a, double seconds, struct kedge__error *err);
void kedge__link_close(struct kedge__link *link);
void kedge__link_cut(const struct kedge__link *link); /* it carries nothing more; whoever waits on its descriptor is woken */
/* The numeric address of this end, which the fabric may use, too. */
int kedge__link_host(const struct kedge__link *link, char host[KEDGE__HOST_MAX + 1], struct kedge__error *err);

/* Never waits. What the socket does not take is kept, and kedge__link_wants_out() is true until a push has sent it. */
int kedge__link_send(struct kedge__link *link, const void *frame, size_t bytes, struct kedge__error *err);
int kedge__link_push(struct kedge__link *link, struct kedge__error *err);
bool kedge__link_wants_out(const struct kedge__link *link);
/* Take in what is there. It fails when the other side has closed the link. */
int kedge__link_pull(struct kedge__link *link, struct kedge__error *err);
/* The first whole frame that was taken in, until it is dropped; *BYTES 0 with NULL: there is none. KEDGE_E_DAMAGED: it can be none. */
int kedge__link_frame(const struct kedge__link *link, const uint8_t **frame, size_t *bytes, struct kedge__error *err);
void kedge__link_drop(struct kedge__link *link);
/* Wait for a whole frame, at most SECONDS. For the beginning of a conversation. */
int kedge__link_wait(struct kedge__link *link, double seconds, const uint8_t **frame, size_t *bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ optional/fabric.c: memory that others may read
 * Ports and memory are closed before the fabric that they belong to. */

struct kedge__fabric; /* a provider on one interface */
struct kedge__port;   /* an endpoint with a queue of completions: it may read another port's memory, and others its own */

bool kedge__fabric_built(void);
const char *kedge__fabric_version(void); /* of the library; "" without one */
/* HOST: the address of the interface, for providers whose addresses are such. */
int kedge__fabric_open(const char *provider, const char *host, struct kedge__fabric **out, struct kedge__error *err);
const char *kedge__fabric_provider(const struct kedge__fabric *f); /* libfabric's full name of it: both ends need the same */
void kedge__fabric_close(struct kedge__fabric *f); /* takes NULL */

#define KEDGE__PORT_NAME_MAX 256
/* READS: how many may be in flight. */
int kedge__port_open(struct kedge__fabric *f, size_t reads, struct kedge__port **out, struct kedge__error *err);
void kedge__port_close(struct kedge__port *p); /* its reads no longer touch memory, and are not reported; takes NULL */
int kedge__port_name(const struct kedge__port *p, uint8_t name[KEDGE__PORT_NAME_MAX], size_t *bytes, struct kedge__error *err);
int kedge__port_peer(struct kedge__port *p, const uint8_t *name, size_t bytes, struct kedge__error *err); /* whom it reads from */
/* Readable when there is something to poll for; -1: the provider has none, and is asked now and then. */
int kedge__port_fd(const struct kedge__port *p);
bool kedge__port_may_wait(struct kedge__port *p); /* nothing is left to poll for: wait on the descriptor */

struct kedge__port_done { /* a read that has ended */
	void *context;
	int failed; /* 0, or an errno */
};
/* Let the provider work, and take up to N reads that have ended; their number. */
size_t kedge__port_poll(struct kedge__port *p, struct kedge__port_done *done, size_t n);

struct kedge__fabric_memory {
	void *at;
	size_t bytes;
	uint64_t address, key; /* by which another port reads it */
	void *mr, *desc;
};
/* Readable by others through P, or with P NULL a place for reads of F. */
int kedge__fabric_register(struct kedge__fabric *f, struct kedge__port *p, void *at, size_t bytes, struct kedge__fabric_memory *m, struct kedge__error *err);
void kedge__fabric_unregister(struct kedge__fabric_memory *m);

/* Begin to read BYTES bytes at ADDRESS of the peer's memory KEY to TO, a place within M. 1: not now; poll, and try again. */
int kedge__port_read(struct kedge__port *p, const struct kedge__fabric_memory *m, void *to, size_t bytes, uint64_t address, uint64_t key, void *context,
		     struct kedge__error *err);

#endif
