/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/job.h"

#include <stdio.h>
#include <stdlib.h>

bool kedge__relaunched(void)
{
	const char *launch = getenv("KEDGE_RUN_LAUNCH");

	return launch && strtol(launch, NULL, 10) > 1;
}

void kedge__journal_write(const char *fmt, ...)
{
	const char *path = getenv("KEDGE_RUN_JOURNAL");
	struct kedge__error err = KEDGE__ERROR_INIT;
	char line[8192];
	va_list ap;
	int n;

	if (!path || !path[0])
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	for (char *c = line; *c; c++) {
		if (*c == '\n' || *c == '\r')
			*c = '?'; /* one event, one line, whatever the paths hold */
	}
	if (kedge__fs_append_line(path, line, &err))
		kedge__log(KEDGE_LOG_WARNING, "the journal of kedge run: %s", kedge__error_text(&err));
	kedge__error_done(&err);
}
