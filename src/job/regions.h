/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * regions: what the application protects. Private to job.
 *
 * They belong to the application's threads.
 */
#ifndef KEDGE_JOB_REGIONS_H
#define KEDGE_JOB_REGIONS_H

#include "capture/capture.h"
#include "job/job.h"

/* A file that the application writes where it was told to. It is a region while it is saved, at an address that nobody may
 * look at, or restored, mapped there; at other times it is not in the table. */
struct kedge__job_file {
	char *region, *path;
	void *data;      /* NULL: it has no address, or is empty */
	uint64_t bytes;
	struct kedge__region_file from; /* where it is read while it is saved; -1 at other times */
	bool listed;     /* in the table of regions now */
	bool lent;       /* by kedge__file_lend(): saved from where the caller says, and never restored */
	struct kedge__region_file lender;
	void *lent_data; /* NULL: it is read from the lender */
	uint64_t lent_bytes;
	enum kedge_type type;
	bool same;
	uint64_t same_as;
	char *temporary; /* being restored; becomes `path` */
};

struct kedge__job_regions {
	struct kedge__region_table *table;
	void *(*room)(void *user, const char *name, const struct kedge_region_info *info); /* NULL: regions fit, or do not */
	void *room_user;
	uint32_t next_slot;
};

int kedge__regions_new(kedge_t *k, struct kedge__error *err);
void kedge__regions_done(kedge_t *k);
int kedge__regions_assign(kedge_t *k, struct kedge__error *err); /* a slot for each that has none */
/* Names, slots and the next slot of a stored version. */
int kedge__regions_remember(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err);

/* ------------------------------------------------------------------ file.c: routed files are regions between take/create and drop */

int kedge__files_take(kedge_t *k, struct kedge__error *err); /* as they are, to be saved */
int kedge__files_create(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err); /* empty ones, to be filled from TOP */
int kedge__files_keep(kedge_t *k, struct kedge__error *err); /* the filled ones are the application's */
void kedge__files_drop(kedge_t *k);
int kedge__files_renew(kedge_t *k, struct kedge__error *err); /* the directory of the files, if there are any, made again */
void kedge__files_free(kedge_t *k);
bool kedge__file_forget(kedge_t *k, const char *region); /* false: there is no such file */

#endif
