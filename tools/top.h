/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top: what the files of `kedge top` share. A source is something that is watched: a staging server, asked over HTTP. top.c has the
 * options and the loop, top_source.c asks and believes nothing unchecked, top_show.c prints.
 */
#ifndef KEDGE_TOOLS_TOP_H
#define KEDGE_TOOLS_TOP_H

#include "stage/stage.h"
#include "tool_http.h"

struct kedge__top_look { /* what a source has said */
	double at;    /* when, by the monotonic clock */
	json_t *json; /* as it came; NULL: nothing did */
	struct kedge__server_status status;
};

struct kedge__top_source {
	struct kedge__address address;
	char text[KEDGE__ADDRESS_TEXT];
	struct kedge__top_look now, before; /* the last two looks */
	struct kedge__error problem;        /* why there is none now */
};

/* ------------------------------------------------------------------ top_source.c */

/* Ask S; what it said before is kept for rates. Whether it answers is S->problem. */
void kedge__top_ask(struct kedge__top_source *s, double seconds);
void kedge__top_source_done(struct kedge__top_source *s);
/* Bytes per second between the last two looks: those written by all, or read of client I. Since the beginning, if there was one look. */
double kedge__top_rate(const struct kedge__top_source *s);
double kedge__top_client_rate(const struct kedge__top_source *s, size_t i);

/* ------------------------------------------------------------------ top_show.c */

void kedge__top_text(const struct kedge__top_source *sources, size_t count, FILE *out);
void kedge__top_json(const struct kedge__top_source *sources, size_t count); /* on standard output */

#endif
