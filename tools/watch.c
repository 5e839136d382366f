/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge watch: checkpoints that another program writes become versions, without a change to that program. */
#include "watch.h"
#include "save_files.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS    1e9
#define RETRY        0.2 /* seconds, where somebody else has the store */
#define RETRIES_ONCE 50
#define BATCH_MS     50

struct loop {
	struct kedge__watch watch;
	uint64_t settle, interval; /* seconds */
	bool once;
	int signals;    /* a descriptor; -1 */
	double again;   /* seconds after which it is worth to look again; negative: after the interval */
	size_t later;   /* sets that are complete, and could not be taken yet */
	uint64_t count; /* UINT64_MAX: not given */
	size_t failures;
	bool removals; /* sets that were taken and stay may go now */
	bool news;     /* a set was taken since */
};

/* ------------------------------------------------------------------ one set */

static bool is_failed(const struct kedge__watch *w, uint64_t fingerprint)
{
	for (size_t i = 0; i < w->failed.count; i++)
		if (w->failed.at[i] == fingerprint)
			return true;
	return false;
}

static void look_again(struct loop *l, double seconds)
{
	if (l->again < 0 || seconds < l->again)
		l->again = seconds;
}

/* Nobody writes to it, as far as that can be known. */
static bool is_settled(struct loop *l, const struct kedge__watch_set *set)
{
	enum kedge__watch_quiet quiet = kedge__watch_set_quiet(set, l->watch.spec.dir, false);
	double age = ((double)kedge__clock_wall_ns() - (double)set->newest) / SECOND_NS;

	if (quiet != KEDGE__WATCH_UNKNOWN)
		return quiet == KEDGE__WATCH_QUIET;
	if (age >= (double)l->settle)
		return true;
	look_again(l, (double)l->settle - age);
	return false;
}

static int remove_verified(struct kedge__watch *w, const struct kedge__watch_set *set, uint64_t version,
			   struct kedge__error *err)
{
	int rc = kedge__watch_journal_note(&w->journal, set, version, KEDGE__WATCH_REMOVING, err);

	if (!rc)
		rc = kedge__watch_remove(w, version, err);
	return rc ? rc : kedge__watch_journal_note(&w->journal, set, version, KEDGE__WATCH_REMOVED, err);
}

static void remove_set(struct loop *l, const struct kedge__watch_set *set, uint64_t version)
{
	struct kedge__watch *w = &l->watch;
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool intact;
	int rc = kedge__watch_verify(w, version, &intact, &err);

	if (!rc && intact)
		rc = remove_verified(w, set, version, &err);
	/* Those of versions that no level keeps, or that L2 does not get, stay as they should. */
	l->failures += rc || (!intact && w->behind);
	if (rc) {
		kedge__tool_fail(w->usage.command, &err, "cannot remove the files of version %llu of %s",
				 (unsigned long long)version, w->name);
	} else if (intact && !w->quiet) {
		kedge__print(stdout, "set%s%s: its files were removed\n", *set->key ? " " : "", set->key);
		fflush(stdout);
	} else if (!w->quiet) {
		kedge__tool_say(w->usage.command, "note: the files of version %llu of %s stay: not every level has it",
				(unsigned long long)version, w->name);
	}
}

static void take_set(struct loop *l, const struct kedge__watch_set *set)
{
	struct kedge__watch *w = &l->watch;

	switch (kedge__watch_take(w, set)) {
	case KEDGE__WATCH_DONE:
		l->news = true;
		kedge__watch_l2_look(w);
		break;
	case KEDGE__WATCH_LATER:
		l->later++;
		look_again(l, RETRY);
		return;
	case KEDGE__WATCH_TROUBLE:
		l->failures++;
		return;
	case KEDGE__WATCH_FAILED:
		l->failures++;
		kedge__tool_say(w->usage.command,
				"set%s%s could not be taken, and will not be tried again unless it changes",
				*set->key ? " " : "", set->key);
		if (!kedge__array_push(&w->failed, set->fingerprint))
			kedge__tool_no_memory();
		return;
	}
	if (w->remove)
		remove_set(l, set, kedge__watch_journal_find(&w->journal, set->fingerprint)->version);
}

