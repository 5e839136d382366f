/* SPDX-License-Identifier: BSD-3-Clause */
#include "scenario.h"
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"

#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD   96 /* doubles */
#define BULK    270000
#define LIST(v) (40 + 24 * (v)) /* bytes: grows with every version */

struct state {
	double field[FIELD];
	uint8_t list[LIST(SCENARIO_VERSIONS + 1)];
	uint64_t step;
	uint8_t bulk[BULK];
};

/* The memory at version V: a front that moves through the field, a list that grows, part of which returns to what it
 * was two versions before. */
static void state_at(struct state *st, uint64_t v)
{
	memset(st, 0, sizeof(*st));
	for (size_t i = 0; i < FIELD; i++)
		st->field[i] = i / 16 <= v ? (double)i * 0.25 : -1.0;
	for (size_t i = 0; i < 8; i++)
		st->field[16 + i] = v % 2 ? 1.0 / (double)(i + 1) : 3.0 * (double)i;
	for (size_t i = 0; i < LIST(v); i++)
		st->list[i] = (uint8_t)(i * 7 + i / 40 * v);
	st->step = v;
	for (size_t i = 0; i < BULK; i += 8)
		st->bulk[i] = (uint8_t)(i / 4096 * v);
}

char *scenario_directory(void)
{
	char dir[FILES_PATH];

	scratch_make(dir, sizeof(dir), "fault");
	return strdup(dir);
}

void scenario_remove(char *dir)
{
	assert_int_equal(scratch_remove(dir), 0);
	free(dir);
}

static int open_job(const struct scenario *s, const char *dir, kedge_t **k)
{
	const char *settings[16];
	char l1[256], l2[256];
	size_t n = 0;

	snprintf(l1, sizeof(l1), "l1=%s/l1", dir);
	snprintf(l2, sizeof(l2), "l2=%s/l2", dir);
	settings[n++] = l1;
	if (s->second_level)
		settings[n++] = l2;
	for (size_t i = 0; s->settings[i]; i++)
		settings[n++] = s->settings[i];
	settings[n] = NULL;
	return kedge_open("job", NULL, settings, k);
}

static int protect_all(const struct scenario *s, kedge_t *k, struct state *st, size_t list_bytes)
{
	if (s->bulk && kedge_protect(k, "bulk", st->bulk, BULK, KEDGE_U8))
		return -1;
	if (kedge_protect(k, "field", st->field, FIELD, KEDGE_F64) ||
	    kedge_protect(k, "list", st->list, list_bytes, KEDGE_U8))
		return -1;
	return kedge_protect(k, "step", &st->step, 1, KEDGE_U64);
}

int scenario_run(const struct scenario *s, const char *dir, uint64_t first, int acked_fd)
{
	struct state *st = calloc(1, sizeof(*st));
	kedge_t *k = NULL;
	int failed = 0;

	if (!st || open_job(s, dir, &k) != 0) {
		if (acked_fd < 0) /* without a fault it must not happen */
			print_message("%s: %s\n", s->name, kedge_last_error(NULL));
		free(st);
		return -1;
	}
	for (uint64_t v = first; v <= SCENARIO_VERSIONS; v++) {
		state_at(st, v);
		if (protect_all(s, k, st, LIST(v)) || kedge_checkpoint(k, v) || kedge_wait(k)) {
			failed++;
			continue;
		}
		if (acked_fd >= 0 && write(acked_fd, &v, sizeof(v)) != sizeof(v))
			failed++;
	}
	free(st);
	return kedge_close(k) ? -1 : failed;
}

/* Restart K from its newest version into fresh memory and compare. */
static int64_t restart_and_compare(const struct scenario *s, kedge_t *k)
{
	struct state *got = calloc(1, sizeof(*got)), *want = calloc(1, sizeof(*want));
	struct kedge_version_info *list = NULL;
	size_t count = 0;
	uint64_t v = 0;
	int64_t result = KEDGE_E_NOTFOUND;

	/* The list has another size in every version: try them from the newest down, as an application would. */
	if (kedge_versions(k, &list, &count) == 0) {
		for (size_t i = count; i-- > 0 && result < 0;) {
			struct kedge_region_info info;
			int rc = kedge_region_stat(k, list[i].version, "list", &info);

			memset(got, 0, sizeof(*got)); /* a restart that failed may have filled in some of it */
			if (rc == 0 && info.bytes <= sizeof(got->list) && protect_all(s, k, got, info.bytes) == 0)
				rc = kedge_restart(k, list[i].version, &v);
			result = rc ? rc : (int64_t)v;
		}
		kedge_free(list);
	}
	if (result > 0) {
		state_at(want, v);
		if (!s->bulk)
			memset(want->bulk, 0, BULK);
		assert_memory_equal(got, want, sizeof(*want));
	}
	free(got);
	free(want);
	return result;
}

int64_t scenario_try_restart(const struct scenario *s, const char *dir)
{
	kedge_t *k;
	int64_t result = open_job(s, dir, &k);

	if (result != 0)
		return result;
	result = restart_and_compare(s, k);
	kedge_close(k);
	return result;
}

void scenario_recover(const struct scenario *s, const char *dir, uint64_t *version)
{
	kedge_t *k;
	int64_t result;

	if (open_job(s, dir, &k) != 0)
		fail_msg("%s: open after the fault: %s", s->name, kedge_last_error(NULL));
	result = restart_and_compare(s, k);
	if (result < 0 && result != KEDGE_E_NOTFOUND)
		fail_msg("%s: restart after the fault: %s", s->name, kedge_last_error(k));
	*version = result > 0 ? (uint64_t)result : 0;
	assert_int_equal(kedge_close(k), 0);
}

static void print_finding(void *ctx, const struct kedge__finding *f)
{
	(void)ctx;
	print_message("finding: %s: %s\n", f->file, f->text);
}

static void check_store(const char *store)
{
	struct kedge__verify_report report = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat;

	if (kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, &err) != 0)
		fail_msg("%s", kedge__error_text(&err));
	if (kedge__verify(cat, NULL, KEDGE_NEWEST, print_finding, NULL, NULL, &report, &err) != 0)
		fail_msg("%s", kedge__error_text(&err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.versions_lost, 0);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
}

void scenario_check_clean(const struct scenario *s, const char *dir)
{
	char store[256];

	snprintf(store, sizeof(store), "%s/l1", dir);
	check_store(store);
	if (s->second_level) {
		snprintf(store, sizeof(store), "%s/l2", dir);
		check_store(store);
	}
}
