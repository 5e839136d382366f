/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KEDGE_TOOLS_PACK_DIR_H
#define KEDGE_TOOLS_PACK_DIR_H

#include "tool.h"

struct kedge__pack_dir {
	char *path;
	int lock; /* -1: there is none */
};

/* A new directory PREFIX-... in PARENT, once those of PARENT are removed whose users are dead. */
int kedge__pack_dir_open(const char *parent, const char *prefix, struct kedge__pack_dir *out, struct kedge__error *err);
void kedge__pack_dir_close(struct kedge__pack_dir *d); /* and removes it */

#endif
