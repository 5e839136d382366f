/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

const char *const region_names[WORLD_REGIONS] = {"field", "odd", "grows"};
static const enum kedge_type types[WORLD_REGIONS] = {KEDGE_F64, KEDGE_BYTES, KEDGE_U32};

const struct subject subjects[] = {
    {"full", {"reducer=full", "codec=none", "block=4k"}, false},
    {"full-field", {"reducer=full", "codec=field", "block=16k"}, false},
    {"basic", {"reducer=basic", "codec=lz4", "chunk=64", "block=4k"}, false},
    {"list", {"reducer=list", "codec=shuffle+zstd", "chunk=64", "block=4k"}, false},
    {"tree", {"reducer=tree", "codec=zstd", "chunk=32", "block=4k"}, false},
    {"tree-base", {"reducer=tree", "codec=xor+zstd", "chunk=256", "block=8k"}, false},
    {"tree-minus", {"reducer=tree", "codec=minus+lz4", "chunk=512", "block=4k"}, false},
    {"rex", {"reducer=rex", "codec=delta+zstd", "pattern=32", "block=4k"}, false},
    {"rex-wide", {"reducer=rex", "codec=bitshuffle+lz4", "pattern=256", "block=4k"}, false},
    {"auto", {"reducer=auto", "codec=fpc64", "block=4k"}, false},
    {"two levels", {"reducer=tree", "codec=max", "chunk=64", "block=4k", "coalesce=batch", "l2_every=2"}, true},
};
const size_t subject_count = sizeof(subjects) / sizeof(*subjects);

/* Doubles that move, a part that moved, constant pages, few patterns, noise, and what comes back. */
void memory_at(struct memory *m, uint64_t v)
{
	uint64_t state = 77;

	memset(m, 0, sizeof(*m));
	m->bytes[0] = 36 << 10;
	m->bytes[1] = 6001;
	m->bytes[2] = 4096 + 1024 * v;
	for (size_t i = 0; i < m->bytes[0] / 8; i++) {
		double value = (double)i * 0.25 + (i / 512 == v ? 1e-6 * (double)v : 0);

		memcpy(m->at[0] + 8 * i, &value, 8);
	}
	memset(m->at[0] + 4096 * (v % 4), 0, 5000);
	memmove(m->at[0] + 20480 + 64 * v, m->at[0] + 12288, 4096);
	for (size_t i = 0; i < m->bytes[1]; i++)
		m->at[1][i] = (uint8_t)draw(&state);
	for (size_t i = 0; i < 40; i++)
		m->at[1][(i * 997 + v * 13) % m->bytes[1]] = (uint8_t)(v * i);
	for (size_t i = 0; i < m->bytes[2]; i++)
		m->at[2][i] = (uint8_t)(i / 32 % (2 + v % 3) * 50 + i / 4096);
}

bool memory_known(const uint8_t *data, size_t bytes)
{
	static struct memory m;

	for (uint64_t v = 1; v <= WORLD_VERSIONS + 1; v++) {
		memory_at(&m, v);
		for (size_t i = 0; i < WORLD_REGIONS; i++)
			if (m.bytes[i] == bytes && memcmp(m.at[i], data, bytes) == 0)
				return true;
	}
	return false;
}

int world_open(const struct subject *s, const char *dir, kedge_t **k)
{
	const char *settings[16];
	char l1[FILES_PATH + 8], l2[FILES_PATH + 8];
	size_t n = 0;

	snprintf(l1, sizeof(l1), "l1=%s/l1", dir);
	snprintf(l2, sizeof(l2), "l2=%s/l2", dir);
	settings[n++] = l1;
	if (s->second_level)
		settings[n++] = l2;
	settings[n++] = "sync=no";
	settings[n++] = "threads=2";
	settings[n++] = "track=none";
	for (size_t i = 0; s->settings[i]; i++)
		settings[n++] = s->settings[i];
	settings[n] = NULL;
	return kedge_open("job", NULL, settings, k);
}

int world_protect(kedge_t *k, struct memory *m)
{
	int rc = 0;

	for (size_t i = 0; i < WORLD_REGIONS && !rc; i++)
		rc = kedge_protect(k, region_names[i], m->at[i], m->bytes[i] / kedge_type_size(types[i]), types[i]);
	return rc;
}

void world_make(const struct subject *s, const char *dir)
{
	static struct memory m;
	kedge_t *k = NULL;

	REQUIRE(mkdir(dir, 0700) == 0 && world_open(s, dir, &k) == 0);
	for (uint64_t v = 1; v <= WORLD_VERSIONS; v++) {
		memory_at(&m, v);
		REQUIRE(world_protect(k, &m) == 0 && kedge_checkpoint(k, v) == 0 && kedge_wait(k) == 0);
	}
	REQUIRE(kedge_close(k) == 0);
}
