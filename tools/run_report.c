/* SPDX-License-Identifier: BSD-3-Clause */
/* run_report: the outcome of a run, for people and for scripts. */
#include "run.h"
#include <string.h>

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
	/* Times come from the clocks of two nodes, perhaps. */
	return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 0.0;
}

const char *kedge__run_end_text(const struct kedge__run_launch *launch, char buf[KEDGE__TEXT_ROOM])
{
	if (launch->exec_errno)
		snprintf(buf, KEDGE__TEXT_ROOM, "not started (%.28s)", strerror(launch->exec_errno));
	else if (launch->hung)
		snprintf(buf, KEDGE__TEXT_ROOM, "no sign of life");
	else if (launch->bereft)
		snprintf(buf, KEDGE__TEXT_ROOM, "the loss of a node");
	else if (launch->signal)
		snprintf(buf, KEDGE__TEXT_ROOM, "killed by signal %d (%.20s)", launch->signal,
			 strsignal(launch->signal));
	else
		snprintf(buf, KEDGE__TEXT_ROOM, "exit code %d", launch->exit_code);
	return buf;
}

/* Work of DEAD that NEXT (NULL: there was none) did not find in a checkpoint, and the time to get the rest back. */
static double lost_in(const struct kedge__run_launch *dead, const struct kedge__run_launch *next)
{
	uint64_t kept = dead->saved_ns ? dead->saved_ns : dead->restarted_ns ? dead->restarted_ns : dead->began_ns;

	if (!next)
		return seconds_between(kept, dead->ended_ns);
	if (!next->restarted) /* it started from scratch: everything was lost */
		return seconds_between(dead->began_ns, next->began_ns);
	return seconds_between(kept, next->restarted_ns ? next->restarted_ns : next->began_ns);
}

double kedge__run_lost_seconds(const struct kedge__run_loop *r)
{
	double sum = 0;

	for (size_t i = 0; i < r->launches.count; i++) {
		const struct kedge__run_launch *next = i + 1 < r->launches.count ? &r->launches.at[i + 1] : NULL;

		if (!next && (r->outcome == KEDGE__RUN_STOPPED || r->outcome == KEDGE__RUN_REQUESTED))
			break; /* a requested stop is not a failure */
		if ((r->launches.at[i].exit_code != 0 || r->launches.at[i].bereft) && !r->launches.at[i].exec_errno)
			sum += lost_in(&r->launches.at[i], next);
	}
	return sum;
}

static const char *outcome_word(enum kedge__run_outcome outcome)
{
	static const char *const words[] = {"done",        "stopped",      "requested",    "not_started",
					    "no_progress", "retries_used", "too_few_nodes"};

	return words[outcome];
}

/* A run that failed says so even if it is quiet. */
static void say_outcome(const struct kedge__run_loop *r)
{
	const struct kedge__run_launch *last = r->launches.count ? &r->launches.at[r->launches.count - 1] : NULL;
	char end[KEDGE__TEXT_ROOM], count[KEDGE__TEXT_ROOM];

	switch (r->outcome) {
	case KEDGE__RUN_DONE:
		break;
	case KEDGE__RUN_STOPPED:
		if (!r->quiet)
			kedge__tool_say(KEDGE__RUN_COMMAND, "stopped by signal %d (%s)", r->stop_signal,
					strsignal(r->stop_signal));
		break;
	case KEDGE__RUN_REQUESTED:
		if (!r->quiet)
			kedge__tool_say(KEDGE__RUN_COMMAND, "not finished: %s (%s)",
					last && last->answer != KEDGE__NO_VERSION
					    ? "saved, and ended as it was asked to"
					    : "ended as it was asked to, without "
					      "another version",
					r->ask.asked ? r->ask.why : last->answer_why);
		break;
	case KEDGE__RUN_NOT_STARTED:
		kedge__tool_say(KEDGE__RUN_COMMAND, "cannot start %s: %s", r->command[0], strerror(last->exec_errno));
		break;
	case KEDGE__RUN_NO_PROGRESS:
		kedge__tool_say(KEDGE__RUN_COMMAND, "giving up: %s without a new version; the last ended: %s",
				kedge__text_count(r->patience, "launch", "launches in a row", count),
				kedge__run_end_text(last, end));
		break;
	case KEDGE__RUN_RETRIES_USED:
		kedge__tool_say(KEDGE__RUN_COMMAND, "giving up: launched %s; the last ended: %s",
				kedge__text_count(r->launches.count, "time", "times", count),
				kedge__run_end_text(last, end));
		break;
	case KEDGE__RUN_TOO_FEW_NODES:
		kedge__tool_say(KEDGE__RUN_COMMAND, "not finished: %s left, and --min-nodes is %llu",
				kedge__text_count(r->nodes.left, "node is", "nodes are", count),
				(unsigned long long)r->nodes.least);
		break;
	}
}

