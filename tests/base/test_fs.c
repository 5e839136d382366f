/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *below(const struct scratch *s, const char *name)
{
	char *path = kedge__asprintf("%s/%s", s->dir, name);

	assert_non_null(path);
	return path;
}

static void create_is_exclusive(void **state)
{
	struct scratch *s = *state;
	char *expected = kedge__asprintf("cannot create %s: File exists", s->file);
	int fd = -7;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	kedge__fs_close(fd);
	fd = -7;
	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(s->err.sys_errno, EEXIST);
	assert_int_equal(fd, -7);
	kedge__free(expected);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 0777;
}

/* Whatever the umask would allow: files and directories are their owner's alone. */
static void nobody_else_may_read(void **state)
{
	struct scratch *s = *state;
	char *dir = below(s, "a/b"), *parent = below(s, "a"), *lock = below(s, "lock"), *public = below(s, "public");
	mode_t old = umask(0);
	int fd;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(mode_of(s->file), 0600);
	assert_int_equal(kedge__fs_set_mode(fd, 0640, s->file, &s->err), 0);
	assert_int_equal(mode_of(s->file), 0640);
	kedge__fs_close(fd);
	assert_int_equal(kedge__fs_open_lock(lock, &fd, &s->err), 0);
	assert_int_equal(mode_of(lock), 0600);
	kedge__fs_close(fd);
	assert_int_equal(kedge__fs_mkdirs(dir, &s->err), 0);
	assert_int_equal(mode_of(dir), 0700);
	assert_int_equal(mode_of(parent), 0700);
	umask(022);
	assert_int_equal(kedge__fs_create_public(public, &fd, &s->err), 0);
	assert_int_equal(mode_of(public), 0644);
	kedge__fs_close(fd);
	umask(old);
	unlink(lock), unlink(public), rmdir(dir), rmdir(parent);
	kedge__free(dir), kedge__free(parent), kedge__free(lock), kedge__free(public);
}

