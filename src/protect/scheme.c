/* SPDX-License-Identifier: BSD-3-Clause */
#include "protect/protect.h"

#include <stdio.h>
#include <stdlib.h>

static int refuse(const char *text, struct kedge__error *err)
{
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "protect = %s: must be single, partner, xor:N with a team of N from 2 to %d members, or "
	    "rs:K+M, as in rs:4+2, with K and M from 1 on and at most %d in sum",
	    text, KEDGE__SCHEME_TEAM_MAX, KEDGE__SCHEME_TEAM_MAX);
}

/* Digits only: strtoul() would accept a sign, and spaces. */
static const char *number(const char *text, uint32_t *out)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 4)
		return NULL;
	*out = (uint32_t)strtoul(text, NULL, 10);
	return text + digits;
}

int kedge__protection_parse(const char *text, struct kedge__protection *out, struct kedge__error *err)
{
	struct kedge__protection p = {KEDGE__SCHEME_SINGLE, 1, 0};
	const char *at;
	uint32_t k = 0;

	if (strcmp(text, "single") == 0) {
		*out = p;
		return 0;
	}
	if (strcmp(text, "partner") == 0) {
		*out = (struct kedge__protection){KEDGE__SCHEME_PARTNER, 2, 1};
		return 0;
	}
	if (strncmp(text, "xor:", 4) == 0) {
		p = (struct kedge__protection){KEDGE__SCHEME_XOR, 0, 1};
		at = number(text + 4, &p.members);
	} else if (strncmp(text, "rs:", 3) == 0) {
		p.scheme = KEDGE__SCHEME_RS;
		at = number(text + 3, &k);
		at = at && *at == '+' ? number(at + 1, &p.parity) : NULL;
		p.members = k + p.parity;
	} else {
		at = NULL;
	}
	if (!at || *at || !p.parity || p.members <= p.parity || p.members > KEDGE__SCHEME_TEAM_MAX)
		return refuse(text, err);
	*out = p;
	return 0;
}

const char *kedge__protection_text(enum kedge__scheme scheme, uint32_t members, uint32_t parity,
				   char text[KEDGE__PROTECTION_TEXT])
{
	if (scheme == KEDGE__SCHEME_SINGLE)
		snprintf(text, KEDGE__PROTECTION_TEXT, "single");
	else if (scheme == KEDGE__SCHEME_PARTNER && members == 2)
		snprintf(text, KEDGE__PROTECTION_TEXT, "partner");
	else if (parity == 1)
		snprintf(text, KEDGE__PROTECTION_TEXT, "xor:%u", members);
	else
		snprintf(text, KEDGE__PROTECTION_TEXT, "rs:%u+%u", members - parity, parity);
	return text;
}
