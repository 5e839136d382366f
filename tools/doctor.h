/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor: what the files of `kedge doctor` share. A symptom is a line: how it is, about what, what was found, and what to do about it. doctor.c has
 * the options and prints, doctor_system.c looks at the kernel and its limits, doctor_storage.c at the levels, doctor_around.c at MPI, GPUs,
 * schedulers and staging servers.
 */
#ifndef KEDGE_TOOLS_DOCTOR_H
#define KEDGE_TOOLS_DOCTOR_H

#include "tool.h"

enum kedge__symptom_level {
	KEDGE__SYMPTOM_OK,
	KEDGE__SYMPTOM_NO,   /* it is not there, and nothing needs it */
	KEDGE__SYMPTOM_NOTE, /* it works, but not as well as it could */
	KEDGE__SYMPTOM_BAD,  /* something that is needed does not work */
};

struct kedge__symptom {
	enum kedge__symptom_level level;
	const char *subject, *todo; /* what to do may be NULL; both stay valid */
	char *text;
};

struct kedge__doctor {
	struct kedge__usage usage;
	const char *store;
	struct kedge__text_list sets;
	bool json, quiet;
	struct kedge__job_settings settings;
	KEDGE__ARRAY(struct kedge__symptom) symptoms;
};

void kedge__doctor_add(struct kedge__doctor *d, enum kedge__symptom_level level, const char *subject, const char *todo, const char *fmt, ...)
    KEDGE__PRINTF(5, 6);
bool kedge__doctor_command(const char *name); /* there is one of this name in $PATH */

void kedge__doctor_system(struct kedge__doctor *d);
void kedge__doctor_storage(struct kedge__doctor *d);
void kedge__doctor_around(struct kedge__doctor *d);

#endif
