/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_nodes: the nodes of an allocation, which of them are down, and on which the next launch runs.
 *
 * Names come from the resource manager (Slurm, PBS, LSF) or from a file; Slurm says which are down, and a command of
 * the user's may find more. A node that was down once is left out for the rest of the run.
 */
#include "run.h"
#include "tool_walk.h"
#include <stdlib.h>

#define AT_ONCE 64 /* nodes that are looked at at a time */

/* ------------------------------------------------------------------ names */

static struct kedge__run_node *find(struct kedge__run_nodes *n, const char *name)
{
	for (size_t i = 0; i < n->all.count; i++) {
		if (strcmp(n->all.at[i].name, name) == 0)
			return &n->all.at[i];
	}
	return NULL;
}

/* The first word of a line that is not a comment; files of hosts repeat a name for each of its processors. */
static int add_name(void *ctx, char *line, struct kedge__error *err)
{
	struct kedge__run_nodes *n = ctx;
	struct kedge__run_node node = {.state = KEDGE__NODE_READY};
	char *rest, *name = strtok_r(line, " \t\r", &rest);

	if (!name || name[0] == '#' || find(n, name))
		return 0;
	node.name = kedge__strdup(name);
	if (node.name && kedge__array_push(&n->all, node))
		return 0;
	kedge__free(node.name);
	return kedge__error_nomem(err);
}

static int ask_slurm_names(struct kedge__run_loop *r, struct kedge__error *err)
{
	char *argv[] = {"scontrol", "show", "hostnames", r->nodes.slurm, NULL}, *text, *rest;
	int rc = kedge__run_inquire(r, argv, &text, err);

	if (rc)
		return rc;
	for (char *line = strtok_r(text, "\n", &rest); line && !rc; line = strtok_r(NULL, "\n", &rest))
		rc = add_name(&r->nodes, line, err);
	kedge__free(text);
	return rc;
}

static const char *hosts_of_manager(void)
{
	static const char *const variables[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"};

	for (size_t i = 0; i < KEDGE__COUNT(variables); i++) {
		const char *path = getenv(variables[i]);

		if (path && *path)
			return path;
	}
	return NULL;
}

static bool is_srun(const char *command)
{
	const char *slash = strrchr(command, '/');

	return strcmp(slash ? slash + 1 : command, "srun") == 0;
}

int kedge__run_nodes_open(struct kedge__run_loop *r, struct kedge__error *err)
{
	struct kedge__run_nodes *n = &r->nodes;
	bool asked = n->hosts || n->check || n->spares || n->least;
	const char *hosts = n->hosts ? n->hosts : hosts_of_manager();
	int rc;

	n->slurm = n->hosts ? NULL : getenv("SLURM_JOB_NODELIST");
	if (!asked && !(n->slurm && is_srun(r->command[0])))
		return 0;
	if (!n->slurm && !hosts)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"no nodes to choose from: this is not a job of Slurm, PBS or LSF; name a file "
					"of their names with --hosts");
	rc = n->slurm ? ask_slurm_names(r, err) : kedge__lines_read(hosts, false, add_name, n, err);
	if (rc)
		return rc;
	if (n->all.count <= n->spares)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"%zu nodes, and %llu of them spares: none is left to run on", n->all.count,
					(unsigned long long)n->spares);
	n->want = n->all.count - (size_t)n->spares;
	if (n->least > n->want)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--min-nodes %llu is more than the %zu nodes of a launch",
					(unsigned long long)n->least, n->want);
	if (!n->least)
		n->least = n->want;
	n->path = kedge__run_temporary(r->id, "hosts");
	return n->path ? 0 : kedge__error_nomem(err);
}

void kedge__run_nodes_close(struct kedge__run_nodes *n)
{
	if (n->path)
		kedge__fs_unlink(n->path, NULL);
	for (size_t i = 0; i < n->all.count; i++)
		kedge__free(n->all.at[i].name);
	kedge__array_done(&n->all);
	kedge__free(n->path);
	kedge__free(n->list);
	for (size_t i = 0; i < n->made.count; i++)
		kedge__free(n->made.at[i]);
	kedge__array_done(&n->made);
	kedge__array_done(&n->command);
}

/* ------------------------------------------------------------------ which are down */

/* A state of Slurm's, as sinfo prints it; "*" at its end: the node does not answer. */
static enum kedge__node_state slurm_state(const char *text)
{
	static const char *const gone[] = {"down", "error", "fail", "inval", "power", "reboot", "unknown", "future"};
	static const char *const leaving[] = {"drain", "failing", "maint"};

