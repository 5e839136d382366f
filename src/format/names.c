/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The directory". */
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>

#define VERSION_DIGITS 20
#define RANK_DIGITS    7

void kedge__set_file_format(uint64_t version, char name[KEDGE__SET_FILE_ROOM])
{
	(void)snprintf(name, KEDGE__SET_FILE_ROOM, "set-%020" PRIu64, version);
}

void kedge__version_dir_format(uint64_t version, char name[KEDGE__VERSION_DIR_ROOM])
{
	(void)snprintf(name, KEDGE__VERSION_DIR_ROOM, "v%020" PRIu64, version);
}

void kedge__segment_file_format(uint32_t rank, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM])
{
	(void)snprintf(name, KEDGE__SEGMENT_FILE_ROOM, "r%07" PRIu32 "-g%" PRIu32 ".seg", rank, generation);
}

void kedge__shield_file_format(uint32_t rank, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM])
{
	(void)snprintf(name, KEDGE__SEGMENT_FILE_ROOM, "r%07" PRIu32 "-g%" PRIu32 ".shd", rank, generation);
}

void kedge__bundle_file_format(uint32_t first, uint32_t generation, char name[KEDGE__SEGMENT_FILE_ROOM])
{
	(void)snprintf(name, KEDGE__SEGMENT_FILE_ROOM, "r%07" PRIu32 "-g%" PRIu32 ".bdl", first, generation);
}

char *kedge__set_file_name(uint64_t version)
{
	char name[KEDGE__SET_FILE_ROOM];

	kedge__set_file_format(version, name);
	return kedge__strdup(name);
}

char *kedge__version_dir_name(uint64_t version)
{
	char name[KEDGE__VERSION_DIR_ROOM];

	kedge__version_dir_format(version, name);
	return kedge__strdup(name);
}

char *kedge__segment_file_name(uint32_t rank, uint32_t generation)
{
	char name[KEDGE__SEGMENT_FILE_ROOM];

	kedge__segment_file_format(rank, generation, name);
	return kedge__strdup(name);
}

/* The number at *P, up to MAX, of the digits that stand there; *P moves behind them, *DIGITS is how many they were. */
static bool parse_number(const char **p, uint64_t max, uint64_t *value, size_t *digits)
{
	const char *at = *p;
	uint64_t v = 0;

	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*digits = (size_t)(at - *p);
	*value = v;
	*p = at;
	return *digits > 0;
}

static bool parse_prefix(const char **p, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(*p, prefix, n) != 0)
		return false;
	*p += n;
	return true;
}

static bool parse_version_name(const char *name, const char *prefix, uint64_t *version)
{
	uint64_t v;
	size_t digits;

	if (!parse_prefix(&name, prefix) || !parse_number(&name, KEDGE_VERSION_LIMIT - 1, &v, &digits))
		return false;
	if (digits != VERSION_DIGITS || *name)
		return false;
	*version = v;
	return true;
}

bool kedge__set_file_parse(const char *name, uint64_t *version)
{
	return parse_version_name(name, "set-", version);
}

bool kedge__version_dir_parse(const char *name, uint64_t *version)
{
	return parse_version_name(name, "v", version);
}

static bool parse_rank_file(const char *name, const char *suffix, uint32_t *rank, uint32_t *generation)
{
	uint64_t r, g;
	size_t digits;

	if (!parse_prefix(&name, "r") || !parse_number(&name, KEDGE__RANK_LIMIT - 1, &r, &digits))
		return false;
	if (digits != RANK_DIGITS || !parse_prefix(&name, "-g"))
		return false;
	if (*name == '0' && name[1] != '.')
		return false;
	if (!parse_number(&name, UINT32_MAX, &g, &digits) || strcmp(name, suffix) != 0)
		return false;
	*rank = (uint32_t)r;
	*generation = (uint32_t)g;
	return true;
}

bool kedge__segment_file_parse(const char *name, uint32_t *rank, uint32_t *generation)
{
	return parse_rank_file(name, ".seg", rank, generation);
}

bool kedge__shield_file_parse(const char *name, uint32_t *rank, uint32_t *generation)
{
	return parse_rank_file(name, ".shd", rank, generation);
}

bool kedge__bundle_file_parse(const char *name, uint32_t *first, uint32_t *generation)
{
	return parse_rank_file(name, ".bdl", first, generation);
}

int kedge__job_name_check(const char *name, struct kedge__error *err)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);

	if (n == 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the job name is empty");
	if (n > KEDGE_NAME_MAX)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the job name has %zu bytes; the limit is %d", n,
					KEDGE_NAME_MAX);
	if (name[0] == '.' || strspn(name, allowed) != n)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "job name '%s': only A-Z a-z 0-9 . _ - are allowed, and it must not begin with a dot", name);
	if (strncmp(name, KEDGE__STORE_MARKER_NAME, strlen(KEDGE__STORE_MARKER_NAME)) == 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "job name '%s': names that begin with '%s' are reserved",
					name, KEDGE__STORE_MARKER_NAME);
	return 0;
}
