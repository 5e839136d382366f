/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line: one JSON object as one line of text, for files that are appended to. It is complete or there is none: after the first
 * failure nothing is added, and kedge__line_end() says so.
 *
 *   kedge__line_begin(&l);
 *   kedge__line_uint(&l, "version", 7);
 *   kedge__line_list(&l, "regions");
 *   kedge__line_item(&l);
 *   kedge__line_text(&l, "name", "u");
 *   kedge__line_close(&l);
 *   kedge__line_close(&l);
 *   rc = kedge__line_end(&l, &text, err);
 */
#ifndef KEDGE_BASE_LINE_H
#define KEDGE_BASE_LINE_H

#include "base/base.h"

#define KEDGE__LINE_DEPTH 8

struct kedge__line {
	KEDGE__ARRAY(char) text;
	char ends[KEDGE__LINE_DEPTH]; /* of what is open */
	unsigned depth;
	bool filled; /* a comma comes before what is next */
	bool failed;
};

void kedge__line_begin(struct kedge__line *l); /* L need not be initialised */
void kedge__line_uint(struct kedge__line *l, const char *key, uint64_t value);
void kedge__line_seconds(struct kedge__line *l, const char *key, double value); /* to the microsecond; null if it is not finite */
void kedge__line_bool(struct kedge__line *l, const char *key, bool value);
/* VALUE may be anything: what is not UTF-8 becomes U+FFFD. NULL: null. */
void kedge__line_text(struct kedge__line *l, const char *key, const char *value);
void kedge__line_object(struct kedge__line *l, const char *key);
void kedge__line_list(struct kedge__line *l, const char *key); /* its items are objects */
void kedge__line_item(struct kedge__line *l);
void kedge__line_close(struct kedge__line *l); /* the last object, list or item */
/* The text with a newline at its end: kedge__free(). L is empty in any case. */
int kedge__line_end(struct kedge__line *l, char **text, struct kedge__error *err);

#endif
