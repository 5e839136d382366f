/* SPDX-License-Identifier: BSD-3-Clause */
/* settings: the configuration as the tools see it. */
#include "tool.h"
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

char *kedge__tool_literal(const char *path)
{
	char *text = kedge__malloc(2 * strlen(path) + 3), *to = text;

	if (!text)
		kedge__tool_no_memory();
	if (*path == '~') {
		*to++ = '.';
		*to++ = '/';
	}
	for (; *path; path++) {
		if (*path == '$' || *path == '%')
			*to++ = *path;
		*to++ = *path;
	}
	*to = '\0';
	return text;
}

int kedge__tool_settings(const char *store, bool l2, const struct kedge__text_list *sets, struct kedge__job_settings *s,
			 struct kedge__error *err)
{
	return kedge__tool_settings_of(store, l2, l2 ? 0 : KEDGE__RANK_NONE, sets, s, err);
}

int kedge__tool_settings_of(const char *store, bool l2, int rank, const struct kedge__text_list *sets,
			    struct kedge__job_settings *s, struct kedge__error *err)
{
	size_t n = 0, count = sets ? sets->count : 0;
	char *path = store ? kedge__tool_literal(store) : NULL, *l1 = path ? kedge__asprintf("l1=%s", path) : NULL;
	struct kedge__job_sources from = {.call = "--set", .rank = rank};
	const char **overrides = kedge__calloc(count + 3, sizeof(*overrides));
	int rc;

	if (!overrides || (store && !l1))
		kedge__tool_no_memory();
	if (l1)
		overrides[n++] = l1;
	if (l1 && !l2)
		overrides[n++] = "l2=";
	for (size_t i = 0; i < count; i++)
		overrides[n++] = sets->at[i];
	from.overrides = overrides;
	rc = kedge__job_settings_load(&from, s, err);
	kedge__free(overrides);
	kedge__free(path);
	kedge__free(l1);
	return rc;
}

int kedge__tool_threads(const struct kedge__job_settings *s)
{
	cpu_set_t set;

	if (s->threads > 0)
		return (int)KEDGE__MIN(s->threads, 1024);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return KEDGE__MAX(CPU_COUNT(&set), 1);
	return (int)KEDGE__MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

int kedge__tool_pool(const struct kedge__job_settings *s, struct kedge__pool **pool, struct kedge__error *err)
{
	return kedge__pool_new(kedge__tool_threads(s), pool, err);
}

void kedge__tool_raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}
