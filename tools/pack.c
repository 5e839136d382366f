/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge pack: files become one file, a self-contained segment. They are saved as ever, into a store of their own beside
 * the pack; its only segment gets the pack's name, and the rest of that store is removed.
 */
#include "pack_dir.h"
#include "save_files.h"
#include "tool_tree.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)

struct pack {
	struct kedge__usage usage;
	const char *out, *codec, *type, *block, *stdin_name, *ranks;
	uint64_t group_size;
	struct kedge__text_list sets, excludes, exclude_files, lists;
	bool force, json, quiet, nul, one_file_system, equal;
	bool to_stdout;
	KEDGE__ARRAY(char *) argv;  /* of the save; owned */
	char *name;                 /* of the job in it */
	struct kedge__pack_dir dir; /* a store, while it is made */
	struct kedge__set_part part;
	size_t files, equals; /* of files: some are equal */
	uint64_t bytes;       /* of files */
};

/* ------------------------------------------------------------------ names */

/* "runs/set 12.kpk" is set_12. */
static char *job_name(const char *out)
{
	const char *leaf = strrchr(out, '/');
	char *name = kedge__strdup(leaf ? leaf + 1 : out);
	size_t n;

	if (!name)
		kedge__tool_no_memory();
	n = strlen(name);
	if (n > 4 && strcmp(name + n - 4, ".kpk") == 0)
		name[n - 4] = '\0';
	for (char *p = name; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
			*p = '_';
	if (kedge__job_name_check(name, NULL) == 0)
		return name;
	kedge__free(name);
	name = kedge__strdup("pack");
	if (!name)
		kedge__tool_no_memory();
	return name;
}

/* The directory of the pack, so that its name is one rename away; for standard output, that of temporary files. */
static char *work_parent(const struct pack *p)
{
	const char *slash = p->to_stdout ? NULL : strrchr(p->out, '/');
	char *dir;

	if (p->to_stdout)
		dir = kedge__strdup(kedge__temporary_directory());
	else if (!slash)
		dir = kedge__strdup(".");
	else
		dir = slash == p->out ? kedge__strdup("/") : kedge__asprintf("%.*s", (int)(slash - p->out), p->out);
	if (!dir)
		kedge__tool_no_memory();
	return dir;
}

/* ------------------------------------------------------------------ the save */

static void argument(struct pack *p, const char *text)
{
	char *copy = text ? kedge__strdup(text) : NULL;

	if ((text && !copy) || !kedge__array_push(&p->argv, copy))
		kedge__tool_no_memory();
}

static void option(struct pack *p, const char *name, const char *value)
{
	char *text = value ? kedge__asprintf("--%s=%s", name, value) : NULL;

	if (!value)
		return;
	if (!text || !kedge__array_push(&p->argv, text))
		kedge__tool_no_memory();
}

static void options(struct pack *p, const char *name, const struct kedge__text_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		option(p, name, list->at[i]);
}

/* A store that nobody else has: no second level, nothing that others of the job would have to do. */
static void make_arguments(struct pack *p, char *const *paths, size_t n)
{
	argument(p, "save");
	option(p, "store", p->dir.path);
	option(p, "name", p->name);
	argument(p, "--init");
	argument(p, "--quiet");
	option(p, "chunk", "4k"); /* what it notes of chunks is small beside memory, however large the files are */
	option(p, "set", "codec_timed=no"); /* the same files make the same pack */
	options(p, "set", &p->sets);
	option(p, "set", "l2=");
	option(p, "set", "protect=single");
	option(p, "set", "sync=no"); /* of all that is written, the pack alone counts: it is synced when it is whole */
	option(p, "codec", p->codec);
	option(p, "type", p->type);
	option(p, "block", p->block);
	option(p, "stdin-name", p->stdin_name);
	options(p, "exclude", &p->excludes);
	options(p, "exclude-from", &p->exclude_files);
	options(p, "files-from", &p->lists);
	if (p->nul)
		argument(p, "--null");
	if (p->one_file_system)
		argument(p, "--one-file-system");
	if (p->equal)
		argument(p, "--equal");
	argument(p, "--");
	for (size_t i = 0; i < n; i++)
		argument(p, paths[i]);
	argument(p, NULL);
}

/* ------------------------------------------------------------------ from the segment to the pack */

/* The mode of any file that this user makes. */
static int make_public(const char *path, struct kedge__error *err)
{
	mode_t mask = umask(0);

	umask(mask);
	return kedge__fs_set_path_mode(path, 0666 & ~mask, err);
}

static bool is_synced(const struct pack *p)
{
	struct kedge__job_settings settings;
	bool sync;

	if (kedge__tool_settings(NULL, false, &p->sets, &settings, NULL) != 0)
		return true;
	sync = settings.sync;
	kedge__job_settings_done(&settings);
	return sync;
}

static int sync_segment(const char *segment, struct kedge__error *err)
{
	int fd, rc = kedge__fs_open_read(segment, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_sync(fd, segment, err);
	kedge__fs_close(fd);
	return rc;
}

static int give_name(const struct pack *p, const char *segment, struct kedge__error *err)
{
	char *dir;
	int rc = make_public(segment, err);

	if (!rc && is_synced(p))
		rc = sync_segment(segment, err);
	if (!rc && !p->force && kedge__fs_exists(p->out))
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "%s has appeared meanwhile", p->out);
	if (!rc)
		rc = kedge__fs_rename(segment, p->out, err);
	if (rc)
		return rc;
	dir = work_parent(p);
	rc = kedge__fs_sync_dir(dir, err);
	kedge__free(dir);
	return rc;
}

static int print_segment(const char *segment, struct kedge__error *err)
{
	uint8_t *buffer = kedge__malloc(COPY_BYTES);
	uint64_t at = 0, bytes = 0;
	int fd = -1, rc = buffer ? kedge__fs_open_read(segment, &fd, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__fs_size(fd, &bytes, segment, err);
	while (!rc && at < bytes) {
		size_t n = (size_t)KEDGE__MIN((uint64_t)COPY_BYTES, bytes - at);

		rc = kedge__fs_pread(fd, buffer, n, at, segment, err);
		if (!rc && fwrite(buffer, 1, n, stdout) != n)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot write to standard output");
		at += n;
	}
	kedge__fs_close(fd);
	kedge__free(buffer);
	return rc;
}

/* How many bytes the files have, if not all are in it as they are. */
static int count_files(struct pack *p, struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	struct kedge__lineage *l = NULL;
	struct kedge__tree tree = {0};
	bool present;
	int rc = p->equal ? kedge__lineage_open(&cat, 1, version, 0, &l, err) : 0;

	p->bytes = p->part.raw_bytes;
	if (!rc && p->equal)
		rc = kedge__tool_tree_read(l, NULL, (struct kedge__io){0}, &tree, &present, NULL, err);
	if (!rc && p->equal)
		p->bytes = 0;
	for (size_t i = 0; i < tree.list.count; i++) {
		const struct kedge__tree_entry *e = &tree.list.at[i];

		p->bytes += e->kind == KEDGE__TREE_FILE ? e->size : 0;
		p->equals += (e->flags & KEDGE__TREE_PLAIN) != 0;
	}
	kedge__tree_done(&tree);
	kedge__lineage_close(l);
	return rc;
}

static int take_segment(struct pack *p, struct kedge__catalog *cat, struct kedge__error *err)
{
	const struct kedge__catalog_entry *e = kedge__catalog_count(cat) ? kedge__catalog_at(cat, 0) : NULL;
	struct kedge__segment *seg;
	char *path;
	int rc;

	if (!e || e->problem.code)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "nothing was saved in %s", p->dir.path);
	path = kedge__segment_path(cat, e->version, 0, e->set.parts[0].generation);
	if (!path)
		kedge__tool_no_memory();
	p->part = e->set.parts[0];
	rc = kedge__segment_open(cat, path, &p->part, &seg, err);
	if (!rc) {
		p->files = seg->region_count - 1; /* the tree is one */
		kedge__segment_close(seg);
		rc = count_files(p, cat, e->version, err);
	}
	if (!rc)
		rc = p->to_stdout ? print_segment(path, err) : give_name(p, path, err);
	kedge__free(path);
	return rc;
}

static int finish(struct pack *p)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat = NULL;
	int rc = kedge__catalog_open(p->dir.path, p->name, KEDGE__CATALOG_READ, &cat, &err);

	if (!rc)
		rc = take_segment(p, cat, &err);
	kedge__catalog_close(cat);
	return rc ? kedge__tool_fail(p->usage.command, &err, "cannot make %s", p->out) : 0;
}

