/* SPDX-License-Identifier: BSD-3-Clause */
/* cli_craft: stores that the command itself would not make: region names that point elsewhere, sets of several ranks, a
 * name that stays locked, a reason in a manifest, a pack that lies. Usage: cli_craft STORE NAME region REGION |
 * ranks N VERSIONS | hold | why VERSION TEXT; cli_craft PACK - lie SEED */
#include "../lib/draw.h"
#include "../lib/ranks.h"
#include "../lib/reseal.h"
#include "format/format.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int craft_region(const char *name, const char *const *settings, const char *region)
{
	char evil[] = "evil", good[] = "good";
	kedge_t *k;

	if (kedge_open(name, NULL, settings, &k) != 0 || kedge_protect(k, region, evil, 4, KEDGE_BYTES) != 0 ||
	    kedge_protect(k, "good", good, 4, KEDGE_BYTES) != 0 || kedge_checkpoint(k, 1) != 0)
		return 1;
	return kedge_close(k) != 0;
}

/* Ranks are threads. */
struct ranks {
	int size;
	uint64_t versions;
	const char *name;
	const char *const *settings;
	atomic_int failed;
};

static void run_rank(struct seat *front, struct seat *back, void *ctx)
{
	struct ranks *all = ctx;
	struct kedge_group group = {.rank = front->rank, .size = all->size, .allgather = meet, .ctx = front};
	char data[4096];
	int failed;
	kedge_t *k;

	(void)back;
	memset(data, 'a' + front->rank, sizeof(data));
	failed = kedge_open_group(all->name, NULL, all->settings, &group, &k) != 0;
	if (!failed) {
		failed = kedge_protect(k, "data", data, sizeof(data), KEDGE_BYTES) != 0;
		for (uint64_t v = 1; v <= all->versions && !failed; v++) {
			data[v] = 'A';
			failed = kedge_checkpoint(k, v) != 0;
		}
		failed |= kedge_close(k) != 0;
	}
	all->failed += failed;
}

static int craft_ranks(struct ranks *all)
{
	ranks_threads(all->size, run_rank, all);
	return all->failed != 0;
}

/* The manifest of VERSION with TEXT as the reason why it was taken, well-formed and sealed. */
static int craft_why(const char *store, const char *name, unsigned long long version, const char *why)
{
	static uint8_t data[1 << 16];
	struct kedge__bytes out = {0};
	struct kedge__set set = {0};
	char path[4096];
	FILE *file;
	size_t bytes;
	int failed;

	snprintf(path, sizeof(path), "%s/%s/set-%020llu", store, name, version);
	file = fopen(path, "r+");
	if (!file)
		return 1;
	bytes = fread(data, 1, sizeof(data), file);
	failed = kedge__set_decode(data, bytes, &set, NULL) != 0;
	if (!failed) {
		kedge__free(set.why);
		set.why = kedge__strdup(why);
		failed = kedge__set_encode(&set, &out, NULL) != 0;
	}
	rewind(file);
	failed = failed || fwrite(out.at, 1, out.count, file) != out.count || ftruncate(fileno(file), (off_t)out.count);
	failed |= fclose(file) != 0;
	kedge__set_done(&set);
	kedge__bytes_done(&out);
	return failed;
}

/* A few bytes of one section are changed, and all checksums, sums and seals are right again. */
static int craft_lie(const char *path, uint64_t seed)
{
	static struct sealed pack;
	struct kedge__set_part part;
	struct section *s;

	snprintf(pack.path, sizeof(pack.path), "%s", path);
	sealed_load(&pack);
	s = &pack.sections[seed % pack.count];
	for (uint64_t n = 1 + draw_below(&seed, 3); n > 0 && s->data.bytes; n--)
		s->data.at[draw_below(&seed, s->data.bytes)] = (uint8_t)draw(&seed);
	if (s->type != KEDGE__SECTION_SUMMARY)
		sealed_mend_summary(&pack);
	sealed_write(&pack, &part);
	sealed_free(&pack);
	return 0;
}

/* Keep the name until standard input ends. */
static int hold(const char *name, const char *const *settings)
{
	kedge_t *k;
	char c;

	if (kedge_open(name, NULL, settings, &k) != 0)
		return 1;
	if (write(STDOUT_FILENO, "held\n", 5) != 5)
		return 1;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return kedge_close(k) != 0;
}

int main(int argc, char **argv)
{
	char l1[4096];
	const char *settings[] = {l1, NULL};
	struct ranks all = {.settings = settings};
	int rc = 2;

	if (argc < 4)
		return 2;
	snprintf(l1, sizeof(l1), "l1=%s", argv[1]);
	if (argc == 5 && strcmp(argv[3], "region") == 0)
		rc = craft_region(argv[2], settings, argv[4]);
	if (argc == 4 && strcmp(argv[3], "hold") == 0)
		rc = hold(argv[2], settings);
	if (argc == 6 && strcmp(argv[3], "why") == 0)
		rc = craft_why(argv[1], argv[2], strtoull(argv[4], NULL, 10), argv[5]);
	if (argc == 5 && strcmp(argv[3], "lie") == 0)
		rc = craft_lie(argv[1], strtoull(argv[4], NULL, 10));
	if (argc == 6 && strcmp(argv[3], "ranks") == 0) {
		all.name = argv[2];
		all.size = atoi(argv[4]);
		all.versions = strtoull(argv[5], NULL, 10);
		rc = craft_ranks(&all);
	}
	if (rc)
		fprintf(stderr, "cli_craft: %s\n", kedge_last_error(NULL));
	return rc;
}
