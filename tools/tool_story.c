/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool_story.h"

void kedge__story_init(struct kedge__story *s, const char *name)
{
	memset(s, 0, sizeof(*s));
	s->name = name ? kedge__strdup(name) : NULL;
	s->processes = kedge__json_array();
	s->versions = kedge__json_array();
	s->marks = kedge__json_array();
	if (name && !s->name)
		kedge__tool_no_memory();
}

void kedge__story_done(struct kedge__story *s)
{
	kedge__free(s->name);
	json_decref(s->processes);
	json_decref(s->versions);
	json_decref(s->marks);
	memset(s, 0, sizeof(*s));
}

char *kedge__story_path(const struct kedge__job_settings *s, const char *name)
{
	char *path = s->journal[0] == '/' ? kedge__job_file(s->journal, name, ".journal")
					  : kedge__asprintf("%s/%s/" KEDGE__JOURNAL_NAME, s->l1, name);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

/* ------------------------------------------------------------------ events */

static json_t *last_of(const json_t *array)
{
	size_t n = json_array_size(array);

	return n ? json_array_get(array, n - 1) : NULL;
}

/* Member FROM of O as member TO, if O has it. */
static void take_as(json_t *to, const char *key, const json_t *o, const char *from)
{
	json_t *value = json_object_get(o, from);

	if (value && json_object_set(to, key, value) != 0)
		kedge__tool_no_memory();
}

/* All that O has, but what every event has. */
static void take_all(json_t *to, const json_t *o)
{
	static const char *const common[] = {"time", "event", "name"};
	json_t *copy = json_copy((json_t *)o);

	if (!copy)
		kedge__tool_no_memory();
	for (size_t i = 0; i < KEDGE__COUNT(common); i++)
		(void)json_object_del(copy, common[i]);
	if (json_object_update(to, copy) != 0)
		kedge__tool_no_memory();
	json_decref(copy);
}

/* The process that writes. A journal that was rotated may begin in the middle of one. */
static json_t *process_of(struct kedge__story *s, const json_t *o)
{
	json_t *p = last_of(s->processes);

	if (!p || kedge__event_is(o, "open")) {
		if (p && strcmp(kedge__event_text(p, "ended"), "open") == 0)
			kedge__json_text(p, "ended", "killed");
		p = kedge__json_object();
		take_as(p, "time", o, "time");
		kedge__json_text(p, "ended", "open");
		kedge__json_add(s->processes, p);
	}
	take_as(p, "last", o, "time");
	return p;
}

static json_t *version_new(struct kedge__story *s, const json_t *o)
{
	json_t *v = kedge__json_object();

	take_as(v, "version", o, "version");
	kedge__json_uint(v, "process", json_array_size(s->processes) - 1);
	kedge__json_add(s->versions, v);
	return v;
}

/* The last of this number: one may be taken again after a restart. */
static json_t *version_of(struct kedge__story *s, const json_t *o)
{
	for (size_t i = json_array_size(s->versions); i-- > 0;) {
		json_t *v = json_array_get(s->versions, i);

		if (json_equal(json_object_get(v, "version"), json_object_get(o, "version")))
			return v;
	}
	return version_new(s, o);
}

static void note_version(struct kedge__story *s, const json_t *o)
{
	json_t *v = kedge__event_is(o, "begin") ? version_new(s, o) : version_of(s, o);

	if (kedge__event_is(o, "l2")) {
		take_as(v, "on_l2", o, "time");
		take_as(v, "l2_seconds", o, "seconds");
		take_as(v, "l2_bytes", o, "bytes");
		take_as(v, "l2_form", o, "form");
		take_as(v, "l2_why", o, "why");
		return;
	}
	take_as(v, kedge__event_text(o, "event"), o, "time");
	take_all(v, o);
}

static void note_mark(struct kedge__story *s, const json_t *o)
{
	json_t *mark = json_copy((json_t *)o);

	if (!mark)
		kedge__tool_no_memory();
	kedge__json_uint(mark, "process", json_array_size(s->processes) - 1);
	kedge__json_add(s->marks, mark);
	if (!kedge__event_is(o, "failed"))
		return;
	take_as(version_of(s, o), "failed", o, "step");
}

static int note(void *ctx, const json_t *o, struct kedge__error *err)
{
	static const char *const of_versions[] = {"begin", "captured", "sealed", "l2"};
	static const char *const marks[] = {"failed", "fallback", "restart", "request", "interval", "lost"};
	struct kedge__story *s = ctx;
	json_t *p;

	(void)err;
	if (!s->name && !(s->name = kedge__strdup(kedge__event_text(o, "name"))))
		kedge__tool_no_memory();
	if (strcmp(kedge__event_text(o, "name"), s->name) != 0)
		return 0;
	p = process_of(s, o);
	if (kedge__event_is(o, "open"))
		take_all(p, o);
	if (kedge__event_is(o, "close"))
		kedge__json_text(p, "ended", "closed");
	for (size_t i = 0; i < KEDGE__COUNT(of_versions); i++)
		if (kedge__event_is(o, of_versions[i]) && kedge__event_version(o, "version") != KEDGE__NO_VERSION)
			note_version(s, o);
	for (size_t i = 0; i < KEDGE__COUNT(marks); i++)
		if (kedge__event_is(o, marks[i]))
			note_mark(s, o);
	return 0;
}

int kedge__story_read(struct kedge__story *s, const char *path, struct kedge__error *err)
{
	if (!s->reader.inode)
		return kedge__journal_read_all(path, &s->reader, note, s, err);
	return kedge__journal_read(&s->reader, path, note, s, err);
}

/* ------------------------------------------------------------------ sums */

/* The first restart of process I; NULL: there was none. */
static const json_t *restart_of(const struct kedge__story *s, size_t i)
{
	for (size_t m = 0; m < json_array_size(s->marks); m++) {
		const json_t *mark = json_array_get(s->marks, m);

		if (kedge__event_is(mark, "restart") && kedge__event_uint(mark, "process") == i)
			return mark;
	}
	return NULL;
}

/*
 * What the end of process I cost: from the version that the next one found until its state was back; all of it, if that
 * one did not go back to any. Negative: it was closed, or there is no next one yet.
 */
static double lost_in(const struct kedge__story *s, size_t i)
{
	const json_t *p = json_array_get(s->processes, i), *next = json_array_get(s->processes, i + 1), *restart;

	if (!next || strcmp(kedge__event_text(p, "ended"), "killed") != 0)
		return -1;
	restart = restart_of(s, i + 1);
	if (restart)
		return kedge__event_real(restart, "age_seconds");
	return KEDGE__MAX(kedge__event_real(next, "time") - kedge__event_real(p, "time"), 0);
}

static size_t marks_of(const struct kedge__story *s, const char *event)
{
	size_t n = 0;

	for (size_t m = 0; m < json_array_size(s->marks); m++)
		n += kedge__event_is(json_array_get(s->marks, m), event);
	return n;
}

static void versions_sum(const struct kedge__story *s, json_t *totals)
{
	uint64_t sealed = 0, stored = 0, l2 = 0, l2_bytes = 0;
	double blocked = 0;

	for (size_t i = 0; i < json_array_size(s->versions); i++) {
		const json_t *v = json_array_get(s->versions, i);

		l2 += json_object_get(v, "on_l2") != NULL;
		l2_bytes += kedge__event_uint(v, "l2_bytes");
		if (!json_object_get(v, "sealed"))
			continue;
		sealed++;
		stored += kedge__event_uint(v, "stored_bytes");
		blocked += kedge__event_real(v, "blocked_seconds");
	}
	kedge__json_uint(totals, "versions", sealed);
	kedge__json_uint(totals, "stored_bytes", stored);
	kedge__json_real(totals, "blocked_seconds", blocked);
	kedge__json_uint(totals, "l2_versions", l2);
	kedge__json_uint(totals, "l2_bytes", l2_bytes);
}

static void processes_sum(const struct kedge__story *s, json_t *totals)
{
	double seconds = 0, lost = 0;
	uint64_t killed = 0;

	for (size_t i = 0; i < json_array_size(s->processes); i++) {
		const json_t *p = json_array_get(s->processes, i);

		seconds += KEDGE__MAX(kedge__event_real(p, "last") - kedge__event_real(p, "time"), 0);
		lost += KEDGE__MAX(lost_in(s, i), 0);
		killed += strcmp(kedge__event_text(p, "ended"), "killed") == 0;
	}
	kedge__json_uint(totals, "processes", json_array_size(s->processes));
	kedge__json_uint(totals, "killed", killed);
	kedge__json_real(totals, "running_seconds", seconds);
	kedge__json_real(totals, "lost_seconds", lost);
}

json_t *kedge__story_totals(const struct kedge__story *s)
{
	json_t *totals = kedge__json_object();

	versions_sum(s, totals);
	processes_sum(s, totals);
	kedge__json_uint(totals, "failed", marks_of(s, "failed"));
	kedge__json_uint(totals, "fallbacks", marks_of(s, "fallback"));
	kedge__json_uint(totals, "restarts", marks_of(s, "restart"));
	return totals;
}

json_t *kedge__story_json(const struct kedge__story *s)
{
	json_t *o = kedge__json_object(), *processes = json_deep_copy(s->processes);

	if (!processes)
		kedge__tool_no_memory();
	for (size_t i = 0; i < json_array_size(processes); i++)
		if (lost_in(s, i) >= 0)
			kedge__json_real(json_array_get(processes, i), "lost_seconds", lost_in(s, i));
	kedge__json_text(o, "name", s->name);
	kedge__json_set(o, "totals", kedge__story_totals(s));
	kedge__json_set(o, "processes", processes);
	kedge__json_set(o, "versions", json_deep_copy(s->versions));
	kedge__json_set(o, "marks", json_deep_copy(s->marks));
	return o;
}
