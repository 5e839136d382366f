/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench pack: how small a set of checkpoint files becomes, and how fast, by the schemes of `aggregate`, beside
 * gzip, zstd and h5repack, in one run. Everything is a process of its own, as a user starts it; nothing is synced.
 */
#include "bench_pack.h"
#include "save_files.h"
#include "tool_bench.h"
#include "tool_keyed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 64 /* groups of ranks by default, at most */
#define BATCH      256
#define TURNS_MAX  64
#define NOT_THERE  (-1.0)

extern char **environ;

struct row {
	char *name;
	const char *scheme; /* NULL: another program */
	uint64_t group;     /* ranks in one segment, or without ranks files; 0: no such thing */
	uint64_t bytes;
	double pack, unpack, one; /* seconds, the best of all turns; NOT_THERE: not measured */
};

struct pack {
	struct kedge__usage usage;
	uint64_t repeat;
	struct kedge__text_list groups, sets;
	const char *parent, *ranks;
	uint64_t rank_count;
	uint64_t middle; /* the rank that restarts alone */
	bool json, quick;
	struct kedge__walk walk;
	KEDGE__ARRAY(struct kedge__found *) files; /* with contents */
	uint64_t bytes;
	const char *dir;
	KEDGE__ARRAY(struct row) rows;
	char self[4096]; /* this program */
};

/* ------------------------------------------------------------------ processes and files */

/* PROGRAM with arguments, standard input from IN and output to OUT, unless they are NULL. Its exit status, or -1: there
 * is no such program. */
