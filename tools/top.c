/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge top: jobs and staging servers as they work: once, or again and again on a terminal. */
#include "top.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PRESET   "127.0.0.1:7422"
#define PATIENCE 5.0 /* seconds that an answer may take */

struct top {
	struct kedge__usage usage;
	bool once, json;
	double interval;
	struct kedge__text_list paths; /* --store */
	KEDGE__ARRAY(struct kedge__top_source) sources;
	KEDGE__ARRAY(struct kedge__top_store) stores;
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	(void)signal_number;
	stopped = 1;
}

/* A signal ends it early. */
static void pause_for(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

	(void)nanosleep(&t, NULL);
}

static void ask_all(struct top *t)
{
	for (size_t i = 0; i < t->stores.count && !stopped; i++)
		kedge__top_store_look(&t->stores.at[i]);
	for (size_t i = 0; i < t->sources.count && !stopped; i++)
		kedge__top_ask(&t->sources.at[i], PATIENCE);
}

static void print_all(const struct top *t, FILE *out)
{
	for (size_t i = 0; i < t->stores.count; i++) {
		fputs(i ? "\n" : "", out);
		kedge__top_store_text(&t->stores.at[i], out);
	}
	fputs(t->stores.count && t->sources.count ? "\n" : "", out);
	kedge__top_text(t->sources.at, t->sources.count, out);
}

/* ------------------------------------------------------------------ on a terminal */

/* As many lines as the terminal has, each as wide as it is. Bytes are counted: a wide name makes its line shorter. */
static void put_screen(const char *text)
{
	struct winsize w = {.ws_row = 24, .ws_col = 80};
	size_t rows;

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	rows = w.ws_row > 2 ? w.ws_row : 24;
	fputs("\033[H", stdout);
	for (size_t row = 1; row < rows && *text; row++) {
		size_t n = strcspn(text, "\n"), most = KEDGE__MIN(n, (size_t)(w.ws_col ? w.ws_col : 80));

		while (most < n && most && ((unsigned char)text[most] & 0xc0) == 0x80)
			most--; /* not in the middle of a character */
		printf("%.*s\033[K\n", (int)most, text);
		text += n + (text[n] == '\n');
	}
	fputs(*text ? "... more than fits; " : "", stdout);
	fputs("Ctrl-C ends it\033[J", stdout);
	fflush(stdout);
}

static void draw(const struct top *t)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		kedge__tool_no_memory();
	print_all(t, out);
	if (fclose(out))
		kedge__tool_no_memory();
	put_screen(text);
	free(text);
}

static int watch(struct top *t)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = stop};

	for (size_t i = 0; i < KEDGE__COUNT(signals); i++)
		(void)sigaction(signals[i], &sa, NULL);
	fputs("\033[?1049h\033[?25l", stdout); /* a screen of its own, without a cursor */
	while (!stopped && !ferror(stdout)) {
		ask_all(t);
		if (stopped)
			break;
		draw(t);
		pause_for(t->interval);
	}
	fputs("\033[?25h\033[?1049l", stdout);
	return KEDGE__EXIT_OK;
}

/* ------------------------------------------------------------------ once */

static void print_json(const struct top *t)
{
	json_t *all = kedge__json_array();

	for (size_t i = 0; i < t->stores.count; i++)
		kedge__top_store_json(&t->stores.at[i], all);
	kedge__top_json(t->sources.at, t->sources.count, all);
	kedge__json_print(all);
}

static int show_once(struct top *t)
{
	int status = KEDGE__EXIT_OK;

	ask_all(t);
	if (t->interval > 0 && t->sources.count) {
		pause_for(t->interval);
		ask_all(t);
	}
	if (t->json)
		print_json(t);
	else
		print_all(t, stdout);
	for (size_t i = 0; i < t->stores.count; i++)
		if (t->stores.at[i].problem.code)
			status = KEDGE__EXIT_IO;
	for (size_t i = 0; i < t->sources.count; i++)
		if (!t->sources.at[i].now.json)
			status = KEDGE__EXIT_IO;
	return status;
}

static int add_source(struct top *t, const char *text)
{
	struct kedge__top_source s = {.problem = KEDGE__ERROR_INIT};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = KEDGE__EXIT_OK;

	if (kedge__http_address_parse(text, &s.address, &err))
		status = kedge__usage_error(&t->usage, "%s; name what `kedge serve --http` printed",
					    kedge__error_text(&err));
	kedge__error_done(&err);
	kedge__address_text(&s.address, s.text);
	if (!status && !kedge__array_push(&t->sources, s))
		kedge__tool_no_memory();
	return status;
}

static int add_store(struct top *t, const char *path)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__top_store st;

	if (kedge__top_store_open(&st, path, &err))
		return kedge__tool_fail(t->usage.command, &err, "cannot use the settings");
	if (!kedge__array_push(&t->stores, st))
		kedge__tool_no_memory();
	return KEDGE__EXIT_OK;
}

static int top(struct top *t, int count, char **addresses)
{
	int status = count || t->paths.count ? KEDGE__EXIT_OK : add_source(t, PRESET);

	for (size_t i = 0; i < t->paths.count && !status; i++)
		status = add_store(t, t->paths.at[i]);
	for (int i = 0; i < count && !status; i++)
		status = add_source(t, addresses[i]);
	if (!status && (t->once || t->json || !isatty(STDOUT_FILENO)))
		status = show_once(t);
	else if (!status)
		status = watch(t);
	for (size_t i = 0; i < t->sources.count; i++)
		kedge__top_source_done(&t->sources.at[i]);
	kedge__array_done(&t->sources);
	for (size_t i = 0; i < t->stores.count; i++)
		kedge__top_store_done(&t->stores.at[i]);
	kedge__array_done(&t->stores);
	kedge__array_done(&t->paths);
	return status;
}

int kedge__tool_top(int argc, char **argv)
{
	struct top t = {.interval = 1};
	const struct kedge__option options[] = {
	    {"store", 's', KEDGE__OPTION_LIST, &t.paths, "STORE",
	     "show the jobs of this store, a directory; may be repeated"},
	    {"once", 0, KEDGE__OPTION_FLAG, &t.once, NULL,
	     "print once and end; so it does if standard output is not a terminal"},
	    {"interval", 'i', KEDGE__OPTION_REAL, &t.interval, "SECONDS",
	     "time between two looks, over which rates are taken (default: 1); 0 with --once: one look"},
	    KEDGE__OPTION_JSON(&t.json),
	};
	int first, status;

	t.usage = (struct kedge__usage){
	    .command = "kedge top",
	    .operands = "[ADDRESS...]",
	    .about = "Shows the jobs of stores: their newest versions and how old these are, what is on L2, what it "
		     "cost;\n"
		     "and staging servers: their clients, queues and rates, and the versions in flight. ADDRESS is "
		     "what\n"
		     "'kedge serve --http' prints (default, without --store: http://" PRESET ").",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge top -s /local/scratch/kedge http://10.0.0.7:7422 http://10.0.0.8:7422\n"
		       "kedge top --once --json",
	};
	if (!kedge__options_parse(&t.usage, argc, argv, &first, &status))
		return status;
	if (!(t.interval >= 0 && t.interval <= 86400))
		return kedge__usage_error(&t.usage, "--interval must be a number of seconds from 0 to 86400");
	if (t.interval < 0.1 && !t.once && !t.json && isatty(STDOUT_FILENO))
		return kedge__usage_error(&t.usage, "--interval: at least 0.1 seconds on a terminal");
	return top(&t, argc - first, argv + first);
}
