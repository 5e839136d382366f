/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/transport.h"

static int absent(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "this build of Kedge has no staging: libfabric was not found");
}

bool kedge__fabric_built(void)
{
	return false;
}

const char *kedge__fabric_version(void)
{
	return "";
}

int kedge__fabric_open(const char *provider, const char *host, struct kedge__fabric **out, struct kedge__error *err)
{
	(void)provider;
	(void)host;
	(void)out;
	return absent(err);
}

const char *kedge__fabric_provider(const struct kedge__fabric *f)
{
	(void)f;
	return "";
}

void kedge__fabric_close(struct kedge__fabric *f)
{
	(void)f;
}

int kedge__port_fd(const struct kedge__port *p)
{
	(void)p;
	return -1;
}

bool kedge__port_may_wait(struct kedge__port *p)
{
	(void)p;
	return true;
}

size_t kedge__port_poll(struct kedge__port *p, struct kedge__port_done *done, size_t n)
{
	(void)p;
	(void)done;
	(void)n;
	return 0;
}

int kedge__port_open(struct kedge__fabric *f, size_t reads, struct kedge__port **out, struct kedge__error *err)
{
	(void)f;
	(void)reads;
	(void)out;
	return absent(err);
}

void kedge__port_close(struct kedge__port *p)
{
	(void)p;
}

int kedge__port_name(const struct kedge__port *p, uint8_t name[KEDGE__PORT_NAME_MAX], size_t *bytes,
		     struct kedge__error *err)
{
	(void)p;
	(void)name;
	(void)bytes;
	return absent(err);
}

int kedge__port_peer(struct kedge__port *p, const uint8_t *name, size_t bytes, struct kedge__error *err)
{
	(void)p;
	(void)name;
	(void)bytes;
	return absent(err);
}

int kedge__fabric_register(struct kedge__fabric *f, struct kedge__port *p, void *at, size_t bytes,
			   struct kedge__fabric_memory *m, struct kedge__error *err)
{
	(void)f;
	(void)p;
	(void)at;
	(void)bytes;
	(void)m;
	return absent(err);
}

void kedge__fabric_unregister(struct kedge__fabric_memory *m)
{
	(void)m;
}

int kedge__port_read(struct kedge__port *p, const struct kedge__fabric_memory *m, void *to, size_t bytes,
		     uint64_t address, uint64_t key, void *context, struct kedge__error *err)
{
	(void)p;
	(void)m;
	(void)to;
	(void)bytes;
	(void)address;
	(void)key;
	(void)context;
	return absent(err);
}