static int run(char *const *argv, const char *in, const char *out, double *seconds)
{
	posix_spawn_file_actions_t files;
	double start = kedge__clock_seconds();
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, in ? in : "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, out ? out : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (posix_spawnp(&pid, argv[0], &files, NULL, argv, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&files);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	*seconds += kedge__clock_seconds() - start;
	if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static char *path_in(const struct pack *b, const char *name)
{
	char *path = kedge__asprintf("%s/%s", b->dir, name);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t tree_sum;

static int tree_add(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)path, (void)at;
	tree_sum += kind == FTW_F ? (uint64_t)st->st_size : 0;
	return 0;
}

static uint64_t tree_bytes(const char *path)
{
	tree_sum = 0;
	(void)nftw(path, tree_add, 16, FTW_PHYS);
	return tree_sum;
}

/* All files one after the other. */
static int concatenate(const struct pack *b, const char *path, struct kedge__error *err)
{
	FILE *to = fopen(path, "we");
	char *buffer = kedge__malloc(1 << 20);
	bool good = to != NULL;
	size_t n;

	if (!buffer)
		kedge__tool_no_memory();
	for (size_t i = 0; good && i < b->files.count; i++) {
		FILE *from = fopen(b->files.at[i]->path, "re");

		while (from && good && (n = fread(buffer, 1, 1 << 20, from)) > 0)
			good = fwrite(buffer, 1, n, to) == n;
		good = good && from && !ferror(from);
		if (from)
			fclose(from);
	}
	if (to && fclose(to) != 0)
		good = false;
	kedge__free(buffer);
	return good ? 0 : kedge__error_set(err, KEDGE_E_IO, errno, "cannot put the files together in %s", path);
}

static bool same_contents(const char *a, const char *b)
{
	FILE *x = fopen(a, "re"), *y = fopen(b, "re");
	char p[65536], q[65536];
	size_t n = 1;
	bool same = x && y;

	while (same && n) {
		n = fread(p, 1, sizeof(p), x);
		same = fread(q, 1, sizeof(q), y) == n && memcmp(p, q, n) == 0;
	}
	if (x)
		fclose(x);
	if (y)
		fclose(y);
	return same;
}

/* ------------------------------------------------------------------ results */

static struct row *row_get(struct pack *b, const char *scheme, uint64_t group, const char *name)
{
	struct row fresh = {.scheme = scheme, .group = group, .pack = NOT_THERE, .unpack = NOT_THERE, .one = NOT_THERE};

	for (size_t i = 0; i < b->rows.count; i++)
		if (strcmp(b->rows.at[i].name, name) == 0 && b->rows.at[i].group == group)
			return &b->rows.at[i];
	fresh.name = kedge__strdup(name);
	if (!fresh.name || !kedge__array_push(&b->rows, fresh))
		kedge__tool_no_memory();
	return &b->rows.at[b->rows.count - 1];
}

static void keep_best(double *best, double seconds)
{
	if (*best < 0 || seconds < *best)
		*best = seconds;
}

/* ------------------------------------------------------------------ other programs */

/* A filter of the concatenation: PACK and UNPACK are its arguments. */
static int filter(struct pack *b, const char *name, char *const *pack, char *const *unpack, struct kedge__error *err)
{
	char *all = path_in(b, "all"), *packed = path_in(b, "packed"), *back = path_in(b, "back");
	double seconds = 0, other = 0;
	int status = run(pack, all, packed, &seconds), rc = 0;

	if (status == 0)
		status = run(unpack, packed, back, &other);
	if (status == 0 && !same_contents(all, back))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s did not give back what it got", name);
	if (!rc && status == 0) {
		struct row *r = row_get(b, NULL, 0, name);

		r->bytes = file_bytes(packed);
		keep_best(&r->pack, seconds);
		keep_best(&r->unpack, other);
	} else if (!rc) {
		(void)row_get(b, NULL, 0, name);
	}
	kedge__free(all);
	kedge__free(packed);
	kedge__free(back);
	return rc;
}

static void each_gzip(struct pack *b)
{
	char *packed = path_in(b, "packed"), *argv[BATCH + 4] = {"gzip", "-6", "-c"};
	struct row *r = row_get(b, NULL, 0, "gzip -6 of each file");
	double seconds = 0;
	uint64_t bytes = 0;
	int status = 0;

	for (size_t i = 0; i < b->files.count && status == 0; i += BATCH) {
		size_t n = KEDGE__MIN(BATCH, b->files.count - i);

		for (size_t k = 0; k < n; k++)
			argv[3 + k] = b->files.at[i + k]->path;
		argv[3 + n] = NULL;
		status = run(argv, NULL, packed, &seconds);
		bytes += file_bytes(packed);
	}
	if (status == 0) {
		r->bytes = bytes;
		keep_best(&r->pack, seconds);
	}
	kedge__free(packed);
}

static bool is_hdf5(const char *path)
{
	FILE *f = fopen(path, "re");
	char first[4] = {0};
	bool is = f && fread(first, 1, 4, f) == 4 && memcmp(first, "\x89HDF", 4) == 0;

	if (f)
		fclose(f);
	return is;
}

/* What is no HDF5 file, or cannot be repacked, is counted as it is. */
static void repack(struct pack *b)
{
	char *packed = path_in(b, "packed.h5"), *back = path_in(b, "back.h5");
	struct row *r = row_get(b, NULL, 0, "h5repack SHUF, GZIP=6");
	double seconds = 0, other = 0;
	uint64_t bytes = 0;
	size_t packs = 0;

	for (size_t i = 0; i < b->files.count; i++) {
		char *path = b->files.at[i]->path;
		char *pack[] = {"h5repack", "-f", "SHUF", "-f", "GZIP=6", path, packed, NULL};
		char *unpack[] = {"h5repack", "-f", "NONE", packed, back, NULL};
		bool done = is_hdf5(path) && run(pack, NULL, NULL, &seconds) == 0;

		bytes += file_bytes(done ? packed : path);
		if (done)
			(void)run(unpack, NULL, NULL, &other);
		packs += done;
		unlink(packed);
		unlink(back);
	}
	if (packs) {
		r->bytes = bytes;
		keep_best(&r->pack, seconds);
		keep_best(&r->unpack, other);
	}
	kedge__free(packed);
	kedge__free(back);
}

static int others(struct pack *b, struct kedge__error *err)
{
	static char *gzip[] = {"gzip", "-6", "-c", NULL}, *gunzip[] = {"gzip", "-dc", NULL};
	static char *zstd3[] = {"zstd", "-q", "-3", "-c", NULL}, *zstd19[] = {"zstd", "-q", "-19", "-c", NULL};
	static char *unzstd[] = {"zstd", "-q", "-dc", NULL};
	int rc = filter(b, "gzip -6", gzip, gunzip, err);

	if (!rc)
		rc = filter(b, "zstd -3", zstd3, unzstd, err);
	if (!rc && !b->quick)
		rc = filter(b, "zstd -19", zstd19, unzstd, err);
	if (rc)
		return rc;
	each_gzip(b);
	if (!b->quick)
		repack(b);
	return 0;
}

/* ------------------------------------------------------------------ schemes */

struct attempt { /* to save all files by one scheme, and get them back */
	struct pack *b;
	char *store, *back, *list;
	uint64_t group;
};

static int attempt_run(char *const *argv, double *seconds, struct kedge__error *err)
{
	int status = run(argv, NULL, NULL, seconds);

	return status == 0 ? 0 : kedge__error_set(err, KEDGE_E_IO, 0, "kedge %s ended with status %d", argv[1], status);
}

static int attempt_list(const struct attempt *a, struct kedge__error *err)
{
	FILE *f = fopen(a->list, "we");
	bool good = f != NULL;

	for (size_t i = 0; good && i < a->b->files.count; i++)
		good = fprintf(f, "%s%c", a->b->files.at[i]->path, 0) > 0;
	if (f && fclose(f) != 0)
		good = false;
	return good ? 0 : kedge__error_set(err, KEDGE_E_IO, errno, "cannot write %s", a->list);
}

static int attempt_save(const struct attempt *a, const char *scheme, double *seconds, struct kedge__error *err)
{
	char *aggregate = kedge__asprintf("aggregate=%s", scheme), group[32];
	char *argv[96] = {a->b->self, "save",          "-q",    "-s",      a->store, "-n",           "set",
			  "--set",    "sync=no",       "--set", aggregate, "--null", "--files-from", a->list,
			  "--set",    "codec_timed=no"}; /* as in a pack */
	size_t n = 16;
	int rc = aggregate ? attempt_list(a, err) : kedge__error_nomem(err);

	snprintf(group, sizeof(group), "%llu", (unsigned long long)a->group);
	if (a->b->ranks) {
		argv[n++] = "--ranks";
		argv[n++] = (char *)a->b->ranks;
		argv[n++] = "--group-size";
		argv[n++] = group;
	}
	for (size_t i = 0; i < a->b->sets.count && n + 3 < KEDGE__COUNT(argv); i++) {
		argv[n++] = "--set";
		argv[n++] = (char *)a->b->sets.at[i];
	}
	if (!rc)
		rc = attempt_run(argv, seconds, err);
	kedge__free(aggregate);
	return rc;
}

/* All files, or those of the rank in the middle; without ranks, the file there. */
static int attempt_restore(const struct attempt *a, bool one, double *seconds, struct kedge__error *err)
{
	const struct pack *b = a->b;
	const struct kedge__found *middle = b->files.at[b->files.count / 2];
	char *argv[16] = {(char *)b->self, "restore", "-q",    "-s",    a->store, "-n",
			  "set",           "-o",      a->back, "--set", "sync=no"};
	char rank[32];
	int rc;

	snprintf(rank, sizeof(rank), "%llu", (unsigned long long)b->middle);
	if (one && b->ranks) {
		argv[11] = "--rank";
		argv[12] = rank;
	} else if (one) {
		argv[11] = middle->entry.name;
	}
	rc = attempt_run(argv, seconds, err);
	for (size_t i = 0; i < b->files.count && !rc && !one; i++) {
		const struct kedge__found *f = b->files.at[i];
		char *path = kedge__asprintf("%s/%s", a->back, f->entry.name);

		if (!path || !same_contents(path, f->path))
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s was not restored as it was", f->path);
		kedge__free(path);
	}
	kedge__bench_dir_remove(a->back);
	return rc;
}

/* In groups of GROUP ranks; one of these restarts alone. */
static int scheme_run(struct pack *b, const char *scheme, uint64_t group, struct kedge__error *err)
{
	struct attempt a = {.b = b,
			    .store = path_in(b, "store"),
			    .back = path_in(b, "files"),
			    .list = path_in(b, "list"),
			    .group = group};
	struct row *r = row_get(b, scheme, group, scheme);
	double pack = 0, unpack = 0, one = 0;
	int rc = attempt_save(&a, scheme, &pack, err);

	if (!rc)
		rc = attempt_restore(&a, false, &unpack, err);
	if (!rc)
		rc = attempt_restore(&a, true, &one, err);
	if (!rc) {
		r->bytes = tree_bytes(a.store);
		keep_best(&r->pack, pack);
		keep_best(&r->unpack, unpack);
		keep_best(&r->one, one);
	}
	kedge__bench_dir_remove(a.store);
	kedge__free(a.store);
	kedge__free(a.back);
	kedge__free(a.list);
	return rc;
}

static int schemes_run(struct pack *b, uint64_t group, struct kedge__error *err)
{
	static const char *const schemes[] = {"off", "agnostic", "agnostic-block", "aware", "aware-block", "auto"};
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(schemes) && !rc; i++)
		rc = scheme_run(b, schemes[i], group, err);
	return rc;
}