	for (size_t i = 0; i < KEDGE__COUNT(leaving); i++) {
		if (strncmp(text, leaving[i], strlen(leaving[i])) == 0 && !strchr(text, '*'))
			return KEDGE__NODE_LEAVING;
	}
	for (size_t i = 0; i < KEDGE__COUNT(gone); i++) {
		if (strncmp(text, gone[i], strlen(gone[i])) == 0)
			return KEDGE__NODE_DOWN;
	}
	return strchr(text, '*') ? KEDGE__NODE_DOWN : KEDGE__NODE_READY;
}

static void set_state(struct kedge__run_node *node, enum kedge__node_state state, const char *why)
{
	if (node->state == KEDGE__NODE_DOWN)
		return;
	node->state = state;
	snprintf(node->why, sizeof(node->why), "%s", why);
}

/* Not to be told is no reason to stop: the command finds out by itself. */
static void ask_slurm_states(struct kedge__run_loop *r)
{
	char *argv[] = {"sinfo", "-h", "-N", "-n", r->nodes.slurm, "-o", "%N %T", NULL}, *text, *rest, *words;
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__run_inquire(r, argv, &text, &err)) {
		kedge__tool_say(KEDGE__RUN_COMMAND, "cannot ask Slurm which nodes are down: %s",
				kedge__error_text(&err));
		kedge__error_done(&err);
		return;
	}
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *name = strtok_r(line, " ", &words), *state = name ? strtok_r(NULL, " ", &words) : NULL;
		struct kedge__run_node *node = state ? find(&r->nodes, name) : NULL;

		if (node)
			set_state(node, slurm_state(state), state);
	}
	kedge__free(text);
}

/* Look at the nodes from FIRST on, as many as go at once. */
static int check_some(struct kedge__run_loop *r, size_t first, struct kedge__error *err)
{
	struct kedge__run_question asked[AT_ONCE];
	char *argv[] = {"sh", "-c", (char *)r->nodes.check, NULL}, *text;
	size_t last = first + AT_ONCE < r->nodes.all.count ? first + AT_ONCE : r->nodes.all.count, started = first;
	int rc = 0;

	for (; started < last && !rc; started++) {
		if (setenv("KEDGE_NODE", r->nodes.all.at[started].name, 1))
			rc = kedge__error_nomem(err);
		else
			rc = kedge__run_question_ask(r, argv, &asked[started - first], err);
		if (rc)
			break;
	}
	for (size_t i = first; i < started; i++) {
		int status = kedge__run_question_answer(&asked[i - first], &text);
		char why[32];

		kedge__free(text);
		snprintf(why, sizeof(why), "check: exit code %d", status);
		if (status)
			set_state(&r->nodes.all.at[i], KEDGE__NODE_DOWN, status < 0 ? "check: no answer" : why);
	}
	unsetenv("KEDGE_NODE");
	return rc;
}

static int look(struct kedge__run_loop *r, struct kedge__error *err)
{
	int rc = 0;

	if (r->nodes.slurm)
		ask_slurm_states(r);
	for (size_t i = 0; r->nodes.check && i < r->nodes.all.count && !rc; i += AT_ONCE)
		rc = check_some(r, i, err);
	return rc;
}