/* What was being removed when a watch was killed. */
static void finish_removals(struct loop *l)
{
	struct kedge__watch *w = &l->watch;

	for (size_t i = 0; w->remove && i < w->journal.list.count; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		struct kedge__watch_known known = w->journal.list.at[i];

		if (known.state != KEDGE__WATCH_REMOVING)
			continue;
		if (kedge__watch_remove(w, known.version, &err) == 0)
			(void)kedge__watch_journal_end(&w->journal, &known, &err);
		if (err.code)
			kedge__tool_fail(w->usage.command, &err, "cannot remove the files of version %llu of %s",
					 (unsigned long long)known.version, w->name);
	}
}

/* ------------------------------------------------------------------ all of them */

/* It will never be complete, as it is; probably the pattern or the number is wrong. */
static void warn_of_surplus(struct kedge__watch *w, const struct kedge__watch_set *set)
{
	if (!w->spec.count || set->counted <= w->spec.count || is_failed(w, set->fingerprint))
		return;
	kedge__tool_say(w->usage.command, "note: set%s%s has %zu files, more than --count %llu, and is not taken",
			*set->key ? " " : "", set->key, set->counted, (unsigned long long)w->spec.count);
	if (!kedge__array_push(&w->failed, set->fingerprint))
		kedge__tool_no_memory();
}

static void pass_set(struct loop *l, const struct kedge__watch_set *set)
{
	struct kedge__watch *w = &l->watch;
	const struct kedge__watch_known *known = kedge__watch_journal_find(&w->journal, set->fingerprint);

	warn_of_surplus(w, set);
	if (!kedge__watch_set_complete(set, &w->spec) || is_failed(w, set->fingerprint))
		return;
	if (known && known->state == KEDGE__WATCH_TAKEN && w->remove && l->removals)
		remove_set(l, set, known->version);
	if (known)
		return;
	if (is_settled(l, set))
		take_set(l, set);
	else
		l->later++;
}

static int pass(struct loop *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__watch_sets sets;

	l->again = -1;
	l->later = 0;
	l->removals = kedge__watch_l2_bring(&l->watch) || l->news;
	l->news = false;
	if (kedge__watch_sets_scan(&sets, &l->watch.spec, &err) != 0)
		return kedge__tool_fail(l->watch.usage.command, &err, "cannot go on");
	for (size_t i = 0; i < sets.list.count && !l->watch.stopped; i++)
		pass_set(l, &sets.list.at[i]);
	if (!l->watch.stopped)
		kedge__watch_prune(&l->watch, &sets);
	if (l->once && !sets.list.count && !l->watch.quiet)
		kedge__tool_say(l->watch.usage.command, "note: nothing in %s fits %s", l->watch.spec.dir,
				l->watch.spec.patterns.at[0]);
	kedge__watch_sets_done(&sets);
	return 0;
}

/* Until something happens in the directory, a signal comes, or it is time to look. */
static void await(struct loop *l)
{
	struct pollfd fds[2] = {{l->signals, POLLIN, 0}, {l->watch.spec.inotify, POLLIN, 0}};
	double seconds = l->again >= 0 && l->again < (double)l->interval ? l->again : (double)l->interval;
	struct signalfd_siginfo signal;
	char events[4096];

	if (poll(fds, l->watch.spec.inotify < 0 ? 1 : 2, (int)(seconds * 1e3) + 1) <= 0)
		return;
	if (fds[0].revents & POLLIN && read(l->signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal))
		l->watch.stopped = (int)signal.ssi_signo;
	if (fds[1].revents & POLLIN)
		(void)poll(fds, 1, BATCH_MS); /* so that files written at the same time are handled together */
	while (fds[1].revents & POLLIN && read(l->watch.spec.inotify, events, sizeof(events)) > 0)
		;
}

static int run(struct loop *l)
{
	int status = 0;

	finish_removals(l);
	for (int tries = 0; status == 0 && !l->watch.stopped; tries++) {
		status = pass(l);
		if (l->once && (status || !l->later || l->again < 0 || tries == RETRIES_ONCE))
			break;
		if (status == 0 && !l->watch.stopped)
			await(l);
	}
	if (l->watch.stopped && !l->watch.quiet)
		kedge__tool_say(l->watch.usage.command,
				"ended by a signal; what is complete and not taken yet is taken next time");
	if (l->once && l->later && !l->watch.quiet)
		kedge__tool_say(l->watch.usage.command,
				"%zu of the complete sets not taken: somebody writes to them, or to the store",
				l->later);
	return status ? status : l->once && (l->failures || l->later) ? KEDGE__EXIT_NO : 0;
}

/* ------------------------------------------------------------------ beginning */

