/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole processes: captured, killed, restarted; their answer and their files are those of a run that nobody disturbed.
 * $PROCESS_TEST_MOMENTS: how many moments of each program are tried (2).
 */

#include "life.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#define USER 65534

/* ------------------------------------------------------------------ death at the n-th call */

static long die_at; /* calls of ptrace(), ioctl() and syscall() that are left; 0: no end is near */

long __real_ptrace(int request, pid_t pid, void *addr, void *data);
long __wrap_ptrace(int request, pid_t pid, void *addr, void *data);
int __real_ioctl(int fd, unsigned long request, void *data);
int __wrap_ioctl(int fd, unsigned long request, void *data);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

static void die_if_due(void)
{
	if (die_at && --die_at == 0)
		kill(getpid(), SIGKILL);
}

long __wrap_ptrace(int request, pid_t pid, void *addr, void *data)
{
	die_if_due();
	return __real_ptrace(request, pid, addr, data);
}

int __wrap_ioctl(int fd, unsigned long request, void *data)
{
	die_if_due();
	return __real_ioctl(fd, request, data);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	die_if_due();
	return __real_syscall(number, a, b, c, d, e, f);
}

/* ------------------------------------------------------------------ killed at random moments */

static unsigned long moments(void)
{
	const char *text = getenv("PROCESS_TEST_MOMENTS");

	return text ? strtoul(text, NULL, 10) : 2;
}

/* One to four captures, and some rounds between them. */
static void capture_some(struct life *l, size_t most, uint64_t *seed)
{
	for (unsigned n = (unsigned)draw_below(seed, 4); n; n--) {
		capture(l);
		await_some(l, 12, most, seed);
	}
	capture(l);
}

/*
 * GENERATIONS times captured, let run on for a while, killed, and restarted. In every third life all captures are full,
 * in another one they are by stills.
 */
static void live(const char *root, const char *program, unsigned generations, uint64_t seed)
{
	static const enum kedge__process_way ways[] = {KEDGE__WAY_AUTO, KEDGE__WAY_STILL, KEDGE__WAY_FULL};
	enum kedge__process_way way = ways[seed % KEDGE__COUNT(ways)];
	char dir[FILES_PATH];
	struct life whole, l;
	unsigned long step = ROUNDS / (generations + 1);

	path_make(dir, "%s/whole", root);
	begin(&whole, program, dir);
	await_end(&whole);
	path_make(dir, "%s/parts", root);
	assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
	memset(&l, 0, sizeof(l));
	path_make(l.dir, "%s", dir);
	set_limit(&l, step);
	begin(&l, program, dir);
	l.way = way;
	l.tracker = way == KEDGE__WAY_FULL ? NULL : kedge__process_tracker_new();
	for (unsigned g = 0; g < generations; g++) {
		set_limit(&l, step * (g + 1));
		await_progress(&l, step * g + 1);
		await_some(&l, step / 2, step * (g + 1), &seed);
		capture_some(&l, step * (g + 1), &seed);
		/* What it does from here on is undone, wherever it comes to. */
		set_limit(&l, step * (g + 2));
		await_some(&l, step / 4, step * (g + 2), &seed);
		end_by_force(&l);
		set_limit(&l, step * (g + 1));
		restart(&l);
	}
	await_end(&l);
	compare(&whole, &l);
	forget(&l);
}

static void live_here(const char *program, unsigned generations)
{
	for (unsigned long i = 0; i < moments(); i++) {
		char root[FILES_PATH];

		scratch_make(root, sizeof(root), "process");
		live(root, program, generations, 18 + i);
		scratch_remove(root);
	}
}

static void files_and_signals(void **state)
{
	(void)state;
	live_here("sequential", 3);
}

static void without_shared_libraries(void **state)
{
	(void)state;
	live_here("sequential-static", 2);
}

static void threads_with_their_ids(void **state)
{
	(void)state;
	live_here("threads", 3);
}

static void memory_that_changes(void **state)
{
	(void)state;
	live_here("memory", 3);
}

static void ten_generations(void **state)
{
	static const char *const programs[] = {"threads", "memory"};

	(void)state;
	for (unsigned i = 0; i < KEDGE__COUNT(programs); i++) {
		char root[FILES_PATH];

		scratch_make(root, sizeof(root), "process");
		live(root, programs[i], 10, 5 + i);
		scratch_remove(root);
	}
}