static void print_launch(const struct kedge__run_launch *l)
{
	char seconds[KEDGE__TEXT_ROOM], count[KEDGE__TEXT_ROOM], end[KEDGE__TEXT_ROOM];

	fprintf(stderr, "  launch %d: %s", l->number,
		kedge__text_seconds(seconds_between(l->began_ns, l->ended_ns), seconds));
	if (l->restarted)
		fprintf(stderr, ", restarted from version %llu", (unsigned long long)l->restarted_from);
	fprintf(stderr, ", took %s", kedge__text_count(l->versions, "version", "versions", count));
	if (l->versions)
		fprintf(stderr, " (last %llu)", (unsigned long long)l->last_version);
	fprintf(stderr, ", %s\n", kedge__run_end_text(l, end));
}

void kedge__run_summary(const struct kedge__run_loop *r)
{
	char launches[KEDGE__TEXT_ROOM], versions[KEDGE__TEXT_ROOM], total[KEDGE__TEXT_ROOM], lost[KEDGE__TEXT_ROOM];

	say_outcome(r);
	if (r->quiet || r->outcome == KEDGE__RUN_NOT_STARTED)
		return;
	kedge__tool_say(KEDGE__RUN_COMMAND, "%s, %s taken, %s in total, %s lost to failures",
			kedge__text_count(r->launches.count, "launch", "launches", launches),
			kedge__text_count(r->journal.checkpoints.count, "version", "versions", versions),
			kedge__text_seconds(seconds_between(r->began_ns, r->ended_ns), total),
			kedge__text_seconds(kedge__run_lost_seconds(r), lost));
	for (size_t i = 0; i < r->launches.count; i++)
		print_launch(&r->launches.at[i]);
}

static json_t *launch_json(const struct kedge__run_launch *l)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "launch", (uint64_t)l->number);
	kedge__json_real(o, "seconds", seconds_between(l->began_ns, l->ended_ns));
	kedge__json_uint(o, "exit_code", (uint64_t)l->exit_code);
	kedge__json_set(o, "signal", l->signal ? json_integer(l->signal) : json_null());
	kedge__json_version(o, "restarted_from", l->restarted ? l->restarted_from : KEDGE__NO_VERSION);
	kedge__json_uint(o, "versions_taken", l->versions);
	kedge__json_version(o, "last_version", l->last_version);
	return o;
}

static json_t *checkpoint_json(const struct kedge__run_checkpoint *c)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "version", c->version);
	kedge__json_uint(o, "launch", (uint64_t)c->launch);
	kedge__json_uint(o, "raw_bytes", c->raw_bytes);
	kedge__json_uint(o, "stored_bytes", c->stored_bytes);
	kedge__json_real(o, "blocked_seconds", c->blocked_seconds);
	kedge__json_uint(o, "published_ns", c->published_ns);
	return o;
}

void kedge__run_json(const struct kedge__run_loop *r)
{
	json_t *o = kedge__json_object(), *launches = kedge__json_array(), *checkpoints = kedge__json_array();
	json_t *command = kedge__json_array(), *restarts = kedge__json_array();

	for (char **arg = r->command; *arg; arg++)
		kedge__json_add(command, kedge__json_string(*arg));
	for (size_t i = 0; i < r->launches.count; i++) {
		const struct kedge__run_launch *l = &r->launches.at[i];

		kedge__json_add(launches, launch_json(l));
		if (l->restarted)
			kedge__json_add(restarts, json_integer((json_int_t)l->restarted_from));
	}
	for (size_t i = 0; i < r->journal.checkpoints.count; i++)
		kedge__json_add(checkpoints, checkpoint_json(&r->journal.checkpoints.at[i]));
	kedge__json_text(o, "run_id", r->id);
	kedge__json_set(o, "command", command);
	kedge__json_text(o, "outcome", outcome_word(r->outcome));
	kedge__json_uint(o, "exit_code", (uint64_t)kedge__run_exit_code(r));
	kedge__json_uint(o, "launch_count", r->launches.count);
	kedge__json_uint(o, "versions_taken", r->journal.checkpoints.count);
	kedge__json_set(o, "restarted_from", restarts);
	kedge__json_real(o, "lost_seconds", kedge__run_lost_seconds(r));
	kedge__json_real(o, "total_seconds", seconds_between(r->began_ns, r->ended_ns));
	kedge__json_set(o, "launches", launches);
	kedge__json_set(o, "checkpoints", checkpoints);
	kedge__json_print(o);
}
