#include "codec/codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define AUTO      "auto"
#define WORDS_MAX 16

static int unknown_codec(const char *name, struct kedge__error *err)
{
	const char *words[WORDS_MAX];
	const char *nearest;
	char list[128] = "";
	size_t n = 0, used = 0;

	for (; n < kedge__codec_count() && n < WORDS_MAX - 1; n++)
		words[n] = kedge__codec_at(n)->name;
	words[n++] = AUTO;
	for (size_t i = 0; i < n && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", words[i]);
	nearest = kedge__nearest_word(name, words, n);
	if (nearest)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec '%s' is not one of %s; did you mean '%s'?", name,
					list, nearest);
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec '%s' is not one of %s", name, list);
}

static int parse_level(const struct kedge__codec *codec, const char *text, int *level, struct kedge__error *err)
{
	char *end;
	long v;

	if (codec->min_level == codec->max_level)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s has no levels", codec->name);
	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < codec->min_level || v > codec->max_level)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s: level '%s' is not a number from %d to %d",
					codec->name, text, codec->min_level, codec->max_level);
	*level = (int)v;
	return 0;
}

int kedge__codec_choice_parse(const char *text, struct kedge__codec_choice *choice, struct kedge__error *err)
{
	const char *colon = strchr(text, ':');
	struct kedge__codec_choice got = {0};
	char name[32];
	int n = colon ? (int)(colon - text) : (int)strnlen(text, sizeof(name));
	int rc = 0;

	if (strcmp(text, AUTO) == 0) {
		*choice =
		    (struct kedge__codec_choice){.automatic = true, .codec = kedge__codec_by_id(KEDGE__CODEC_NONE)};
		return 0;
	}
	snprintf(name, sizeof(name), "%.*s", n, text);
	if (strcmp(name, AUTO) == 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s has no levels", AUTO);
	got.codec = kedge__codec_by_name(name);
	if (!got.codec)
		return unknown_codec(name, err);
	got.level = got.codec->preset_level;
	if (colon)
		rc = parse_level(got.codec, colon + 1, &got.level, err);
	if (rc == 0)
		*choice = got;
	return rc;
}
