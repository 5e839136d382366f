/* SPDX-License-Identifier: BSD-3-Clause */
/* run_transparent: launch or restart a program that knows nothing of it, and capture it from time to time. */
#include "run_transparent.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_SECONDS    0.05
#define REFUSAL_FIRST   0.1 /* seconds until the next try, doubled each time, */
#define REFUSAL_MOST    5.0 /* up to this */
#define CHECK_SECONDS   1.0
#define DESCRIPTOR_MOST 1024

/* ------------------------------------------------------------------ options */

static bool refuse_options(const struct kedge__usage *usage, const char *why, int *status)
{
	*status = kedge__usage_error(usage, "%s", why);
	return false;
}

bool kedge__run_transparent_options(struct kedge__run_transparent *t, const struct kedge__usage *usage, int *status)
{
	static const char *const words[] = {"none", "written", "all"};
	char *end;

	if (!t->on && (t->interval || t->policy || t->check || t->keep || t->new_ids || t->verbose || t->store ||
		       t->name || t->sets.count))
		return refuse_options(
		    usage,
		    "--interval, --files, --check, --keep-versions, --new-ids, -v, -s, -n and --set need --transparent",
		    status);
	if (t->on && kedge__process_unsupported())
		return refuse_options(usage, kedge__process_unsupported(), status);
	if (t->interval && strcmp(t->interval, "auto") != 0 && (!(strtod(t->interval, &end) > 0) || *end))
		return refuse_options(usage, "--interval must be a number of seconds above 0, or auto", status);
	t->files = KEDGE__FILES_WRITTEN;
	for (size_t i = 0; t->policy && i < KEDGE__COUNT(words); i++)
		if (strcmp(t->policy, words[i]) == 0) {
			t->files = (enum kedge__process_files)i;
			return true;
		}
	return !t->policy || refuse_options(usage, "--files must be none, written or all", status);
}

/* ------------------------------------------------------------------ start */

void kedge__run_drop_strangers(void)
{
	for (int fd = 3; fd < DESCRIPTOR_MOST; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
}

_Noreturn static void become(const struct kedge__run_loop *r, int report)
{
	int failed, null;

	setpgid(0, 0);
	/* Unlike other commands it outlives us: a checkpoint of it must never be its end. */
	if (isatty(STDIN_FILENO)) {
		null = open("/dev/null", O_RDONLY);
		dup2(null, STDIN_FILENO);
		if (null > STDIN_FILENO)
			close(null);
	}
	kedge__run_drop_strangers();
	sigprocmask(SIG_SETMASK, &r->inherited, NULL);
	execvp(r->command[0], r->command);
	failed = errno;
	while (write(report, &failed, sizeof(failed)) < 0 && errno == EINTR)
		;
	_exit(failed == ENOENT || failed == ENOTDIR ? 127 : 126);
}

static int start(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err)
{
	int report[2], failed = 0;

	if (pipe2(report, O_CLOEXEC))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
	fflush(NULL);
	r->transparent->pid = fork();
	if (r->transparent->pid == 0)
		become(r, report[1]);
	close(report[1]);
	if (r->transparent->pid < 0) {
		close(report[0]);
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot start a process");
	}
	setpgid(r->transparent->pid, r->transparent->pid);
	while (read(report[0], &failed, sizeof(failed)) < 0 && errno == EINTR)
		;
	close(report[0]);
	launch->exec_errno = failed;
	return 0;
}

/* ------------------------------------------------------------------ captures */

static void say_refusal(struct kedge__run_transparent *t, const struct kedge__error *err, bool quiet)
{
	const char *why = kedge__error_text(err);

	if (!quiet && (!t->refused || strcmp(t->refused, why) != 0))
		kedge__tool_say(KEDGE__RUN_COMMAND, "the program cannot be captured now, and runs on: %s", why);
	kedge__free(t->refused);
	t->refused = kedge__strdup(why);
	t->again = kedge__clock_seconds() + fmin(REFUSAL_FIRST * exp2(t->refusals), REFUSAL_MOST);
	t->refusals += t->refusals < 10;
}

static bool has_ended(struct kedge__run_transparent *t)
{
	if (!t->ended && waitpid(t->pid, &t->status, WNOHANG) == t->pid)
		t->ended = true;
	return t->ended;
}

static void say_how(struct kedge__run_transparent *t, bool quiet)
{
	const char *why = t->tracker ? kedge__process_tracker_why_not(t->tracker) : NULL;

	if (t->verbose)
		kedge__tool_say(KEDGE__RUN_COMMAND, "captured: %s", t->how);
	if (why && !t->why_said && !quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND, "all memory of the program is read at each capture: %s", why);
	t->why_said |= why != NULL;
}

/* True: there is a version. */
static bool take(struct kedge__run_loop *r)
{
	struct kedge__run_transparent *t = r->transparent;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__run_image_take(t, r->command, &err);

	if (rc == 0) {
		say_how(t, r->quiet);
		t->refusals = 0;
		kedge__free(t->refused);
		t->refused = NULL;
	} else if (!has_ended(t)) {
		say_refusal(t, &err, r->quiet);
	}
	kedge__error_done(&err);
	return rc == 0;
}

static bool due(struct kedge__run_transparent *t)
{
	int now = 0;

	return kedge_should_checkpoint(t->k, &now) == 0 && now && kedge__clock_seconds() >= t->again;
}

static int next_signal(const struct kedge__run_loop *r, double seconds)
{
	struct timespec wait = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};

	return sigtimedwait(&r->watched, NULL, &wait);
}

