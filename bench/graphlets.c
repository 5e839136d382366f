/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench graphlets: moments of a program that counts graphlets, as files, for `kedge bench gpu --series`: as those
 * that the paper on Merkle trees measures with ORANGES.
 */
#include "graphlets.h"

#include "bench.h"

#include <errno.h>
#include <sys/stat.h>

struct graphlets {
	struct kedge__usage usage;
	uint64_t side, moments, seed;
	struct kedge__graph g;
	struct kedge__orbits *orbits;
	uint32_t *counts;
	uint8_t *seen;
};

static int dir_make(const char *dir, struct kedge__error *err)
{
	return mkdir(dir, 0777) == 0 ? 0 : kedge__error_set(err, KEDGE_E_IO, errno, "cannot make %s", dir);
}

static int moment_write(const struct graphlets *b, const char *dir, uint64_t i, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/moment-%03llu", dir, (unsigned long long)i);
	FILE *f = path ? fopen(path, "wb") : NULL;
	uint64_t n = (uint64_t)KEDGE__ORBITS * b->g.count;
	bool whole = f && fwrite(b->counts, sizeof(*b->counts), n, f) == n;
	int rc = 0;

	if ((f && fclose(f)) || !whole)
		rc = kedge__error_set(err, KEDGE_E_IO, 0, "cannot write %s", path ? path : dir);
	kedge__free(path);
	return rc;
}

static int run(struct graphlets *b, const char *dir, struct kedge__error *err)
{
	int rc = kedge__graph_roads(&b->g, (uint32_t)b->side, b->seed, err);
	uint32_t done = 0;

	b->orbits = kedge__malloc(sizeof(*b->orbits));
	b->counts = kedge__calloc((uint64_t)KEDGE__ORBITS * b->g.count, sizeof(*b->counts));
	b->seen = kedge__calloc(b->g.count, 1);
	if (!rc && !(b->orbits && b->counts && b->seen))
		rc = kedge__error_nomem(err);
	if (!rc)
		kedge__orbits_init(b->orbits);
	for (uint64_t i = 1; i <= b->moments && !rc; i++) {
		uint32_t end = (uint32_t)(b->g.count * i / b->moments);

		kedge__graphlets_count(&b->g, b->orbits, done, end, b->counts, b->seen);
		done = end;
		rc = moment_write(b, dir, i, err);
	}
	kedge__graph_done(&b->g);
	kedge__free(b->orbits);
	kedge__free(b->counts);
	kedge__free(b->seen);
	return rc;
}

int kedge__bench_graphlets(int argc, char **argv)
{
	struct graphlets b = {.side = 600, .moments = 20, .seed = 1};
	struct kedge__error err = KEDGE__ERROR_INIT;
	const struct kedge__option options[] = {
	    {"side", 0, KEDGE__OPTION_UINT, &b.side, "N", "vertices are those of a grid of N x N (default: 600)"},
	    {"moments", 0, KEDGE__OPTION_UINT, &b.moments, "N", "how many (default: 20)"},
	    {"seed", 0, KEDGE__OPTION_UINT, &b.seed, "N", "another one gives another graph (default: 1)"},
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench graphlets",
	    .operands = "DIR",
	    .about = "Counts graphlets of a road network, and writes the counts as they are after equal parts of it "
		     "to files of\nDIR, which is made: versions for `kedge bench gpu --series DIR`.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench graphlets moments --side 200",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (argc - first != 1)
		return kedge__usage_error(&b.usage, "one DIR is needed");
	if (b.side < 2 || b.side > 10000 || b.moments < 1 || b.moments > 999 || !b.seed)
		return kedge__usage_error(&b.usage, "--side is 2 to 10000, --moments 1 to 999, --seed 1 or more");
	if (dir_make(argv[first], &err) || run(&b, argv[first], &err))
		return kedge__tool_fail(b.usage.command, &err, "cannot count");
	return KEDGE__EXIT_OK;
}