/* ------------------------------------------------------------------ all of it */

static void print_result(const struct pack *p, double seconds)
{
	char raw[KEDGE__TEXT_ROOM], stored[KEDGE__TEXT_ROOM], ratio[KEDGE__TEXT_ROOM], time[KEDGE__TEXT_ROOM];
	char files[KEDGE__TEXT_ROOM], equal[KEDGE__TEXT_ROOM] = "";
	json_t *o;

	if (p->equal)
		snprintf(equal, sizeof(equal), " (%zu equal)", p->equals);

	if (!p->json) {
		if (!p->quiet && !p->to_stdout)
			kedge__print(stdout, "%s: %s%s, %s in %s (%s), %s\n", p->out,
				     kedge__text_count(p->files, "file", "files", files), equal,
				     kedge__text_bytes(p->bytes, raw), kedge__text_bytes(p->part.file_bytes, stored),
				     kedge__text_ratio(p->bytes, p->part.file_bytes, ratio),
				     kedge__text_seconds(seconds, time));
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "pack", p->out);
	kedge__json_text(o, "name", p->name);
	kedge__json_uint(o, "files", p->files);
	if (p->equal)
		kedge__json_uint(o, "equal", p->equals);
	kedge__json_uint(o, "raw_bytes", p->bytes);
	kedge__json_uint(o, "stored_bytes", p->part.file_bytes);
	kedge__json_real(o, "seconds", seconds);
	kedge__json_print(o);
}