/* It was captured because it has to end: what it would do after that is lost in any case. */
static void end_if_asked(struct kedge__run_loop *r)
{
	int now = 0;

	if (kedge_should_exit(r->transparent->k, &now) == 0 && now)
		kill(-r->group, SIGKILL);
}

static void watch(struct kedge__run_loop *r, struct kedge__run_launch *launch)
{
	struct kedge__run_transparent *t = r->transparent;

	while (!has_ended(t)) {
		double next = kedge__run_watch(r, launch);

		kedge__run_await(r, fmin(next, kedge__clock_seconds() + POLL_SECONDS));
		if (has_ended(t))
			return;
		if (!r->stop_signal && due(t) && take(r))
			end_if_asked(r);
	}
}

/* ------------------------------------------------------------------ a launch */

void kedge__run_transparent_close(struct kedge__run_loop *r, bool finished)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (!r->transparent)
		return;
	kedge__free(r->transparent->refused);
	r->transparent->refused = NULL;
	if (kedge__run_image_close(r->transparent, finished, &err) != 0)
		kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot finish");
	kedge__error_done(&err);
}

void kedge__run_spaces_end(struct kedge__run_transparent *t)
{
	if (!t->init)
		return;
	close(t->init_link);
	kill(t->init, SIGKILL);
	waitpid(t->init, NULL, __WALL);
	t->init = 0;
}

static int begin(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct kedge__run_transparent *t = r->transparent;
	uint64_t version;
	int rc = kedge__run_image_restart(t, r->command, &version, err);

	if (rc)
		return rc;
	if (version == KEDGE__NO_VERSION)
		return start(r, launch, err);
	if (!r->quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND, "restarted from version %llu of %s", (unsigned long long)version,
				t->name);
	return 0;
}

int kedge__run_transparent_launch(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct kedge__run_transparent *t = r->transparent;
	int rc;

	launch->began_ns = kedge__clock_wall_ns();
	t->ended = false;
	t->again = 0;
	rc = t->k ? 0 : kedge__run_image_open(t, r->command[0], r->init, err);
	if (!rc)
		rc = begin(r, launch, err);
	if (rc)
		return rc;
	kedge__run_mark(t);
	r->group = t->pid;
	r->launch = launch;
	kedge__run_ask_begin(r);
	r->journal.open = 1; /* by this process, which sees requests */
	watch(r, launch);
	r->launch = NULL;
	kedge__run_spaces_end(t);
	kedge__run_launch_ended(r, launch, t->status);
	return 0;
}

/* ------------------------------------------------------------------ --check */

int kedge__run_transparent_check(struct kedge__run_loop *r)
{
	struct kedge__run_transparent *t = r->transparent;
	struct kedge__process_capture c = {.files = t->files, .mirror = &t->mirror};
	struct kedge__run_launch launch = {.number = 1};
	struct kedge__error err = KEDGE__ERROR_INIT;
	double deadline;
	int rc;

	if (kedge__process_unsupported()) {
		kedge__tool_say(KEDGE__RUN_COMMAND, "%s", kedge__process_unsupported());
		return KEDGE__EXIT_USAGE;
	}
	kedge__run_signals_init(r);
	rc = start(r, &launch, &err);
	if (rc)
		return kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot start %s", r->command[0]);
	r->group = t->pid;
	/* It gets some time to become what it will be. */
	for (deadline = kedge__clock_seconds() + CHECK_SECONDS; !has_ended(t) && kedge__clock_seconds() < deadline;)
		next_signal(r, POLL_SECONDS);
	c.pid = t->pid;
	rc = t->ended ? 0 : kedge__process_capture(&c, &err);
	if (launch.exec_errno)
		kedge__tool_say(KEDGE__RUN_COMMAND, "cannot start %s: %s", r->command[0], strerror(launch.exec_errno));
	else if (t->ended || c.ended)
		kedge__tool_say(KEDGE__RUN_COMMAND, "%s ended within a second: there is nothing to capture",
				r->command[0]);
	else if (rc)
		kedge__tool_say(KEDGE__RUN_COMMAND, "%s cannot be captured as it is now: %s", r->command[0],
				kedge__error_text(&err));
	else if (!r->quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND,
				"%s can be captured: threads %zu, mappings %zu, descriptors %zu, pages %zu; it stood "
				"still for %.2f ms",
				r->command[0], c.image.threads.count, c.image.mappings.count, c.image.descriptors.count,
				t->mirror.count, c.stop_seconds * 1e3);
	kill(-r->group, SIGKILL);
	while (!has_ended(t) && !c.ended)
		next_signal(r, POLL_SECONDS);
	kedge__process_image_done(&c.image);
	kedge__process_contents_done(&c.contents);
	kedge__process_mirror_done(&t->mirror);
	kedge__error_done(&err);
	return rc || launch.exec_errno ? KEDGE__EXIT_NO : 0;
}