static void make_absolute_config(void)
{
	const char *config = getenv("KEDGE_CONFIG");
	char *path;

	if (!config || !*config || kedge__fs_absolute(config, &path, NULL) != 0)
		return;
	setenv("KEDGE_CONFIG", path, 1);
	kedge__free(path);
}

static int find_levels(struct kedge__watch *w, struct kedge__error *err)
{
	struct kedge__job_settings settings;
	int rc = kedge__tool_settings(w->store, true, &w->sets, &settings, err);

	if (rc)
		return rc;
	rc = kedge__fs_absolute(settings.l1, &w->l1, err);
	if (!rc && settings.l2 && *settings.l2)
		rc = kedge__fs_absolute(settings.l2, &w->l2, err);
	w->all_to_l2 = settings.l2_every == 1 && settings.l2_interval == 0;
	kedge__job_settings_done(&settings);
	return rc;
}

static int begin_store(struct kedge__watch *w, struct kedge__error *err)
{
	struct stat st;
	int rc = find_levels(w, err);

	if (!rc)
		rc = kedge__catalog_make(w->l1, w->name, w->init ? KEDGE__CATALOG_INIT : KEDGE__CATALOG_CREATE, err);
	if (!rc)
		rc = kedge__watch_journal_open(&w->journal, w->l1, w->name, err);
	if (!rc)
		rc = kedge__watch_learn(w, err);
	if (!rc)
		kedge__watch_l2_look(w);
	if (!rc && stat(w->l1, &st) == 0) {
		w->spec.store_device = st.st_dev;
		w->spec.store_inode = st.st_ino;
	}
	return rc;
}