/* All in one, then quarters, and so on; or as asked for. Without ranks, all in one. */
static int groups_run(struct pack *b, struct kedge__error *err)
{
	uint64_t n = b->ranks ? b->rank_count : b->files.count, last = 0;
	int rc = 0;

	if (!b->ranks)
		return schemes_run(b, n, err);
	for (size_t i = 0; i < b->groups.count && !rc; i++)
		rc = schemes_run(b, KEDGE__MIN(strtoull(b->groups.at[i], NULL, 10), n), err);
	for (uint64_t parts = 1; !b->groups.count && parts <= GROUPS_MAX && !rc; parts *= 4) {
		uint64_t group = (n + parts - 1) / parts;

		if (group != last)
			rc = schemes_run(b, group, err);
		last = group;
	}
	return rc;
}

static int measure(void *ctx, const char *dir, struct kedge__error *err)
{
	struct pack *b = ctx;
	char *all;
	int rc;

	b->dir = dir;
	all = path_in(b, "all");
	rc = concatenate(b, all, err);
	for (uint64_t turn = 0; turn < b->repeat && !rc; turn++) {
		rc = others(b, err);
		if (!rc)
			rc = groups_run(b, err);
	}
	kedge__free(all);
	return rc;
}

/* ------------------------------------------------------------------ output */