/* In a process of its own, which has another user if this one is root's. */
static void as_user(void **state)
{
	char root[FILES_PATH], copy[FILES_PATH];
	uint8_t *code;
	size_t bytes;
	int status;
	pid_t pid;

	(void)state;
	scratch_make_on_disk(root, sizeof(root), "process");
	if (geteuid() == 0) {
		assert_int_equal(chown(root, USER, USER), 0);
	}
	pid = fork();
	if (pid == 0) {
		bool user = geteuid() != 0;

		if (!user && (setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0))
			_exit(77);
		prctl(PR_SET_DUMPABLE, 1);
		if (unshare(CLONE_NEWUSER) != 0)
			_exit(77); /* then ids cannot be kept, and the restart says so */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77) {
		scratch_remove(root);
		skip();
	}
	/* The user may not be allowed to where the programs are. */
	path_make(copy, "%s/threads", root);
	code = file_read(PROGRAMS "/threads", &bytes);
	assert_non_null(code);
	file_write(copy, code, bytes);
	free(code);
	assert_int_equal(chmod(copy, 0755), 0);
	pid = fork();
	if (pid == 0) {
		programs_at = root;
		if (geteuid() == 0 && (setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0))
			_exit(98);
		prctl(PR_SET_DUMPABLE, 1);
		live(root, "threads", 2, 12);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	scratch_remove(root);
}

/* ------------------------------------------------------------------ no trace */

static void calls_that_wait(void **state)
{
	char root[FILES_PATH];
	struct life l = {.link = -1};
	size_t mappings;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(l.dir, "%s", root);
	set_limit(&l, 1);
	begin(&l, "waits", root);
	await_progress(&l, 1);
	capture(&l);
	mappings = count_lines(l.pid, "maps");
	for (int i = 0; i < 10; i++)
		capture(&l);
	assert_int_equal(count_lines(l.pid, "maps"), mappings);
	assert_false(traced(l.pid));
	end_by_force(&l);
	/* They begin again in the new process. */
	restart(&l);
	capture(&l);
	await_end(&l);
	{
		char path[FILES_PATH];
		uint8_t *text;
		size_t n;

		path_in(path, &l, "interrupted");
		text = file_read(path, &n);
		if (text)
			fail_msg("interrupted: %s", (char *)text);
	}
	forget(&l);
	scratch_remove(root);
}

/* ------------------------------------------------------------------ refusals */

static void refused(void **state)
{
	static const char *const kinds[] = {"child",         "connection", "timer",    "device",
					    "locked memory", "removed",    "System V", "has locked"};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		char root[FILES_PATH];
		struct life l = {.link = -1};
		struct kedge__error err = KEDGE__ERROR_INIT;

		scratch_make(root, sizeof(root), "process");
		path_make(l.dir, "%s", root);
		set_limit(&l, 1);
		setenv("REFUSED", kinds[i], 1);
		begin(&l, "refused", root);
		while (progress(&l) < 1 && !has_ended(&l))
			usleep(200);
		if (!l.over) {
			assert_int_equal(try_capture(&l, &err), KEDGE_E_STATE);
			if (!strstr(kedge__error_text(&err), kinds[i]))
				fail_msg("%s: %s", kinds[i], kedge__error_text(&err));
			assert_false(traced(l.pid));
			await_end(&l);
		} else {
			assert_int_equal(WEXITSTATUS(l.status), 77); /* not to be had here */
		}
		kedge__error_done(&err);
		forget(&l);
		scratch_remove(root);
	}
}

/* ------------------------------------------------------------------ what does not fit any more */

static void expect_refusal(const struct kedge__process_image *image, int code, const char *word)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__process_check(image, &err), code);
	if (!strstr(kedge__error_text(&err), word))
		fail_msg("no '%s': %s", word, kedge__error_text(&err));
	kedge__error_done(&err);
}

static void other_machine(void **state)
{
	struct kedge__process_image image;
	char root[FILES_PATH], path[FILES_PATH];
	struct life l = {.link = -1};
	uint64_t features;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(l.dir, "%s", root);
	set_limit(&l, 10);
	begin(&l, "sequential", root);
	await_progress(&l, 10);
	capture(&l);
	end_by_force(&l);
	assert_int_equal(kedge__process_image_decode(l.record, l.record_bytes, &image, NULL), 0);
	assert_int_equal(kedge__process_check(&image, NULL), 0);
	image.uid++;
	expect_refusal(&image, KEDGE_E_ACCESS, "owner");
	image.uid--;
	features = image.features[4];
	image.features[4] = ~UINT64_C(0);
	expect_refusal(&image, KEDGE_E_MISMATCH, "processor");
	image.features[4] = features;
	image.vdso.data[100] ^= 1;
	expect_refusal(&image, KEDGE_E_MISMATCH, "kernel");
	image.vdso.data[100] ^= 1;
	image.files.at[1].bytes++;
	expect_refusal(&image, KEDGE_E_MISMATCH, "changed");
	image.files.at[1].bytes--;
	assert_int_equal(kedge__process_check(&image, NULL), 0);
	path_in(path, &l, "more");
	assert_int_equal(truncate(path, 0), 0);
	for (size_t i = 0; i < image.descriptors.count; i++)
		if (strcmp(image.descriptors.at[i].path, path) == 0)
			image.descriptors.at[i].bytes = 5;
	expect_refusal(&image, KEDGE_E_MISMATCH, "shorter");
	assert_int_equal(unlink(path), 0);
	expect_refusal(&image, KEDGE_E_MISSING, "missing");
	kedge__process_image_done(&image);
	forget(&l);
	scratch_remove(root);
}

