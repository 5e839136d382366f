/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define AUTO      "auto"
#define MAX       "max"
#define WORDS_MAX 24
#define NAME_ROOM 32
#define SHAPE_MAX (UINT64_C(1) << 30)

static const struct {
	const char *name;
	unsigned step;
} steps[] = {{"delta", KEDGE__STEP_DELTA}, {"xor", KEDGE__STEP_XOR}, {"minus", KEDGE__STEP_MINUS}};

static int unknown_codec(const char *name, struct kedge__error *err)
{
	const char *words[WORDS_MAX];
	const char *nearest;
	char list[256] = "";
	size_t n = 0, used = 0;

	for (; n < kedge__codec_count() && n < WORDS_MAX - 4; n++)
		words[n] = kedge__codec_at(n)->name;
	words[n++] = "xor";
	words[n++] = "minus";
	words[n++] = AUTO;
	words[n++] = MAX;
	for (size_t i = 0; i < n && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", words[i]);
	nearest = kedge__nearest_word(name, words, n);
	if (nearest)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "'%s' is not one of the codecs %s; did you mean '%s'?",
					name, list, nearest);
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "'%s' is not one of the codecs %s", name, list);
}

static int parse_level(const struct kedge__codec *codec, const char *text, int *level, struct kedge__error *err)
{
	char *end;
	long v;

	if (codec->min_level == codec->max_level)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s has no levels", codec->name);
	errno = 0;
	v = strtol(text, &end, 10);
	if (codec->widths && (end == text || *end || (v != 1 && v != 2 && v != 4 && v != 8)))
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s: width '%s' is not 1, 2, 4 or 8", codec->name,
					text);
	if (end == text || *end || errno || v < codec->min_level || v > codec->max_level)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s: level '%s' is not a number from %d to %d",
					codec->name, text, codec->min_level, codec->max_level);
	*level = (int)v;
	return 0;
}

/* Rearranges bytes, so that a general codec comes after it. */
static bool is_layout(const struct kedge__codec *codec)
{
	return codec->id == KEDGE__CODEC_SHUFFLE || codec->id == KEDGE__CODEC_BITSHUFFLE ||
	       codec->id == KEDGE__CODEC_RECORDS;
}

static bool follows_steps(const struct kedge__codec *codec)
{
	return is_layout(codec) || codec->id == KEDGE__CODEC_PLANES;
}

/* One word of a chain: a step, the first pass, or the general one behind it. */
static int take_word(struct kedge__codec_choice *c, const char *name, const char *level, struct kedge__error *err)
{
	const struct kedge__codec *codec;
	bool begun = c->codec && c->codec->id != KEDGE__CODEC_DELTA;

	for (size_t i = 0; i < KEDGE__COUNT(steps); i++)
		if (strcmp(name, steps[i].name) == 0 && !begun && !c->second && !level) {
			c->steps |= steps[i].step;
			c->codec = kedge__codec_by_id(KEDGE__CODEC_DELTA);
			return 0;
		}
	codec = kedge__codec_by_name(name);
	if (!codec)
		return unknown_codec(name, err);
	if (!c->codec || (!begun && follows_steps(codec))) {
		c->codec = codec;
		c->level = codec->preset_level;
		return level ? parse_level(codec, level, &c->level, err) : 0;
	}
	if (!codec->general || c->second || !c->codec->first)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s cannot follow %s", name,
					c->second ? c->second->name : c->codec->name);
	c->second = codec;
	c->second_level = codec->preset_level;
	return level ? parse_level(codec, level, &c->second_level, err) : 0;
}

