/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/transport.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define PROVIDER_PRESET "tcp"

static int refuse(const char *text, const char *why, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "\"%s\" is not an address ([PROVIDER://]HOST:PORT): %s", text,
				why);
}

static bool is_word(const char *at, size_t n)
{
	return strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_;") >= n;
}

static int parse_port(const char *text, const char *port, uint16_t *out, struct kedge__error *err)
{
	char *end;
	unsigned long n = strtoul(port, &end, 10);

	if (!port[0] || strspn(port, "0123456789") != strlen(port) || *end || n > UINT16_MAX)
		return refuse(text, "the port has to be a number below 65536", err);
	*out = (uint16_t)n;
	return 0;
}

int kedge__address_parse(const char *text, struct kedge__address *out, struct kedge__error *err)
{
	const char *scheme = strstr(text, "://"), *host = scheme ? scheme + 3 : text, *colon = strrchr(host, ':');
	struct kedge__address a = {.provider = PROVIDER_PRESET};
	size_t n = scheme ? (size_t)(scheme - text) : 0;
	int rc;

	if (scheme && (!n || n > KEDGE__PROVIDER_MAX || !is_word(text, n)))
		return refuse(text, "the provider has to be a word such as tcp, shm or verbs", err);
	if (scheme)
		snprintf(a.provider, sizeof(a.provider), "%.*s", (int)n, text);
	if (!colon)
		return refuse(text, "it has no port", err);
	rc = parse_port(text, colon + 1, &a.port, err);
	if (rc)
		return rc;
	n = (size_t)(colon - host);
	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		host++;
		n -= 2;
	} else if (memchr(host, ':', n)) {
		return refuse(text, "put the IPv6 address in brackets", err);
	}
	if (!n || n > KEDGE__HOST_MAX)
		return refuse(text, n ? "the host is too long" : "it has no host", err);
	memcpy(a.host, host, n);
	*out = a;
	return 0;
}

int kedge__address_list(const char *text, struct kedge__address **out, size_t *count, struct kedge__error *err)
{
	KEDGE__ARRAY(struct kedge__address) list = {0};
	char *copy = kedge__strdup(text), *rest = copy, *one;
	int rc = copy ? 0 : kedge__error_nomem(err);

	while (!rc && (one = strsep(&rest, ",")) != NULL) {
		struct kedge__address a;

		one += strspn(one, " \t");
		one[strcspn(one, " \t")] = '\0';
		rc = kedge__address_parse(one, &a, err);
		if (!rc && !kedge__array_push(&list, a))
			rc = kedge__error_nomem(err);
	}
	kedge__free(copy);
	if (rc) {
		kedge__array_done(&list);
		return rc;
	}
	*out = list.at;
	*count = list.count;
	return 0;
}

void kedge__address_text(const struct kedge__address *a, char text[KEDGE__ADDRESS_TEXT])
{
	bool six = strchr(a->host, ':');

	snprintf(text, KEDGE__ADDRESS_TEXT, "%s://%s%s%s:%u", a->provider, six ? "[" : "", a->host, six ? "]" : "",
		 a->port);
}

static bool is_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
	return sa->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

bool kedge__address_is_loopback(const struct kedge__address *a)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	bool all = true;

	if (getaddrinfo(a->host, NULL, &hints, &list) != 0)
		return false;
	for (const struct addrinfo *i = list; i; i = i->ai_next)
		all = all && is_loopback(i->ai_addr);
	freeaddrinfo(list);
	return all;
}
