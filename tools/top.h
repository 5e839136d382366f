/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top: what the files of `kedge top` share. A source is a staging server, asked over HTTP; a store has jobs, whose journals
 * are read. top.c has the options and the loop, top_source.c asks and believes nothing unchecked, top_show.c prints; top_jobs.c does both for
 * jobs.
 */
#ifndef KEDGE_TOOLS_TOP_H
#define KEDGE_TOOLS_TOP_H

#include "stage/stage.h"
#include "tool_http.h"
#include "tool_story.h"

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

struct kedge__top_job {
	struct kedge__story story;
	char *path;
	struct kedge__error problem; /* why the journal cannot be read */
};

struct kedge__top_store {
	struct kedge__job_settings settings; /* l1 is the store */
	KEDGE__ARRAY(struct kedge__top_job) jobs; /* by name */
	struct kedge__error problem;
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
void kedge__top_json(const struct kedge__top_source *sources, size_t count, json_t *all); /* appended to ALL */

/* ------------------------------------------------------------------ top_jobs.c */

int kedge__top_store_open(struct kedge__top_store *st, const char *path, struct kedge__error *err);
void kedge__top_store_done(struct kedge__top_store *st);
void kedge__top_store_look(struct kedge__top_store *st); /* what came since the last look; a problem is in ST */
void kedge__top_store_text(const struct kedge__top_store *st, FILE *out);
void kedge__top_store_json(const struct kedge__top_store *st, json_t *all);

#endif