static void add_seconds(json_t *o, const char *key, double seconds)
{
	if (seconds >= 0)
		kedge__json_real(o, key, seconds);
}

static void print_json(const struct pack *b)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();
	const struct row *gzip = &b->rows.at[0];

	kedge__json_uint(o, "files", b->files.count);
	kedge__json_uint(o, "bytes", b->bytes);
	kedge__json_uint(o, "repeat", b->repeat);
	for (size_t i = 0; i < b->rows.count; i++) {
		const struct row *r = &b->rows.at[i];
		json_t *row = kedge__json_object();

		kedge__json_text(row, "name", r->name);
		if (r->group)
			kedge__json_uint(row, "group", r->group);
		kedge__json_uint(row, "bytes", r->bytes);
		if (r->bytes)
			kedge__json_real(row, "ratio", (double)b->bytes / (double)r->bytes);
		if (r->bytes && gzip->bytes)
			kedge__json_real(row, "ratio_over_gzip", (double)gzip->bytes / (double)r->bytes);
		if (r->pack > 0 && gzip->pack > 0)
			kedge__json_real(row, "speed_over_gzip", gzip->pack / r->pack);
		if (r->unpack > 0 && gzip->unpack > 0)
			kedge__json_real(row, "unpack_over_gunzip", gzip->unpack / r->unpack);
		add_seconds(row, "pack_seconds", r->pack);
		add_seconds(row, "unpack_seconds", r->unpack);
		add_seconds(row, "unpack_one_seconds", r->one);
		kedge__json_add(list, row);
	}
	kedge__json_set(o, "rows", list);
	kedge__json_print(o);
}