/* What is opened must be a file. A FIFO that nobody writes to would be waited for. */
static void only_regular_files_are_opened(void **state)
{
	struct scratch *s = *state;
	char *fifo = below(s, "fifo"), *link = below(s, "link"), *expected;
	int fd = -7;

	expected = kedge__asprintf("%s is not a regular file", fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(kedge__fs_open_read(fifo, &fd, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(kedge__fs_open_lock(fifo, &fd, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(kedge__fs_open_direct(fifo, &fd, &s->err), KEDGE_E_IO);
	assert_int_equal(kedge__fs_append_line(fifo, "x", &s->err), KEDGE_E_IO);
	assert_int_equal(kedge__fs_open_read("/dev/null", &fd, &s->err), KEDGE_E_IO);
	assert_int_equal(kedge__fs_open_read(s->dir, &fd, &s->err), KEDGE_E_IO);
	assert_int_equal(fd, -7);
	assert_false(kedge__fs_is_file(fifo));
	/* A link to a file is a file to read; and reads of it wait as reads do. */
	file_write(s->file, "x", 1);
	assert_int_equal(symlink(s->file, link), 0);
	assert_int_equal(kedge__fs_open_read(link, &fd, &s->err), 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	kedge__fs_close(fd);
	assert_true(kedge__fs_is_file(s->file));
	assert_false(kedge__fs_is_file(link));
	unlink(fifo), unlink(link);
	kedge__free(fifo), kedge__free(link), kedge__free(expected);
}

static void a_path_is_made_absolute(void **state)
{
	struct scratch *s = *state;
	char here[4096], *path, *expected;

	assert_non_null(getcwd(here, sizeof(here)));
	expected = kedge__asprintf("%s/a/../b", here);
	assert_int_equal(kedge__fs_absolute("a/../b", &path, &s->err), 0);
	assert_string_equal(path, expected);
	kedge__free(path), kedge__free(expected);
	assert_int_equal(kedge__fs_absolute("/a/b", &path, &s->err), 0);
	assert_string_equal(path, "/a/b");
	kedge__free(path);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(kedge__fs_absolute("a", &path, &s->err), 0);
	assert_string_equal(path, "/a");
	kedge__free(path);
	assert_int_equal(chdir(here), 0);
}

static void write_and_read_back(void **state)
{
	struct scratch *s = *state;
	char buffer[8] = "";
	uint64_t bytes;
	int fd;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_write(fd, "abc", 3, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_write(fd, "def", 3, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_write(fd, "", 0, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_pwrite(fd, "X", 1, 1, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_sync(fd, s->file, &s->err), 0);
	assert_file(s->file, "aXcdef");
	assert_int_equal(kedge__fs_truncate(fd, 4, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_size(fd, &bytes, s->file, &s->err), 0);
	assert_int_equal(bytes, 4);
	kedge__fs_close(fd);
	assert_int_equal(kedge__fs_open_read(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_pread(fd, buffer, 3, 1, s->file, &s->err), 0);
	assert_string_equal(buffer, "Xcd");
	kedge__fs_close(fd);
}

static void short_pwrite_goes_on_where_it_stopped(void **state)
{
	struct scratch *s = *state;
	int fd;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_write(fd, "..........", 10, s->file, &s->err), 0);
	kedge__fault_set("short@1", NULL);
	assert_int_equal(kedge__fs_pwrite(fd, "abcd", 4, 3, s->file, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 2);
	kedge__fs_close(fd);
	assert_file(s->file, "...abcd...");
}

/* A pipe cannot be synced, which for data is an error; nor can a directory of /proc, which has nothing to lose. */
static void sync_that_cannot_be(void **state)
{
	struct scratch *s = *state;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(kedge__fs_sync(ends[1], "pipe", &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, "cannot sync pipe: Invalid argument");
	close(ends[0]);
	close(ends[1]);
	if (access("/proc/self", F_OK) == 0)
		assert_int_equal(kedge__fs_sync_dir("/proc/self", &s->err), 0);
	else
		print_message("there is no /proc here, whose directories cannot be synced\n");
	file_write(s->file, "", 0);
	assert_int_equal(kedge__fs_sync_dir(s->file, &s->err), KEDGE_E_IO);
}

static void reading_past_the_end_is_damage(void **state)
{
	struct scratch *s = *state;
	char *expected = kedge__asprintf("%s is cut short: 2 more bytes expected at 4", s->file);
	char buffer[8];
	int fd;

	file_write(s->file, "abcd", 4);
	assert_int_equal(kedge__fs_open_read(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_pread(fd, buffer, 4, 2, s->file, &s->err), KEDGE_E_DAMAGED);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(kedge__fs_pread(fd, buffer, 1, UINT64_MAX - 1, s->file, &s->err), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__fs_pread(fd, buffer, 8, INT64_MAX, s->file, &s->err), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__fs_pread(fd, buffer, 0, 100, s->file, &s->err), 0);
	kedge__fs_close(fd);
	kedge__free(expected);
}

static void pieces_are_read_one_after_the_other(void **state)
{
	struct scratch *s = *state;
	char a[4] = "", b[4] = "";
	struct iovec to[] = {{b, 0}, {a, 2}, {a, 0}, {b, 3}, {b, 0}}, more[] = {{a, 2}, {b, 3}}, bad = {NULL, 4};
	int fd;

	file_write(s->file, "abcdef", 6);
	assert_int_equal(kedge__fs_open_read(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_preadv(fd, to, 5, 1, s->file, &s->err), 0);
	assert_string_equal(a, "bc");
	assert_string_equal(b, "def");
	assert_int_equal(kedge__fs_preadv(fd, more, 2, 2, s->file, &s->err), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__fs_preadv(fd, &bad, 1, 0, s->file, &s->err), KEDGE_E_IO);
	assert_int_equal(s->err.sys_errno, EFAULT);
	kedge__fs_close(fd);
}

static void offsets_too_large_are_refused(void **state)
{
	struct scratch *s = *state;
	int fd;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_pwrite(fd, "a", 1, INT64_MAX, s->file, &s->err), KEDGE_E_IO);
	assert_int_equal(s->err.sys_errno, EFBIG);
	assert_int_equal(kedge__fs_truncate(fd, UINT64_MAX, s->file, &s->err), KEDGE_E_IO);
	assert_int_equal(kedge__fs_allocate(fd, UINT64_MAX, s->file, &s->err), KEDGE_E_IO);
	kedge__fs_close(fd);
	assert_file(s->file, "");
}

static void allocate_gives_the_length(void **state)
{
	struct scratch *s = *state;
	uint64_t bytes = 1;
	int fd;

	assert_int_equal(kedge__fs_create(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_allocate(fd, 0, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_size(fd, &bytes, s->file, &s->err), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(kedge__fs_allocate(fd, 12345, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_size(fd, &bytes, s->file, &s->err), 0);
	assert_int_equal(bytes, 12345);
	kedge__fs_close(fd);
}

static void device_full(void **state)
{
	struct scratch *s = *state;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		skip();
	assert_int_equal(kedge__fs_write(fd, "x", 1, "/dev/full", &s->err), KEDGE_E_NOSPACE);
	kedge__fs_close(fd);
	assert_string_equal(s->err.text, "cannot write /dev/full: No space left on device");
}

static void missing_file(void **state)
{
	struct scratch *s = *state;
	char **names = NULL;
	size_t count = 3;
	int fd = -7;

	assert_int_equal(kedge__fs_open_read(s->file, &fd, &s->err), KEDGE_E_MISSING);
	assert_int_equal(fd, -7);
	assert_int_equal(kedge__fs_list(s->file, &names, &count, &s->err), KEDGE_E_MISSING);
	assert_null(names);
	assert_int_equal(count, 3);
	assert_int_equal(kedge__fs_rename(s->file, s->dir, &s->err), KEDGE_E_MISSING);
	assert_int_equal(kedge__fs_sync_dir(s->file, &s->err), KEDGE_E_MISSING);
	assert_int_equal(kedge__fs_unlink(s->file, &s->err), 0);
	assert_int_equal(kedge__fs_rmdir(s->file, &s->err), 0);
	kedge__fs_close(-1);
}

static void append_adds_lines(void **state)
{
	struct scratch *s = *state;

	assert_int_equal(kedge__fs_append_line(s->file, "one", &s->err), 0);
	assert_int_equal(kedge__fs_append_line(s->file, "two\n", &s->err), 0);
	assert_int_equal(kedge__fs_append_line(s->file, "", &s->err), 0);
	assert_file(s->file, "one\ntwo\n\n");
}

static void lock_file_is_created_once(void **state)
{
	struct scratch *s = *state;
	int fd;

	kedge__fault_set(NULL, NULL);
	assert_int_equal(kedge__fs_open_lock(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 1);
	assert_int_equal(kedge__fs_pwrite(fd, "me", 2, 0, s->file, &s->err), 0);
	kedge__fs_close(fd);
	assert_int_equal(kedge__fs_open_lock(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 2);
	kedge__fs_close(fd);
	assert_file(s->file, "me");
}

static void mkdirs_makes_all(void **state)
{
	struct scratch *s = *state;
	char *deep = below(s, "a//b/c/"), *leaf = below(s, "a/b/c");

	kedge__fault_set(NULL, NULL);
	assert_int_equal(kedge__fs_mkdirs(deep, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 6);
	assert_true(kedge__fs_exists(leaf));
	assert_int_equal(kedge__fs_mkdirs(leaf, &s->err), 0);
	assert_int_equal(kedge__fs_mkdirs("/", &s->err), 0);
	assert_int_equal(kedge__fs_mkdirs(".", &s->err), 0);
	assert_int_equal(kedge__fault_count(), 6);
	assert_int_equal(kedge__fs_mkdirs("", &s->err), KEDGE_E_MISSING);
	kedge__free(leaf);
	kedge__free(deep);
}

static int make_relative(void *ctx)
{
	const struct scratch *s = ctx;

	return chdir(s->dir) == 0 ? -kedge__fs_mkdirs("x/y", NULL) : 100;
}

static void mkdirs_of_relative_path(void **state)
{
	struct scratch *s = *state;
	char *made = below(s, "x/y");

	assert_int_equal(in_child(make_relative, s), 0);
	assert_true(kedge__fs_exists(made));
	kedge__free(made);
}

static void mkdirs_over_a_file(void **state)
{
	struct scratch *s = *state;
	char *deep = below(s, "file/sub");
	char *expected = kedge__asprintf("%s is a file, not a directory", s->file);

	file_write(s->file, "x", 1);
	assert_int_equal(kedge__fs_mkdirs(s->file, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(kedge__fs_mkdirs(deep, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	kedge__free(expected);
	kedge__free(deep);
}

/* Makes and removes the directory PATH, until it is killed. */
static void come_and_go(const char *path)
{
	for (;;) {
		(void)mkdir(path, 0777);
		(void)rmdir(path);
	}
}

/* A rank that fails removes the directory of a version, which another one makes at this moment. */
static void mkdir_of_what_comes_and_goes(void **state)
{
	struct scratch *s = *state;
	char *path = below(s, "v1");
	pid_t other = fork();

	assert_true(other >= 0);
	if (!other)
		come_and_go(path);
	for (int i = 0; i < 5000; i++) {
		int rc = kedge__fs_make_dir(path, &s->err);

		if (rc)
			kill(other, SIGKILL);
		assert_int_equal(rc, 0);
		(void)rmdir(path);
	}
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
	(void)rmdir(path);
	kedge__free(path);
}

static void long_paths(void **state)
{
	struct scratch *s = *state;
	char name[201];
	char *path = kedge__strdup(s->dir);
	int fd;

	memset(name, 'n', 200);
	name[200] = '\0';
	for (int i = 0; i < 15; i++) {
		char *longer = kedge__asprintf("%s/%s", path, name);

		kedge__free(path);
		path = longer;
	}
	assert_true(strlen(path) > 3000);
	assert_int_equal(kedge__fs_mkdirs(path, &s->err), 0);
	assert_int_equal(kedge__fs_sync_dir(path, &s->err), 0);
	assert_int_equal(kedge__fs_create(path, &fd, &s->err), KEDGE_E_IO);
	assert_non_null(strstr(s->err.text, path));
	kedge__free(path);
}

static void list_is_sorted(void **state)
{
	static const char *const names[] = {"b", "a", ".hidden", "c.tmp"};
	static const char *const sorted[] = {".hidden", "a", "b", "c.tmp"};
	struct scratch *s = *state;
	char **list = NULL;
	size_t count;

	assert_int_equal(kedge__fs_list(s->dir, &list, &count, &s->err), 0);
	assert_int_equal(count, 0);
	kedge__fs_list_free(list, count);
	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		char *path = below(s, names[i]);

		file_write(path, "", 0);
		kedge__free(path);
	}
	assert_int_equal(kedge__fs_list(s->dir, &list, &count, &s->err), 0);
	assert_int_equal(count, KEDGE__COUNT(sorted));
	for (size_t i = 0; i < count; i++)
		assert_string_equal(list[i], sorted[i]);
	kedge__fs_list_free(list, count);
}

static void rename_and_remove(void **state)
{
	struct scratch *s = *state;
	char *other = below(s, "other"), *dir = below(s, "dir"), *inside = below(s, "dir/inside");

	file_write(s->file, "new", 3);
	file_write(other, "old", 3);
	assert_int_equal(kedge__fs_rename(s->file, other, &s->err), 0);
	assert_file(other, "new");
	assert_false(kedge__fs_exists(s->file));
	assert_int_equal(kedge__fs_mkdirs(dir, &s->err), 0);
	assert_int_equal(kedge__fs_rename(other, inside, &s->err), 0);
	assert_int_equal(kedge__fs_rmdir(dir, &s->err), 0);
	assert_true(kedge__fs_exists(inside));
	assert_int_equal(kedge__fs_unlink(dir, &s->err), KEDGE_E_IO);
	assert_int_equal(kedge__fs_unlink(inside, &s->err), 0);
	assert_int_equal(kedge__fs_rmdir(dir, &s->err), 0);
	assert_false(kedge__fs_exists(dir));
	kedge__free(inside);
	kedge__free(dir);
	kedge__free(other);
}

/* As somebody who may not write there. Returns a bit for each call that did not say so. */
static int try_all_read_only(void *ctx)
{
	struct scratch *s = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *sub = kedge__asprintf("%s/sub", s->dir);
	int fd, wrong = 0;

	if (geteuid() == 0 && setuid(65534) != 0)
		return 64;
	wrong |= kedge__fs_create(sub, &fd, &err) != KEDGE_E_ACCESS ? 1 : 0;
	wrong |= !err.text || !strstr(err.text, sub) || !strstr(err.text, "Permission denied") ? 2 : 0;
	wrong |= kedge__fs_mkdirs(sub, &err) != KEDGE_E_ACCESS ? 4 : 0;
	wrong |= kedge__fs_unlink(s->file, &err) != KEDGE_E_ACCESS ? 8 : 0;
	wrong |= kedge__fs_rename(s->file, sub, &err) != KEDGE_E_ACCESS ? 16 : 0;
	wrong |= kedge__fs_open_lock(sub, &fd, &err) != KEDGE_E_ACCESS ? 32 : 0;
	kedge__error_done(&err);
	kedge__free(sub);
	return wrong;
}

static void read_only_directory(void **state)
{
	struct scratch *s = *state;
	int status;

	file_write(s->file, "x", 1);
	assert_int_equal(chmod(s->dir, 0555), 0);
	status = in_child(try_all_read_only, s);
	assert_int_equal(chmod(s->dir, 0755), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_file(s->file, "x");
}

/* Every mutating call once; stops at the first that fails. */
static int do_everything(const struct scratch *s, struct kedge__error *err)
{
	char *dir = kedge__asprintf("%s/d", s->dir), *moved = kedge__asprintf("%s/moved", s->dir);
	char *log = kedge__asprintf("%s/log", s->dir), *lock = kedge__asprintf("%s/lock", s->dir);
	int fd = -1, lock_fd = -1;
	int rc = dir && moved && log && lock ? 0 : KEDGE_E_NOMEM;

	rc = rc ? rc : kedge__fs_mkdirs(dir, err);
	rc = rc ? rc : kedge__fs_open_lock(lock, &lock_fd, err);
	rc = rc ? rc : kedge__fs_create(s->file, &fd, err);
	rc = rc ? rc : kedge__fs_set_mode(fd, 0600, s->file, err);
	rc = rc ? rc : kedge__fs_allocate(fd, 10, s->file, err);
	rc = rc ? rc : kedge__fs_write(fd, "abc", 3, s->file, err);
	rc = rc ? rc : kedge__fs_pwrite(fd, "xyz", 3, 5, s->file, err);
	rc = rc ? rc : kedge__fs_truncate(fd, 7, s->file, err);
	rc = rc ? rc : kedge__fs_sync(fd, s->file, err);
	rc = rc ? rc : kedge__fs_rename(s->file, moved, err);
	rc = rc ? rc : kedge__fs_sync_dir(s->dir, err);
	rc = rc ? rc : kedge__fs_append_line(log, "line", err);
	rc = rc ? rc : kedge__fs_unlink(moved, err);
	rc = rc ? rc : kedge__fs_rmdir(dir, err);
	kedge__fs_close(fd);
	kedge__fs_close(lock_fd);
	unlink(log ? log : ""), unlink(lock ? lock : ""), unlink(moved ? moved : ""), unlink(s->file);
	rmdir(dir ? dir : "");
	kedge__free(dir), kedge__free(moved), kedge__free(log), kedge__free(lock);
	return rc;
}

static void every_call_fails_in_turn(void **state)
{
	struct scratch *s = *state;
	uint64_t points;
	char spec[40];

	kedge__fault_set(NULL, NULL);
	assert_int_equal(do_everything(s, &s->err), 0);
	points = kedge__fault_count();
	assert_int_equal(points, 16);
	for (uint64_t i = 1; i <= points; i++) {
		snprintf(spec, sizeof(spec), "enospc@%d", (int)i);
		kedge__fault_set(spec, NULL);
		assert_int_equal(do_everything(s, &s->err), KEDGE_E_NOSPACE);
		assert_non_null(strstr(s->err.text, s->dir));
		assert_int_equal(kedge__fault_count(), i);
		kedge__error_done(&s->err);
		snprintf(spec, sizeof(spec), "short@%d", (int)i);
		kedge__fault_set(spec, NULL);
		assert_int_equal(do_everything(s, &s->err), 0);
	}
}

static void every_allocation_fails_in_turn(void **state)
{
	struct scratch *s = *state;
	char **list;
	size_t count;
	char spec[40];

	for (int i = 1;; i++) {
		int rc;

		snprintf(spec, sizeof(spec), "alloc@%d", i);
		kedge__fault_set(spec, NULL);
		rc = do_everything(s, &s->err);
		if (rc == 0)
			break;
		assert_int_equal(rc, KEDGE_E_NOMEM);
	}
	kedge__fault_set(NULL, NULL);
	file_write(s->file, "", 0);
	for (int i = 1; i <= 2; i++) {
		snprintf(spec, sizeof(spec), "alloc@%d", i);
		kedge__fault_set(spec, NULL);
		assert_int_equal(kedge__fs_list(s->dir, &list, &count, &s->err), KEDGE_E_NOMEM);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    scratch_test(create_is_exclusive),
	    scratch_test(nobody_else_may_read),
	    scratch_test(only_regular_files_are_opened),
	    scratch_test(a_path_is_made_absolute),
	    scratch_test(write_and_read_back),
	    scratch_test(short_pwrite_goes_on_where_it_stopped),
	    scratch_test(sync_that_cannot_be),
	    scratch_test(reading_past_the_end_is_damage),
	    scratch_test(pieces_are_read_one_after_the_other),
	    scratch_test(offsets_too_large_are_refused),
	    scratch_test(allocate_gives_the_length),
	    scratch_test(device_full),
	    scratch_test(missing_file),
	    scratch_test(append_adds_lines),
	    scratch_test(lock_file_is_created_once),
	    scratch_test(mkdirs_makes_all),
	    scratch_test(mkdirs_of_relative_path),
	    scratch_test(mkdirs_over_a_file),
	    scratch_test(mkdir_of_what_comes_and_goes),
	    scratch_test(long_paths),
	    scratch_test(list_is_sorted),
	    scratch_test(rename_and_remove),
	    scratch_test(read_only_directory),
	    scratch_test(every_call_fails_in_turn),
	    scratch_test(every_allocation_fails_in_turn),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