static int begin_signals(struct loop *l, struct kedge__error *err)
{
	sigset_t set;

	kedge__tool_ending(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return l->signals >= 0 ? 0 : kedge__error_set(err, KEDGE_E_IO, errno, "cannot wait for signals");
}

static int watch(struct loop *l)
{
	struct kedge__watch *w = &l->watch;
	struct kedge__error err = KEDGE__ERROR_INIT;

	kedge__tool_listen(w->usage.command, w->quiet);
	kedge__tool_raise_limits();
	make_absolute_config();
	signal(SIGIO, SIG_IGN); /* of leases that are held for a moment, to see who writes */
	if (begin_store(w, &err) != 0 || begin_signals(l, &err) != 0)
		return kedge__tool_fail(w->usage.command, &err, "cannot watch %s", w->spec.dir);
	if (!l->once)
		w->spec.inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (!l->once && !w->quiet) {
		kedge__print(stdout, "watching %s for %s in %s\n", w->spec.dir, w->name, w->l1);
		fflush(stdout);
	}
	return run(l);
}

static int check_patterns(const struct kedge__watch *w)
{
	const char *wrong, *first = w->spec.patterns.at[0];
	bool keyed = strstr(first, "{}");

	for (size_t i = 0; i < w->spec.patterns.count + (w->spec.marker ? 1 : 0); i++) {
		const char *p = i < w->spec.patterns.count ? w->spec.patterns.at[i] : w->spec.marker;

		wrong = kedge__watch_pattern_check(p);
		if (wrong)
			return kedge__usage_error(&w->usage, "pattern '%s': %s", p, wrong);
		if (!strstr(p, "{}") == keyed)
			return kedge__usage_error(
			    &w->usage, "'%s' and '%s': both need {}, which says what names a set, or neither", first,
			    p);
	}
	return 0;
}

static int check_dir(const struct kedge__watch *w)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct stat st;

	errno = 0;
	if (stat(w->spec.dir, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	(void)kedge__error_set(&err, KEDGE_E_IO, errno ? errno : ENOTDIR, "%s", w->spec.dir);
	return kedge__tool_fail(w->usage.command, &err, "cannot watch");
}

static int check_usage(const struct loop *l, int operands)
{
	const struct kedge__watch *w = &l->watch;

	if (operands != 1)
		return kedge__usage_error(&w->usage, operands ? "one directory at a time, please" : "which directory?");
	if (!w->name)
		return kedge__usage_error(&w->usage, "-n NAME is missing: what to call the versions");
	if (!w->spec.patterns.count)
		return kedge__usage_error(&w->usage, "--files PATTERN is missing: which files belong to a set");
	if (!l->count)
		return kedge__usage_error(&w->usage, "--count must be at least 1");
	if (!w->spec.count && !w->spec.marker)
		return kedge__usage_error(&w->usage,
					  "--count N or --marker PATTERN is missing: when is a set complete?");
	if (!l->interval)
		return kedge__usage_error(&w->usage, "--interval 0 would never rest");
	if (kedge__ranks_check(&w->usage, w->ranks, w->group_size, false) != 0)
		return KEDGE__EXIT_USAGE;
	return check_patterns(w);
}

int kedge__tool_watch(int argc, char **argv)
{
	struct loop l = {.count = UINT64_MAX, .settle = 10, .interval = 10, .signals = -1, .news = true};
	struct kedge__watch *w = &l.watch;
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&w->store),
	    {"name", 'n', KEDGE__OPTION_TEXT, &w->name, "NAME", "what to call the versions"},
	    {"files", 'f', KEDGE__OPTION_LIST, &w->spec.patterns, "PATTERN",
	     "the files of a set, in DIR: 'ckpt-{}-rank*.h5', 'step{}' for all in a directory;\n"
	     "{} is what files of one set have in common; may be repeated"},
	    {"count", 'c', KEDGE__OPTION_UINT, &l.count, "N", "a set is complete with N files"},
	    {"marker", 'm', KEDGE__OPTION_TEXT, &w->spec.marker, "PATTERN",
	     "a set is complete with this file: 'ckpt-{}.done', 'step{}/DONE'"},
	    {"remove", 0, KEDGE__OPTION_FLAG, &w->remove, NULL,
	     "remove the files of a set when its version is verified, on L2, too, if there is one"},
	    {"once", 0, KEDGE__OPTION_FLAG, &l.once, NULL, "take what is complete now, and end"},
	    {"settle", 0, KEDGE__OPTION_UINT, &l.settle, "SECONDS",
	     "how long a set must be unchanged where the file system does not say who writes (default: 10)"},
	    {"interval", 0, KEDGE__OPTION_UINT, &l.interval, "SECONDS",
	     "look at least so often, for what other hosts write (default: 10)"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &w->codec, "CODEC",
	     "none, lz4, zstd:9, shuffle+zstd, ... (see kedge info), auto or max"},
	    {"equal", 0, KEDGE__OPTION_FLAG, &w->equal, NULL,
	     "unpack what HDF5 files keep packed, and pack it again when they are restored (see kedge save)"},
	    KEDGE__OPTION_RANKS(&w->ranks),
	    KEDGE__OPTION_GROUP_SIZE(&w->group_size),
	    {"type", 0, KEDGE__OPTION_TEXT, &w->type, "TYPE",
	     "type of the data: bytes, i8..i64, u8..u64, f16, bf16, f32, f64, c64, c128"},
	    {"init", 0, KEDGE__OPTION_FLAG, &w->init, NULL,
	     "create a store in STORE even if the directory contains other files"},
	    KEDGE__OPTION_SET(&w->sets),
	    KEDGE__OPTION_QUIET(&w->quiet),
	};
	int first, status;

	w->spec.inotify = w->journal.lock = -1;
	w->group_size = KEDGE__GROUP_PRESET;
	w->usage = (struct kedge__usage){
	    .command = "kedge watch",
	    .operands = "DIR",
	    .about = "Saves the checkpoints that a program writes as files to DIR: each set of files, when it is "
		     "complete and\n"
		     "nobody writes to it any more, becomes a version of NAME, with names relative to DIR, so that\n"
		     "'kedge restore -o DIR' puts it back. Sets that are there already count, too, and none is taken "
		     "twice,\n"
		     "whenever this is killed and started again. SIGTERM ends it.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge watch run -s store -n sim --files 'ckpt-{}-rank*.h5' --count 64\n"
		       "kedge watch run -s store -n enzo --files 'DD{}' --marker 'DD{}/DONE' --remove",
	};
	if (kedge__options_parse(&w->usage, argc, argv, &first, &status)) {
		w->spec.dir = first < argc ? argv[first] : NULL;
		w->spec.count = l.count == UINT64_MAX ? 0 : l.count;
		status = check_usage(&l, argc - first);
		if (!status)
			status = check_dir(w);
		if (status == 0)
			status = watch(&l);
	}
	kedge__fs_close(w->spec.inotify);
	kedge__fs_close(l.signals);
	kedge__watch_journal_close(&w->journal);
	kedge__free(w->l1);
	kedge__free(w->l2);
	kedge__array_done(&w->failed);
	kedge__array_done(&w->spec.patterns);
	kedge__array_done(&w->sets);
	return status;
}