static void add_time(struct kedge__table *t, double seconds)
{
	if (seconds >= 0)
		kedge__table_add(t, "%.3f", seconds);
	else
		kedge__table_add(t, "-");
}

static void print_text(const struct pack *b)
{
	const struct row *gzip = &b->rows.at[0];
	char size[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	kedge__table_init(&t, "lrrrrrrrr");
	kedge__table_add(&t, "HOW");
	kedge__table_add(&t, "GROUP");
	kedge__table_add(&t, "BYTES");
	kedge__table_add(&t, "RATIO");
	kedge__table_add(&t, "OVER GZIP");
	kedge__table_add(&t, "PACK s");
	kedge__table_add(&t, "SPEED OVER GZIP");
	kedge__table_add(&t, "ALL BACK s");
	kedge__table_add(&t, "ONE BACK s");
	for (size_t i = 0; i < b->rows.count; i++) {
		const struct row *r = &b->rows.at[i];

		kedge__table_add(&t, "%s", r->name);
		kedge__table_add(&t, r->group ? "%llu" : "-", (unsigned long long)r->group);
		kedge__table_add(&t, r->bytes ? "%llu" : "not there", (unsigned long long)r->bytes);
		kedge__table_add(&t, r->bytes ? "%.2f" : "-", r->bytes ? (double)b->bytes / (double)r->bytes : 0);
		kedge__table_add(&t, r->bytes && gzip->bytes ? "%.2f" : "-",
				 r->bytes ? (double)gzip->bytes / (double)r->bytes : 0);
		add_time(&t, r->pack);
		kedge__table_add(&t, r->pack > 0 && gzip->pack > 0 ? "%.1f" : "-",
				 r->pack > 0 ? gzip->pack / r->pack : 0);
		add_time(&t, r->unpack);
		add_time(&t, r->one);
	}
	printf("%zu files, %s; times are the best of %llu\n\n", b->files.count, kedge__text_bytes(b->bytes, size),
	       (unsigned long long)b->repeat);
	kedge__table_print(&t, stdout);
}

/* ------------------------------------------------------------------ the run */

/* How many ranks there are, and which one has the file in the middle. */
static int count_ranks(struct pack *b, struct kedge__error *err)
{
	uint64_t highest = 0, rank;
	bool any = false;

	for (size_t i = 0; b->ranks && i < b->files.count; i++) {
		if (kedge__rank_of(b->ranks, b->files.at[i]->entry.name, &rank) != KEDGE__RANK_PRESENT)
			continue;
		any = true;
		highest = KEDGE__MAX(highest, rank);
		if (i <= b->files.count / 2)
			b->middle = rank;
	}
	if (b->ranks && !any)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "no file fits --ranks '%s'", b->ranks);
	b->rank_count = highest + 1; /* groups are counted from 0 on, whichever are there */
	return 0;
}

