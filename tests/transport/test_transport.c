/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, frames over a socket that may come in any pieces, and memory that another port reads. */
#include "../lib/cases.h"
#include "../lib/fabric.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void addresses(void **state)
{
	static const struct {
		const char *text, *same; /* NULL: refused */
	} cases[] = {
	    {"host:1", "tcp://host:1"},
	    {"tcp://127.0.0.1:7421", "tcp://127.0.0.1:7421"},
	    {"verbs;ofi_rxm://n7:65535", "verbs;ofi_rxm://n7:65535"},
	    {"shm://[::1]:0", "shm://[::1]:0"},
	    {"[fe80::1]:9", "tcp://[fe80::1]:9"},
	    {"", NULL},
	    {"host", NULL},
	    {"host:", NULL},
	    {":1", NULL},
	    {"host:65536", NULL},
	    {"host:-1", NULL},
	    {"host:1x", NULL},
	    {"::1:9", NULL},
	    {"TCP://host:1", NULL},
	    {"://host:1", NULL},
	    {"a-provider-whose-name-is-too-long://host:1", NULL},
	};
	struct kedge__address a, *list;
	char text[KEDGE__ADDRESS_TEXT];
	size_t count;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++) {
		int rc = kedge__address_parse(cases[i].text, &a, NULL);

		assert_int_equal(rc, cases[i].same ? 0 : KEDGE_E_CONFIG);
		if (rc)
			continue;
		kedge__address_text(&a, text);
		assert_string_equal(text, cases[i].same);
	}
	assert_int_equal(kedge__address_list("a:1, shm://b:2", &list, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_string_equal(list[1].provider, "shm");
	assert_true(kedge__address_is_loopback(&(struct kedge__address){.host = "127.3.0.1"}));
	assert_false(kedge__address_is_loopback(&(struct kedge__address){.host = "0.0.0.0"}));
	kedge__free(list);
}

static void pair_open(struct kedge__link *a, int *b)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	memset(a, 0, sizeof(*a));
	a->fd = ends[0];
	a->out_max = 100000;
	*b = ends[1];
}

static void frames(void **state)
{
	uint8_t text[4 + 10] = {10, 0, 0, 0, 'a', 'b'};
	struct kedge__link l;
	const uint8_t *frame;
	size_t bytes;
	int fd;

	(void)state;
	pair_open(&l, &fd);
	for (size_t i = 0; i < sizeof(text); i++) { /* byte by byte: it is whole with the last one */
		assert_int_equal(kedge__link_frame(&l, &frame, &bytes, NULL), 0);
		assert_null(frame);
		assert_int_equal(write(fd, text + i, 1), 1);
		assert_int_equal(kedge__link_pull(&l, NULL), 0);
	}
	assert_int_equal(kedge__link_frame(&l, &frame, &bytes, NULL), 0);
	assert_int_equal(bytes, 10);
	assert_memory_equal(frame, text + 4, 10);
	kedge__link_drop(&l);
	assert_int_equal(kedge__link_frame(&l, &frame, &bytes, NULL), 0);
	assert_null(frame);
	assert_int_equal(kedge__link_send(&l, "xyz", 3, NULL), 0);
	assert_int_equal(read(fd, text, sizeof(text)), 7);
	assert_int_equal(kedge__get32(text), 3);
	close(fd);
	assert_true(kedge__link_pull(&l, NULL) < 0);
	kedge__link_close(&l);
}

/* A length that no frame has ends it; so does a peer that lets answers pile up. */
static void not_frames(void **state)
{
	static const uint32_t lengths[] = {0, KEDGE__FRAME_MAX + 1, UINT32_MAX};
	static uint8_t large[KEDGE__FRAME_MAX];
	struct kedge__link l;
	const uint8_t *frame;
	size_t bytes;
	int fd, rc = 0;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(lengths); i++) {
		pair_open(&l, &fd);
		assert_int_equal(write(fd, &lengths[i], 4), 4);
		assert_int_equal(kedge__link_pull(&l, NULL), 0);
		assert_int_equal(kedge__link_frame(&l, &frame, &bytes, NULL), KEDGE_E_DAMAGED);
		kedge__link_close(&l);
		close(fd);
	}
	pair_open(&l, &fd);
	for (int i = 0; i < 1000 && !rc; i++)
		rc = kedge__link_send(&l, large, sizeof(large), NULL);
	assert_int_equal(rc, KEDGE_E_IO);
	assert_true(kedge__link_wants_out(&l));
	assert_true(l.out_bytes <= l.out_max);
	kedge__link_close(&l);
	close(fd);
}

/* Bytes arrive as they were; another key than the right one gives none, and ends in a failure, or in silence. */
static void read_by(const char *provider)
{
	static uint8_t from[100000], to[100000];
	struct kedge__fabric_memory there, here;
	struct kedge__fabric *f, *g;
	struct kedge__port *p, *q;
	struct kedge__port_done done = {0};
	uint8_t name[KEDGE__PORT_NAME_MAX];
	size_t bytes, n = 0;
	int rc;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7);
	assert_int_equal(kedge__fabric_open(provider, "127.0.0.1", &f, NULL), 0);
	assert_int_equal(kedge__fabric_open(provider, "127.0.0.1", &g, NULL), 0);
	assert_int_equal(kedge__port_open(f, 2, &p, NULL), 0);
	assert_int_equal(kedge__port_open(g, 2, &q, NULL), 0);
	assert_int_equal(kedge__fabric_register(f, p, from, sizeof(from), &there, NULL), 0);
	assert_int_equal(kedge__fabric_register(g, NULL, to, sizeof(to), &here, NULL), 0);
	assert_int_equal(kedge__port_name(p, name, &bytes, NULL), 0);
	assert_int_equal(kedge__port_peer(q, name, bytes - 1, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__port_peer(q, name, bytes, NULL), 0);
	do {
		struct kedge__port_done none;

		rc = kedge__port_read(q, &here, to, sizeof(to), there.address, there.key, to, NULL);
		assert_true(rc >= 0);
		(void)kedge__port_poll(p, &none, 1);
		if (rc)
			n += kedge__port_poll(q, &done, 1);
	} while (rc);
	while (!n) {
		struct kedge__port_done none;

		(void)kedge__port_poll(p, &none, 1);
		n = kedge__port_poll(q, &done, 1);
	}
	assert_int_equal(done.failed, 0);
	assert_ptr_equal(done.context, to);
	assert_memory_equal(from, to, sizeof(from));
	kedge__fabric_unregister(&there);
	kedge__fabric_unregister(&here);
	kedge__port_close(q);
	kedge__port_close(p);
	kedge__fabric_close(g);
	kedge__fabric_close(f);
}

static void remote_memory(void **state)
{
	struct kedge__fabric *f;

	(void)state;
	if (!kedge__fabric_built())
		skip();
	read_by("tcp");
	read_by("shm");
	assert_int_equal(kedge__fabric_open("pigeon", "127.0.0.1", &f, NULL), KEDGE_E_CONFIG);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses),
	    cmocka_unit_test(frames),
	    cmocka_unit_test(not_frames),
	    cmocka_unit_test(remote_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