static int take_part(struct kedge__codec_choice *c, const char *text, size_t bytes, struct kedge__error *err)
{
	char word[NAME_ROOM], *colon;

	snprintf(word, sizeof(word), "%.*s", (int)KEDGE__MIN(bytes, sizeof(word)), text);
	colon = strchr(word, ':');
	if (colon)
		*colon++ = '\0';
	if (strcmp(word, AUTO) == 0 || strcmp(word, MAX) == 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s takes no level and cannot be chained", word);
	return take_word(c, word, colon, err);
}

int kedge__codec_choice_parse(const char *text, struct kedge__codec_choice *choice, struct kedge__error *err)
{
	struct kedge__codec_choice got = {0};
	int rc = 0;

	if (strcmp(text, AUTO) == 0 || strcmp(text, MAX) == 0) {
		*choice = (struct kedge__codec_choice){.automatic = true,
						       .smallest = strcmp(text, MAX) == 0,
						       .codec = kedge__codec_by_id(KEDGE__CODEC_NONE)};
		return 0;
	}
	for (const char *at = text; !rc && at;) {
		const char *plus = strchr(at, '+');

		rc = take_part(&got, at, plus ? (size_t)(plus - at) : strlen(at), err);
		at = plus ? plus + 1 : NULL;
	}
	if (!rc && (got.steps & KEDGE__STEP_XOR) && (got.steps & KEDGE__STEP_MINUS))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "codec %s: xor and minus cannot be combined", text);
	if (!rc && got.codec->id == KEDGE__CODEC_RECORDS && got.steps & ~(unsigned)KEDGE__STEP_XOR)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0,
				      "codec %s: of delta, xor and minus, only xor can precede records", text);
	if (rc)
		return rc;
	if (!got.second && got.codec->id != KEDGE__CODEC_PLANES && (got.steps || is_layout(got.codec))) {
		got.second = kedge__codec_by_id(KEDGE__CODEC_ZSTD);
		got.second_level = got.second->preset_level;
	}
	*choice = got;
	return 0;
}

void kedge__codec_choice_shape(struct kedge__codec_choice *choice, int ndims, const uint64_t *dims)
{
	uint64_t reach = 1;
	int seen = 0;

	choice->row = choice->plane = 0;
	for (int i = ndims; i-- > 0;) {
		if (dims[i] <= 1)
			continue;
		/* The distance along this dimension; it is of use only where there is such a dimension. */
		if (seen == 1)
			choice->row = (uint32_t)reach;
		if (seen == 2)
			choice->plane = (uint32_t)reach;
		if (seen++ == 2 || dims[i] > SHAPE_MAX / reach)
			return;
		reach *= dims[i];
	}
}

static void append(char text[KEDGE__CODEC_NAME_ROOM], const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, KEDGE__CODEC_NAME_ROOM - used, "%s%s", used ? "+" : "", word);
}

static void append_codec(char text[KEDGE__CODEC_NAME_ROOM], const struct kedge__codec *codec, const int *level)
{
	char word[NAME_ROOM];

	if (level && codec->min_level != codec->max_level && (*level || !(codec->widths || codec->min_level > 0)))
		snprintf(word, sizeof(word), "%s:%d", codec->name, *level);
	else
		snprintf(word, sizeof(word), "%s", codec->name);
	append(text, word);
}

static const char *describe(const struct kedge__codec_choice *c, bool levels, char text[KEDGE__CODEC_NAME_ROOM])
{
	text[0] = '\0';
	for (size_t i = KEDGE__COUNT(steps); i-- > 0;)
		if (c->steps & steps[i].step)
			append(text, steps[i].name);
	if (c->codec->id != KEDGE__CODEC_DELTA || !c->steps)
		append_codec(text, c->codec, levels ? &c->level : NULL);
	if (c->second)
		append_codec(text, c->second, levels ? &c->second_level : NULL);
	return text;
}

const char *kedge__codec_choice_describe(const struct kedge__codec_choice *choice, char text[KEDGE__CODEC_NAME_ROOM])
{
	if (!choice->automatic)
		return describe(choice, true, text);
	snprintf(text, KEDGE__CODEC_NAME_ROOM, "%s", choice->smallest ? MAX : AUTO);
	return text;
}

const char *kedge__codec_describe(uint16_t id, uint16_t param, char text[KEDGE__CODEC_NAME_ROOM])
{
	struct kedge__codec_choice c = {.codec = kedge__codec_by_id(id)};

	if (!c.codec) {
		snprintf(text, KEDGE__CODEC_NAME_ROOM, "codec %u", id);
		return text;
	}
	if (c.codec->first && (param & 0xff))
		c.second = kedge__codec_by_id(param & 0xff);
	if (follows_steps(c.codec) || id == KEDGE__CODEC_DELTA)
		c.steps = param >> KEDGE__STEP_SHIFT;
	return describe(&c, false, text);
}
