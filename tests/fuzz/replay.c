/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay CORPUS MUTATIONS: run the fuzz target over all files of the corpus, then over MUTATIONS mutations of them. The
 * mutations depend on nothing but the corpus and their number, so a failure can be had again.
 */
#include "../lib/draw.h"
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

#define INPUT_MAX 65536

struct input {
	uint8_t *at;
	size_t count;
};

struct corpus {
	struct input *at;
	size_t count;
};

static uint64_t random_state = 1;

static int is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static struct input read_input(const char *dir, const char *name)
{
	struct input in = {.at = malloc(INPUT_MAX)};
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	FUZZ_REQUIRE(f && in.at);
	in.count = fread(in.at, 1, INPUT_MAX, f);
	FUZZ_REQUIRE(feof(f));
	fclose(f);
	return in;
}

static struct corpus read_corpus(const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_visible, alphasort);
	struct corpus c = {0};

	FUZZ_REQUIRE(n > 0);
	c.at = calloc((size_t)n, sizeof(*c.at));
	FUZZ_REQUIRE(c.at);
	for (int i = 0; i < n; i++) {
		c.at[c.count++] = read_input(dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return c;
}

static void free_corpus(struct corpus *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->at[i].at);
	free(c->at);
}

/* Replace REMOVED bytes at POS by N bytes of FROM. */
static void splice(struct input *in, size_t pos, size_t removed, const uint8_t *from, size_t n)
{
	if (in->count - removed + n > INPUT_MAX)
		return;
	memmove(in->at + pos + n, in->at + pos + removed, in->count - pos - removed);
	memcpy(in->at + pos, from, n);
	in->count = in->count - removed + n;
}

static void mutate(struct input *in, const struct corpus *c)
{
	static const uint8_t odd[] = {0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xfe, 0xff};
	size_t pos = draw_below(&random_state, in->count + 1), left = in->count - pos;
	size_t n = left ? 1 + draw_below(&random_state, KEDGE__MIN(left, (size_t)9)) : 0;
	const struct input *other = &c->at[draw_below(&random_state, c->count)];
	uint8_t junk[9];

	switch (draw_below(&random_state, 6)) {
	case 0:
		if (left)
			in->at[pos] ^= (uint8_t)(1 << draw_below(&random_state, 8));
		break;
	case 1:
		if (left)
			in->at[pos] = odd[draw_below(&random_state, sizeof(odd))];
		break;
	case 2:
		splice(in, pos, n, junk, 0);
		break;
	case 3:
		for (size_t i = 0; i < sizeof(junk); i++)
			junk[i] = odd[draw_below(&random_state, sizeof(odd))];
		splice(in, pos, draw_below(&random_state, 2) ? n : 0, junk,
		       draw_below(&random_state, sizeof(junk) + 1));
		break;
	case 4:
		in->count = draw_below(&random_state, 4) ? in->count : pos;
		break;
	default:
		if (other->count) {
			size_t from = draw_below(&random_state, other->count);

			splice(in, pos, draw_below(&random_state, left + 1), other->at + from,
			       draw_below(&random_state, other->count - from + 1));
		}
	}
}

/* In a block of its own size, so that a sanitizer sees a read past its end. */
static void run(const struct input *in)
{
	uint8_t *exact = malloc(in->count ? in->count : 1);

	FUZZ_REQUIRE(exact);
	memcpy(exact, in->at, in->count);
	LLVMFuzzerTestOneInput(exact, in->count);
	free(exact);
}

int main(int argc, char **argv)
{
	struct input work = {.at = malloc(INPUT_MAX)};
	struct corpus c;
	long mutations;

	if (argc != 3) {
		fprintf(stderr, "usage: %s CORPUS MUTATIONS\n", argv[0]);
		return 2;
	}
	FUZZ_REQUIRE(work.at);
	c = read_corpus(argv[1]);
	mutations = strtol(argv[2], NULL, 10);
	for (size_t i = 0; i < c.count; i++)
		run(&c.at[i]);
	for (long i = 0; i < mutations; i++) {
		const struct input *seed = &c.at[draw_below(&random_state, c.count)];

		memcpy(work.at, seed->at, seed->count);
		work.count = seed->count;
		for (uint64_t k = 1 + draw_below(&random_state, 4); k > 0; k--)
			mutate(&work, &c);
		run(&work);
	}
	printf("%zu inputs, %ld mutations\n", c.count, mutations);
	free_corpus(&c);
	free(work.at);
	return 0;
}