bool kedge__run_nodes_lost(struct kedge__run_loop *r)
{
	if (!r->nodes.slurm || !r->nodes.all.count)
		return false;
	ask_slurm_states(r);
	for (size_t i = 0; i < r->nodes.all.count; i++) {
		if (r->nodes.all.at[i].used && r->nodes.all.at[i].state == KEDGE__NODE_DOWN)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ the next launch */

/* Those of the last launch stay, and of the rest, those that nobody wants to have back come first. */
static size_t choose(struct kedge__run_nodes *n)
{
	size_t chosen = 0;

	for (size_t i = 0; i < n->all.count; i++) {
		n->all.at[i].used = n->all.at[i].used && n->all.at[i].state == KEDGE__NODE_READY;
		chosen += n->all.at[i].used;
	}
	for (int state = KEDGE__NODE_READY; state <= KEDGE__NODE_LEAVING; state++) {
		for (size_t i = 0; i < n->all.count && chosen < n->want; i++) {
			if (n->all.at[i].used || (int)n->all.at[i].state != state)
				continue;
			n->all.at[i].used = true;
			chosen++;
		}
	}
	return chosen;
}

static char *join(const struct kedge__run_nodes *n, char between)
{
	size_t bytes = 1, at = 0;
	char *text;

	for (size_t i = 0; i < n->all.count; i++)
		bytes += strlen(n->all.at[i].name) + 1;
	text = kedge__malloc(bytes);
	if (!text)
		return NULL;
	for (size_t i = 0; i < n->all.count; i++) {
		if (n->all.at[i].used)
			at += (size_t)snprintf(text + at, bytes - at, "%s%c", n->all.at[i].name, between);
	}
	text[at] = '\0';
	if (between != '\n' && at)
		text[at - 1] = '\0';
	return text;
}

static int write_hosts(struct kedge__run_nodes *n, struct kedge__error *err)
{
	char *text = join(n, '\n');
	int fd, rc;

	if (!text)
		return kedge__error_nomem(err);
	rc = kedge__fs_unlink(n->path, err);
	if (!rc)
		rc = kedge__fs_create(n->path, &fd, err);
	if (!rc) {
		rc = kedge__fs_write(fd, text, strlen(text), n->path, err);
		kedge__fs_close(fd);
	}
	kedge__free(text);
	return rc;
}

/* ARG with {nodes}, {count} and {hostfile} replaced; NULL: no memory. */
static char *replaced(const struct kedge__run_nodes *n, size_t count, const char *arg)
{
	char number[32];
	const struct {
		const char *word, *text;
	} words[] = {{"{nodes}", n->list}, {"{count}", number}, {"{hostfile}", n->path}};
	char *text = kedge__strdup(arg);

	snprintf(number, sizeof(number), "%zu", count);
	for (size_t i = 0; i < KEDGE__COUNT(words); i++) {
		char *at;

		while (text && (at = strstr(text, words[i].word))) {
			char *more = kedge__asprintf("%.*s%s%s", (int)(at - text), text, words[i].text,
						     at + strlen(words[i].word));

			kedge__free(text);
			text = more;
		}
	}
	return text;
}

static bool take(struct kedge__run_nodes *n, char *text)
{
	if (text && kedge__array_push(&n->made, text))
		return kedge__array_push(&n->command, text);
	kedge__free(text);
	return false;
}

/* The command of this launch: srun is told its nodes, words in braces are replaced. */
static int make_command(struct kedge__run_loop *r, size_t count, struct kedge__error *err)
{
	struct kedge__run_nodes *n = &r->nodes;
	bool good = true;

	for (size_t i = 0; i < n->made.count; i++)
		kedge__free(n->made.at[i]);
	n->made.count = n->command.count = 0;
	for (size_t i = 0; r->command[i] && good; i++) {
		good = take(n, replaced(n, count, r->command[i]));
		if (i == 0 && good && n->slurm && is_srun(r->command[0]))
			good = take(n, kedge__asprintf("--nodes=%zu", count)) &&
			       take(n, kedge__asprintf("--nodelist=%s", n->list));
	}
	if (!good || !kedge__array_push(&n->command, NULL))
		return kedge__error_nomem(err);
	return 0;
}

static void announce(const struct kedge__run_loop *r, size_t count)
{
	const struct kedge__run_nodes *n = &r->nodes;

	for (size_t i = 0; i < n->all.count; i++) {
		if (n->all.at[i].state == KEDGE__NODE_DOWN && !n->all.at[i].said && !r->quiet)
			kedge__tool_say(KEDGE__RUN_COMMAND, "node %s is left out (%s)", n->all.at[i].name,
					n->all.at[i].why);
		n->all.at[i].said = n->all.at[i].state == KEDGE__NODE_DOWN;
	}
	if (!r->quiet && count)
		kedge__tool_say(KEDGE__RUN_COMMAND, "launching on %zu of %zu nodes: %s", count, n->all.count, n->list);
}

int kedge__run_nodes_choose(struct kedge__run_loop *r, bool *enough, struct kedge__error *err)
{
	struct kedge__run_nodes *n = &r->nodes;
	char *before = n->list, number[32];
	size_t count;
	int rc;

	*enough = true;
	if (!n->all.count)
		return 0;
	rc = look(r, err);
	if (rc)
		return rc;
	count = choose(n);
	*enough = count >= n->least;
	n->left = count;
	n->list = join(n, ',');
	if (!n->list) {
		n->list = before;
		return kedge__error_nomem(err);
	}
	announce(r, *enough && (!before || strcmp(before, n->list) != 0) ? count : 0);
	kedge__free(before);
	if (!*enough)
		return 0;
	snprintf(number, sizeof(number), "%zu", count);
	if (setenv("KEDGE_RUN_NODES", n->list, 1) || setenv("KEDGE_RUN_NODE_COUNT", number, 1) ||
	    setenv("KEDGE_RUN_HOSTFILE", n->path, 1))
		return kedge__error_nomem(err);
	rc = write_hosts(n, err);
	return rc ? rc : make_command(r, count, err);
}
