/* SPDX-License-Identifier: BSD-3-Clause */
/* ls_names: the jobs of a store, and what their files take. */
#include "ls.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
	const char *name;
	size_t versions;
	uint64_t newest, created_ns, raw; /* of the newest one that can be read */
	uint64_t stored;
	char *problem; /* owned; NULL: none */
};

/* Manifests and segments: the catalogue has their sizes. */
static bool is_version(const char *name)
{
	return strncmp(name, "set-", 4) == 0 || (name[0] == 'v' && name[1] >= '0' && name[1] <= '9');
}

/* Without VERSIONS, of what does not belong to one. */
static uint64_t bytes_below(int parent, const char *name, bool versions)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t bytes = 0;
	struct dirent *entry;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    (!versions && is_version(entry->d_name)) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (S_ISDIR(st.st_mode))
			bytes += bytes_below(dirfd(dir), entry->d_name, true);
		else if (S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	}
	closedir(dir);
	return bytes;
}

uint64_t kedge__ls_job_bytes(const struct kedge__catalog *cat)
{
	int fd = open(kedge__catalog_store(cat), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t bytes = fd >= 0 ? bytes_below(fd, kedge__catalog_name(cat), false) : 0;

	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		bytes += e->file.bytes;
		bytes += e->problem.code ? 0 : kedge__set_sizes(&e->set).stored;
	}
	if (fd >= 0)
		close(fd);
	return bytes;
}

/* Without those that are there only because others refer to them. */
static size_t kept_count(const struct kedge__catalog *cat)
{
	size_t n = kedge__catalog_count(cat), kept = 0;
	uint8_t *spare = kedge__calloc(n + 1, 1);

	if (!spare || kedge__catalog_spare(cat, spare, NULL) != 0)
		kedge__tool_no_memory();
	for (size_t i = 0; i < n; i++)
		kept += !spare[i];
	kedge__free(spare);
	return kept;
}

static void job_look(const char *store, struct job *j)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat;

	j->newest = KEDGE__NO_VERSION;
	if (kedge__catalog_open(store, j->name, KEDGE__CATALOG_READ, &cat, &err) != 0) {
		j->problem = kedge__strdup(kedge__error_text(&err));
		kedge__error_done(&err);
		return;
	}
	j->stored = kedge__ls_job_bytes(cat);
	j->versions = kept_count(cat);
	for (size_t i = kedge__catalog_count(cat); i-- > 0 && j->newest == KEDGE__NO_VERSION;) {
		const struct kedge__set *set = &kedge__catalog_at(cat, i)->set;

		if (kedge__catalog_at(cat, i)->problem.code)
			continue;
		j->newest = set->version;
		j->created_ns = set->created_ns;
		for (uint32_t r = 0; r < set->ranks; r++)
			j->raw += set->parts[r].raw_bytes;
	}
	kedge__catalog_close(cat);
}

static void print_table(const struct job *jobs, size_t n)
{
	static const char *const heads[] = {"NAME", "VERSIONS", "NEWEST", "TIME", "RAW", "STORED"};
	char a[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	kedge__table_init(&t, "lrrlrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&t, "%s", heads[i]);
	for (size_t i = 0; i < n; i++) {
		const struct job *j = &jobs[i];

		kedge__table_text(&t, j->name);
		kedge__table_number(&t, j->versions);
		if (j->newest == KEDGE__NO_VERSION)
			kedge__table_text(&t, "-");
		else
			kedge__table_number(&t, j->newest);
		kedge__table_text(&t, j->created_ns ? kedge__text_time(j->created_ns, a) : "?");
		kedge__table_text(&t, kedge__text_bytes(j->raw, a));
		kedge__table_text(&t, kedge__text_bytes(j->stored, a));
	}
	kedge__table_print(&t, stdout);
}

static void print_json(const char *store, const struct job *jobs, size_t n)
{
	json_t *o = kedge__json_object(), *names = kedge__json_array(), *list = kedge__json_array();
	char time[KEDGE__TEXT_ROOM];

	for (size_t i = 0; i < n; i++) {
		const struct job *j = &jobs[i];
		json_t *one = kedge__json_object();

		kedge__json_add(names, kedge__json_string(j->name));
		kedge__json_text(one, "name", j->name);
		kedge__json_uint(one, "versions", j->versions);
		kedge__json_version(one, "newest", j->newest);
		kedge__json_text(one, "created", j->created_ns ? kedge__text_time_iso(j->created_ns, time) : NULL);
		kedge__json_uint(one, "raw_bytes", j->raw);
		kedge__json_uint(one, "stored_bytes", j->stored);
		kedge__json_text(one, "problem", j->problem);
		kedge__json_add(list, one);
	}
	kedge__json_text(o, "store", store);
	kedge__json_set(o, "names", names);
	kedge__json_set(o, "jobs", list);
	kedge__json_print(o);
}

static int print_jobs(const struct kedge__ls_names *l, char **names)
{
	struct job *jobs = kedge__calloc(l->count + 1, sizeof(*jobs));

	if (!jobs)
		kedge__tool_no_memory();
	for (size_t i = 0; i < l->count; i++) {
		jobs[i].name = names[i];
		if (!l->quiet || l->json)
			job_look(l->store, &jobs[i]);
	}
	if (l->json)
		print_json(l->store, jobs, l->count);
	else if (!l->quiet)
		print_table(jobs, l->count);
	else
		for (size_t i = 0; i < l->count; i++)
			kedge__print(stdout, "%s\n", names[i]);
	for (size_t i = 0; i < l->count; i++) {
		if (jobs[i].problem)
			kedge__tool_say(l->usage->command, "cannot read %s: %s", jobs[i].name, jobs[i].problem);
		kedge__free(jobs[i].problem);
	}
	kedge__free(jobs);
	return KEDGE__EXIT_OK;
}

int kedge__ls_names(struct kedge__ls_names *l, char **only)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = kedge__store_check(l->usage, l->store);
	char **names;

	*only = NULL;
	if (status)
		return status;
	if (kedge__store_names(l->store, &names, &l->count, &err) != 0)
		return kedge__tool_fail(l->usage->command, &err, "cannot list %s", l->store);
	if (l->count == 1 && !l->json && !l->quiet) {
		*only = kedge__strdup(names[0]);
		if (!*only)
			kedge__tool_no_memory();
	} else if (l->count == 0 && !l->json && !l->quiet) {
		kedge__tool_say(l->usage->command, "store %s has no versions yet", l->store);
	} else {
		status = print_jobs(l, names);
	}
	kedge__fs_list_free(names, l->count);
	return status;
}