/* What the user asked for with a signal, once all is cleaned up. */
static void end_by(int sig)
{
	fflush(NULL);
	signal(sig, SIG_DFL);
	raise(sig);
}

static int pack(struct pack *p, char *const *paths, size_t n)
{
	const struct kedge__save_as as = {.command = p->usage.command, .explain = !p->quiet && !p->json};
	struct kedge__error err = KEDGE__ERROR_INIT;
	double began = kedge__clock_seconds();
	char *parent = work_parent(p);
	int status, done, stopped = 0;

	if (kedge__pack_dir_open(parent, p->to_stdout ? "kedge-pack" : ".kedge-pack", &p->dir, &err) != 0) {
		kedge__free(parent);
		return kedge__tool_fail(p->usage.command, &err, "cannot make %s", p->out);
	}
	kedge__free(parent);
	p->name = job_name(p->to_stdout ? "pack" : p->out);
	make_arguments(p, paths, n);
	status = kedge__save_child(&as, p->argv.at, &stopped);
	if (!stopped && (status == KEDGE__EXIT_OK || status == KEDGE__EXIT_NO)) {
		done = finish(p);
		if (done == 0)
			print_result(p, kedge__clock_seconds() - began);
		status = done ? done : status;
	}
	kedge__pack_dir_close(&p->dir);
	if (stopped)
		end_by(stopped);
	return status;
}

static int check_usage(const struct pack *p, bool operands)
{
	if (!p->out || !*p->out)
		return kedge__usage_error(&p->usage,
					  "-o PACK is missing: the file to make, or '-' for standard output");
	if (p->ranks || p->group_size != KEDGE__GROUP_PRESET)
		return kedge__usage_error(
		    &p->usage, "a pack is one file, whatever ranks its files are of: 'kedge save --ranks' makes "
			       "one segment of each group of them, in a store");
	if (!operands && !p->lists.count)
		return kedge__usage_error(&p->usage, "no files given");
	if (p->nul && !p->lists.count)
		return kedge__usage_error(&p->usage, "--null needs --files-from");
	if (p->to_stdout && p->json)
		return kedge__usage_error(&p->usage, "-o - cannot be combined with --json");
	if (p->to_stdout && isatty(STDOUT_FILENO) && !p->force)
		return kedge__usage_error(&p->usage, "a pack is not for a terminal; --force writes it there");
	if (!p->to_stdout && !p->force && kedge__fs_exists(p->out))
		return kedge__usage_error(&p->usage, "%s is there already; --force replaces it", p->out);
	return 0;
}

