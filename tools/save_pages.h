/* SPDX-License-Identifier: BSD-3-Clause */
/* save_pages: the page image that `kedge save --pages` commits. */
#ifndef KEDGE_TOOLS_SAVE_PAGES_H
#define KEDGE_TOOLS_SAVE_PAGES_H

#include "tool_pages.h"
#include "tool_walk.h"

struct kedge__save_pages {
	struct kedge__page_image image;
	struct kedge__page_places places;
	uint8_t *data; /* region `pages`; NULL: there is no image */
};

int kedge__save_pages_open(struct kedge__save_pages *p, const char *index, const char *data, struct kedge__error *err);
void kedge__save_pages_close(struct kedge__save_pages *p); /* takes one that is all zero, and half-open ones */
/* Protect the two regions for VERSION. A code of the public calls. */
int kedge__save_pages_protect(struct kedge__save_pages *p, kedge_t *k, uint64_t version, enum kedge_type type, struct kedge__error *err);
/* KEDGE_E_IO if one of the two files changed meanwhile. */
int kedge__save_pages_check(const struct kedge__save_pages *p, struct kedge__error *err);
/* One of the files found would be a region that the image needs; its path. */
bool kedge__save_pages_clash(const struct kedge__walk *walk, const char **path);

#endif