static void damage(void **state)
{
	char root[FILES_PATH];
	struct life l = {.link = -1};
	struct kedge__process_image image;
	uint64_t seed = 3;
	uint8_t *again;
	size_t bytes;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(l.dir, "%s", root);
	set_limit(&l, 1);
	begin(&l, "threads", root);
	await_progress(&l, 1);
	capture(&l);
	await_end(&l);
	assert_int_equal(kedge__process_image_decode(l.record, l.record_bytes, &image, NULL), 0);
	assert_int_equal(kedge__process_image_encode(&image, &again, &bytes, NULL), 0);
	assert_int_equal(bytes, l.record_bytes);
	assert_memory_equal(again, l.record, bytes);
	kedge__free(again);
	kedge__process_image_done(&image);
	for (size_t n = 0; n < l.record_bytes; n += 1 + n / 20)
		if (kedge__process_image_decode(l.record, n, &image, NULL) == 0)
			kedge__process_image_done(&image);
	for (int i = 0; i < 2000; i++) {
		size_t at = draw_below(&seed, l.record_bytes);
		uint8_t was = l.record[at];

		l.record[at] = (uint8_t)draw(&seed);
		if (kedge__process_image_decode(l.record, l.record_bytes, &image, NULL) == 0)
			kedge__process_image_done(&image);
		l.record[at] = was;
	}
	forget(&l);
	scratch_remove(root);
}

/* ------------------------------------------------------------------ death of who captures */

/* One that dies at its N-th call. True: it got to its end before. */
static bool die_while_capturing(struct life *l, long n)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct kedge__process_capture c = {.pid = l->pid,
						   .files = KEDGE__FILES_WRITTEN,
						   .mirror = &l->mirror,
						   .tracker = kedge__process_tracker_new(),
						   .way = KEDGE__WAY_STILL};

		die_at = n;
		_exit(kedge__process_capture(&c, NULL) == 0 && c.way == KEDGE__WAY_STILL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return false;
	if (WEXITSTATUS(status) == 0)
		return true;
	/* It was just dying from the time before. */
	assert_int_equal(waitpid(l->pid, &l->status, 0), l->pid);
	l->over = true;
	return false;
}

/* Of a still that lost its tracer nothing is left: it is our child, and ends at once. */
static void take_stills(struct life *l)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == l->pid) {
			l->over = true;
			l->status = status;
		} else {
			assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		}
	}
}

static void who_captures_dies(void **state)
{
	char root[FILES_PATH], dir[FILES_PATH];
	struct life whole, l = {.link = -1};
	unsigned killed = 0;

	(void)state;
	scratch_make(root, sizeof(root), "process");
	path_make(dir, "%s/whole", root);
	begin(&whole, "threads", dir);
	await_end(&whole);
	path_make(dir, "%s/parts", root);
	for (long n = 1;;) {
		if (!l.pid || has_ended(&l)) {
			/* Only where the scratch is mapped and unmapped does it die, too, and then at once. */
			if (l.pid) {
				killed++;
				assert_true(WIFSIGNALED(l.status) && WTERMSIG(l.status) == SIGKILL);
			}
			if (l.pid)
				assert_int_equal(tree_remove(dir), 0);
			memset(&l, 0, sizeof(l));
			path_make(l.dir, "%s", dir);
			assert_int_equal(mkdir(dir, 0700), 0);
			set_limit(&l, ROUNDS / 2);
			begin(&l, "threads", dir);
			await_progress(&l, 2);
		}
		if (die_while_capturing(&l, n))
			break;
		n += !l.over;
		/* Killed with it, or goes on: it is known when nobody traces it any more, or it is gone. */
		while (!has_ended(&l) && traced(l.pid))
			usleep(100);
		take_stills(&l);
	}
	assert_true(killed <= 60);
	await_end(&l);
	while (waitpid(-1, NULL, 0) > 0)
		;
	compare(&whole, &l);
	forget(&l);
	scratch_remove(root);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_and_signals),      cmocka_unit_test(without_shared_libraries),
	    cmocka_unit_test(threads_with_their_ids), cmocka_unit_test(memory_that_changes),
	    cmocka_unit_test(ten_generations),        cmocka_unit_test(as_user),
	    cmocka_unit_test(calls_that_wait),        cmocka_unit_test(refused),
	    cmocka_unit_test(other_machine),          cmocka_unit_test(damage),
	    cmocka_unit_test(who_captures_dies),
	};

	/* What who runs the tests left open, as ctest does with its log, is not part of the programs here. */
	for (int fd = 3; fd < 64; fd++)
		(void)close(fd);
	return cases_run(argc, argv, tests, NULL, NULL);
}
