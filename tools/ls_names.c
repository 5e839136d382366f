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

/* Every level that has the job; what is wrong with the others is its problem. */
static void job_open(const struct kedge__place_names names[KEDGE__PLACE_LEVELS], struct job *j, struct kedge__place *p)
{
	for (size_t i = 0; i < KEDGE__PLACE_LEVELS && names[i].store; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		int rc =
		    kedge__catalog_open(names[i].store, j->name, KEDGE__CATALOG_READ, &p->levels[p->level_count], &err);

		if (rc == 0)
			p->level_count++;
		else if (rc != KEDGE_E_NOTFOUND && !j->problem)
			j->problem = kedge__strdup(kedge__error_text(&err));
		kedge__error_done(&err);
	}
}

static void job_look(const struct kedge__place_names names[KEDGE__PLACE_LEVELS], struct job *j)
{
	struct kedge__place p = {0};
	uint64_t *versions;

	j->newest = KEDGE__NO_VERSION;
	job_open(names, j, &p);
	for (size_t i = 0; i < p.level_count; i++)
		j->stored += kedge__ls_job_bytes(p.levels[i]);
	versions = kedge__place_versions(&p, KEDGE__WITH_ABANDONED, &j->versions);
	for (size_t i = j->versions; i-- > 0 && j->newest == KEDGE__NO_VERSION;) {
		const struct kedge__catalog_entry *e = kedge__place_find(&p, versions[i]);

		if (e->problem.code)
			continue;
		j->newest = e->version;
		j->created_ns = e->set.created_ns;
		j->raw = kedge__set_sizes(&e->set).raw;
	}
	kedge__free(versions);
	kedge__place_done(&p);
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

/* The names of both levels, sorted, each once. They belong to NAMES. */
static struct job *jobs_of(const struct kedge__place_names names[KEDGE__PLACE_LEVELS], size_t *count)
{
	const struct kedge__place_names *a = &names[0], *b = &names[1];
	struct job *jobs = kedge__calloc(a->count + b->count + 1, sizeof(*jobs));
	size_t i = 0, k = 0, n = 0;

	if (!jobs)
		kedge__tool_no_memory();
	while (i < a->count || k < b->count) {
		int order = i == a->count ? 1 : k == b->count ? -1 : strcmp(a->at[i], b->at[k]);

		jobs[n++].name = order > 0 ? b->at[k] : a->at[i];
		i += order <= 0;
		k += order >= 0;
	}
	*count = n;
	return jobs;
}

static void print_jobs(const struct kedge__place *p, const struct kedge__usage *u,
		       const struct kedge__place_names names[KEDGE__PLACE_LEVELS], struct job *jobs, size_t n)
{
	for (size_t i = 0; i < n && (!p->quiet || p->json); i++)
		job_look(names, &jobs[i]);
	if (p->json)
		print_json(names[0].store, jobs, n);
	else if (!p->quiet)
		print_table(jobs, n);
	else
		for (size_t i = 0; i < n; i++)
			kedge__print(stdout, "%s\n", jobs[i].name);
	for (unsigned i = 0; i < KEDGE__PLACE_LEVELS && n; i++) /* with no job it has been said */
		if (names[i].problem.code)
			kedge__place_ignore(p, u, i + 1, &names[i].problem);
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].problem)
			kedge__tool_say(u->command, "cannot read %s: %s", jobs[i].name, jobs[i].problem);
		kedge__free(jobs[i].problem);
	}
}

int kedge__ls_names(struct kedge__place *p, const struct kedge__usage *u)
{
	struct kedge__place_names names[KEDGE__PLACE_LEVELS] = KEDGE__PLACE_NAMES_INIT;
	int status = kedge__place_names(p, u, KEDGE__PLACE_READ, names);
	bool plain = !p->json && !p->quiet;
	struct job *jobs = NULL;
	size_t n = 0;

	if (status)
		goto done;
	jobs = jobs_of(names, &n);
	if (n == 1 && plain) {
		p->only_name = kedge__strdup(jobs[0].name);
		if (!p->only_name)
			kedge__tool_no_memory();
	} else if (n == 0 && plain) {
		kedge__tool_say(u->command, "store %s has no versions yet", names[0].store);
	} else {
		print_jobs(p, u, names, jobs, n);
	}
done:
	kedge__free(jobs);
	kedge__place_names_done(names);
	return status;
}
