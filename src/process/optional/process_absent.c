/* SPDX-License-Identifier: BSD-3-Clause */
/* absent: what stands for the files of x86_64/ on other machines. */
#include "process/process.h"

const char *kedge__process_unsupported(void)
{
	return "whole processes can be captured on x86-64 Linux only";
}

void kedge__process_contents_done(struct kedge__process_contents *list)
{
	kedge__array_done(list);
}

struct kedge__process_tracker *kedge__process_tracker_new(void)
{
	return NULL;
}

void kedge__process_tracker_free(struct kedge__process_tracker *k)
{
	(void)k;
}

const char *kedge__process_tracker_why_not(const struct kedge__process_tracker *k)
{
	(void)k;
	return kedge__process_unsupported();
}

int kedge__process_capture(struct kedge__process_capture *c, struct kedge__error *err)
{
	(void)c;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "%s", kedge__process_unsupported());
}

int kedge__process_check(const struct kedge__process_image *image, struct kedge__error *err)
{
	(void)image;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "%s", kedge__process_unsupported());
}

int kedge__process_restart(struct kedge__process_restart *r, struct kedge__error *err)
{
	(void)r;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "%s", kedge__process_unsupported());
}

uint64_t kedge__process_started(pid_t pid)
{
	(void)pid;
	return 0;
}

char *kedge__process_boot(void)
{
	return kedge__strdup("");
}