int kedge__tool_pack(int argc, char **argv)
{
	struct pack p = {.group_size = KEDGE__GROUP_PRESET};
	const struct kedge__option options[] = {
	    {"output", 'o', KEDGE__OPTION_TEXT, &p.out, "PACK", "the file to make; '-': standard output"},
	    {"force", 'f', KEDGE__OPTION_FLAG, &p.force, NULL, "replace PACK if it is there already"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &p.codec, "CODEC",
	     "none, lz4, zstd:9, shuffle+zstd, ... (see kedge info), auto or max"},
	    {"block", 0, KEDGE__OPTION_TEXT, &p.block, "BYTES", "bytes that are compressed and checksummed as a unit"},
	    {"type", 0, KEDGE__OPTION_TEXT, &p.type, "TYPE",
	     "type of the data: bytes, i8..i64, u8..u64, f16, bf16, f32, f64, c64, c128"},
	    {"exclude", 'e', KEDGE__OPTION_LIST, &p.excludes, "PATTERN",
	     "leave out what fits PATTERN: '*.o', 'cache/', '/home/*/tmp'; may be repeated"},
	    {"exclude-from", 0, KEDGE__OPTION_LIST, &p.exclude_files, "FILE", "a pattern on each line of FILE"},
	    {"files-from", 0, KEDGE__OPTION_LIST, &p.lists, "FILE",
	     "pack what FILE names, one on each line; '-' for standard input;\ndirectories without what is in them"},
	    {"null", '0', KEDGE__OPTION_FLAG, &p.nul, NULL, "with --files-from: names end in NUL, as of find -print0"},
	    {"one-file-system", 'x', KEDGE__OPTION_FLAG, &p.one_file_system, NULL,
	     "do not go into directories where another file system is mounted"},
	    {"equal", 0, KEDGE__OPTION_FLAG, &p.equal, NULL,
	     "unpack what HDF5 files keep packed, and pack it again when they are unpacked: they\n"
	     "are equal then to whoever reads them, but maybe not the same bytes"},
	    {"ranks", 0, KEDGE__OPTION_TEXT, &p.ranks, "PATTERN", "refused: a pack is one file; see kedge save"},
	    {"group-size", 0, KEDGE__OPTION_UINT, &p.group_size, "G", "the same"},
	    {"stdin-name", 0, KEDGE__OPTION_TEXT, &p.stdin_name, "NAME", "what '-' is called (default: stdin)"},
	    KEDGE__OPTION_SET(&p.sets),
	    KEDGE__OPTION_JSON(&p.json),
	    KEDGE__OPTION_QUIET(&p.quiet),
	};
	int first, status;

	p.usage = (struct kedge__usage){
	    .command = "kedge pack",
	    .operands = "[FILE|DIR|-]...",
	    .about =
		"Makes one file, PACK, of files and directories with all that is in them: compressed, with checksums,\n"
		"modes, times, links and holes. 'kedge unpack' takes all or some of them out again; ls, show, verify "
		"and\n"
		"cat look into it. PACK appears when it is whole, or not at all. Names are made relative, as of kedge "
		"save.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge pack -o run12.kpk checkpoints/step12\n"
		       "kedge pack -o - results | ssh elsewhere 'cat >results.kpk'",
	};
	if (kedge__options_parse(&p.usage, argc, argv, &first, &status)) {
		p.to_stdout = p.out && strcmp(p.out, "-") == 0;
		status = check_usage(&p, first < argc);
		if (status == 0)
			status = pack(&p, argv + first, (size_t)(argc - first));
	}
	for (size_t i = 0; i < p.argv.count; i++)
		kedge__free(p.argv.at[i]);
	kedge__array_done(&p.argv);
	kedge__free(p.name);
	kedge__array_done(&p.sets);
	kedge__array_done(&p.excludes);
	kedge__array_done(&p.exclude_files);
	kedge__array_done(&p.lists);
	return status;
}
