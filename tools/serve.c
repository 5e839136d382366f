/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge serve: a staging server. It reads segments out of its clients' memory and writes them to L2. */
#include "serve.h"

#include <signal.h>
#include <time.h>

struct serve {
	struct kedge__usage usage;
	const char *listen, *http; /* NULL: no pages */
	uint64_t writers, rate, client_rate;
	bool json, quiet;
	struct kedge__server_options o;
	struct kedge__server *server;
	struct kedge__address http_at;
	struct kedge__serve_watch watch;
};

static struct kedge__server *running; /* the signal handler's */

static void stop(int signal_number)
{
	(void)signal_number;
	kedge__server_stop(running);
}

static void catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = stop};

	for (size_t i = 0; i < KEDGE__COUNT(signals); i++)
		(void)sigaction(signals[i], &sa, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

/* A line with the time of day for each version, and for each client that comes to grief. */
static void log_line(void *user, enum kedge_log_level level, const char *text)
{
	const struct serve *s = user;
	struct timespec now;
	char when[32];
	struct tm tm;

	if (level > (s->quiet ? KEDGE_LOG_WARNING : KEDGE_LOG_INFO))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	kedge__print(stderr, "%s.%03ldZ %s\n", when, now.tv_nsec / 1000000, text);
}

/* Scripts wait for these lines: they name the ports that were taken. */
static void announce(const struct serve *s)
{
	char text[KEDGE__ADDRESS_TEXT], http[KEDGE__ADDRESS_TEXT] = "";
	json_t *o;

	if (s->http)
		kedge__address_text(kedge__http_address(s->watch.http), http);
	kedge__address_text(kedge__server_address(s->server), text);
	if (s->json) {
		o = kedge__json_object();
		kedge__json_text(o, "address", text);
		kedge__json_text(o, "store", s->o.store);
		kedge__json_text(o, "http", s->http ? http : NULL);
		kedge__json_print(o);
	} else {
		kedge__print(stdout, "%s\n", text);
		if (s->http)
			kedge__print(stdout, "%s\n", http);
	}
	fflush(stdout);
}

static int serve(struct serve *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	kedge_set_log(log_line, s);
	kedge__tool_raise_limits();
	rc = kedge__server_open(&s->o, &s->server, &err);
	if (rc)
		return kedge__tool_fail(s->usage.command, &err, "cannot serve %s", s->o.store);
	rc = s->http ? kedge__serve_watch_open(&s->watch, s->server, s->o.store, &s->http_at, &err) : 0;
	if (rc) {
		kedge__serve_watch_close(&s->watch);
		kedge__server_close(s->server);
		return kedge__tool_fail(s->usage.command, &err, "cannot serve pages at %s", s->http);
	}
	running = s->server;
	catch_signals();
	if (!kedge__address_is_loopback(kedge__server_address(s->server)))
		kedge__log(KEDGE_LOG_NOTICE, "other hosts can reach this server: messages are authenticated, data is "
					     "not encrypted");
	if (s->http && !kedge__address_is_loopback(&s->http_at))
		kedge__log(KEDGE_LOG_NOTICE,
			   "other hosts can read what this server does at %s, without proof of who they are", s->http);
	announce(s);
	rc = kedge__server_run(s->server, &err);
	kedge__serve_watch_close(&s->watch);
	kedge__server_close(s->server);
	return rc ? kedge__tool_fail(s->usage.command, &err, "cannot go on") : KEDGE__EXIT_OK;
}

static int refuse(const struct serve *s, const char *option, struct kedge__error *err)
{
	int status = kedge__usage_error(&s->usage, "%s: %s", option, kedge__error_text(err));

	kedge__error_done(err);
	return status;
}

static int check(struct serve *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (!s->o.store)
		return kedge__usage_error(&s->usage, "-s STORE is missing: the L2 of the jobs");
	if (kedge__address_parse(s->listen, &s->o.listen, &err))
		return refuse(s, "--listen", &err);
	if (s->http && kedge__http_address_parse(s->http, &s->http_at, &err))
		return refuse(s, "--http", &err);
	if (!s->writers || s->writers > 256)
		return kedge__usage_error(&s->usage, "--writers: from 1 to 256");
	s->o.writers = (unsigned)s->writers;
	s->o.rate = (double)s->rate;
	s->o.client_rate = (double)s->client_rate;
	return serve(s);
}

int kedge__tool_serve(int argc, char **argv)
{
	struct serve s = {.listen = "127.0.0.1:7421"};
	const struct kedge__option options[] = {
	    {"store", 's', KEDGE__OPTION_TEXT, &s.o.store, "STORE", "the store to write to: the L2 of the jobs"},
	    {"listen", 'l', KEDGE__OPTION_TEXT, &s.listen, "ADDRESS",
	     "[PROVIDER://]HOST:PORT; port 0: any (default: tcp://127.0.0.1:7421)"},
	    {"auth", 0, KEDGE__OPTION_TEXT, &s.o.auth, "HOW",
	     "how clients prove themselves: munge, munge:SOCKET or key:FILE (default: munge)"},
	    {"memory", 'm', KEDGE__OPTION_SIZE, &s.o.memory, "BYTES",
	     "limit of all buffers together (default: 256MiB)"},
	    {"buffer", 'b', KEDGE__OPTION_SIZE, &s.o.piece, "BYTES", "size of a buffer (default: 1MiB)"},
	    {"writers", 'w', KEDGE__OPTION_UINT, &s.writers, "N", "threads that write (default: 4)"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &s.rate, "BYTES", "limit per second of all clients together"},
	    {"client-rate", 0, KEDGE__OPTION_SIZE, &s.client_rate, "BYTES", "limit per second of each client"},
	    {"timeout", 0, KEDGE__OPTION_REAL, &s.o.timeout, "SECONDS",
	     "after which a client that says nothing counts as lost (default: 60)"},
	    {"http", 0, KEDGE__OPTION_TEXT, &s.http, "ADDRESS",
	     "HOST:PORT for what it does: / for people, /metrics for Prometheus, /status.json; port 0: any"},
	    KEDGE__OPTION_JSON(&s.json),
	    KEDGE__OPTION_QUIET(&s.quiet),
	};
	int first, status;

	kedge__server_options_init(&s.o);
	s.writers = s.o.writers;
	s.usage = (struct kedge__usage){
	    .command = "kedge serve",
	    .about = "Writes the segments of jobs to STORE, which is their L2, so that their nodes need not. Jobs name "
		     "the server\n"
		     "in the setting 'stage'. Prints its address, then serves until it gets a signal.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge serve --listen tcp://10.0.0.7:7421 -s /lustre/me/ckpt --memory 4GiB",
	};
	if (kedge__options_parse(&s.usage, argc, argv, &first, &status))
		status = check(&s);
	return status;
}