static int find_files(struct pack *b, int count, char **paths, struct kedge__error *err)
{
	int rc = 0;

	b->walk.command = b->usage.command;
	kedge__walk_begin(&b->walk, NULL);
	for (int i = 0; i < count && !rc; i++)
		rc = kedge__walk_add(&b->walk, paths[i], true, true, err);
	if (!rc)
		rc = kedge__walk_end(&b->walk, err);
	for (size_t i = 0; i < b->walk.found.count && !rc; i++) {
		struct kedge__found *f = &b->walk.found.at[i];

		if (f->entry.kind != KEDGE__TREE_FILE || !f->entry.size)
			continue;
		b->bytes += f->entry.size;
		if (!kedge__array_push(&b->files, f))
			kedge__tool_no_memory();
	}
	if (!rc && !b->files.count)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there are no files with contents");
	return rc ? rc : count_ranks(b, err);
}

static int bench(struct pack *b, int count, char **paths)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	int rc = n > 0 ? find_files(b, count, paths, &err)
		       : kedge__error_set(&err, KEDGE_E_IO, errno, "cannot find this program");

	if (!rc)
		rc = kedge__bench_dir_use(b->parent, measure, b, &err);
	if (rc)
		return kedge__tool_fail(b->usage.command, &err, "cannot measure");
	if (b->json)
		print_json(b);
	else
		print_text(b);
	return KEDGE__EXIT_OK;
}

static bool groups_valid(const struct pack *b)
{
	for (size_t i = 0; i < b->groups.count; i++) {
		char *end;

		if (strtoull(b->groups.at[i], &end, 10) < 1 || *end || b->groups.at[i][0] == '-')
			return false;
	}
	return true;
}

static int check_usage(struct pack *b, bool operands)
{
	if (!operands)
		return kedge__usage_error(&b->usage, "name a directory, or files");
	if (!b->repeat || b->repeat > TURNS_MAX)
		return kedge__usage_error(&b->usage, "--repeat must be from 1 to %d", TURNS_MAX);
	if (b->groups.count && !b->ranks)
		return kedge__usage_error(&b->usage,
					  "--group needs --ranks PATTERN: which part of a name is the rank?");
	if (!groups_valid(b))
		return kedge__usage_error(&b->usage, "--group must be a number of ranks");
	return kedge__ranks_check(&b->usage, b->ranks, KEDGE__GROUP_PRESET, false);
}

int kedge__bench_pack(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct pack b = {.repeat = 1, .parent = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"ranks", 0, KEDGE__OPTION_TEXT, &b.ranks, "PATTERN",
	     "names of files of ranks, with {} for the number, as of kedge save (default: all files in one segment)"},
	    {"group", 0, KEDGE__OPTION_LIST, &b.groups, "N",
	     "ranks in one segment; may be repeated (default: all, a quarter, a 16th and a 64th of them)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "measure so often, and print the best (default: 1)"},
	    {"quick", 0, KEDGE__OPTION_FLAG, &b.quick, NULL, "without zstd -19 and h5repack, which take long"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.parent, "DIR", "where files are written (default: $TMPDIR, or /tmp)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench pack",
	    .operands = "DIR|FILE...",
	    .about = "Packs checkpoint files of your own by each scheme of the setting aggregate, beside gzip -6, zstd "
		     "-3 and -19 of\n"
		     "their concatenation, gzip of each file, and h5repack with shuffle and deflate. Prints sizes, "
		     "times, the ratio\n"
		     "over gzip -6, and how long it takes to get all files back, or one. What comes back is compared.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench pack DD0004\n"
		       "kedge bench pack --ranks 'data*.cpu{}' --group 1 --group 8 --group 64 DD0004",
	};
	if (kedge__options_parse(&b.usage, argc, argv, &first, &status)) {
		status = check_usage(&b, first < argc);
		if (!status)
			status = bench(&b, argc - first, argv + first);
	}
	for (size_t i = 0; i < b.rows.count; i++)
		kedge__free(b.rows.at[i].name);
	kedge__array_done(&b.rows);
	kedge__array_done(&b.files);
	kedge__array_done(&b.groups);
	kedge__array_done(&b.sets);
	kedge__walk_done(&b.walk);
	return status;
}
