/* SPDX-License-Identifier: BSD-3-Clause */
/* show_packing: how the blocks of each region, and of each class, were packed, and why. */
#include "aggregate/aggregate.h"
#include "show.h"

static const char *const reasons[KEDGE__CODEC_REASONS] = {
    [KEDGE__CODEC_NOTHING] = "nothing",   [KEDGE__CODEC_GIVEN] = "given",   [KEDGE__CODEC_UNTRIED] = "untried",
    [KEDGE__CODEC_FASTEST] = "fastest",   [KEDGE__CODEC_TARGET] = "target", [KEDGE__CODEC_SMALLEST] = "smallest",
    [KEDGE__CODEC_BORROWED] = "borrowed",
};

const char *kedge__show_reason(const struct kedge__packing_record *p)
{
	return p && p->reason < KEDGE__CODEC_REASONS ? reasons[p->reason] : NULL;
}

static void count(struct kedge__show_packed *p, const struct kedge__block_record *b)
{
	p->blocks++;
	p->raw += b->raw_bytes;
	p->stored += b->stored_bytes;
	p->as_is += b->codec == KEDGE__CODEC_NONE;
	p->based += kedge__codec_needs_base(b->codec, b->param);
	if (!p->example || p->example->codec == KEDGE__CODEC_NONE)
		p->example = b;
}

/* Blocks of classes are the last ones. */
void kedge__show_packing_count(struct kedge__show *s)
{
	const struct kedge__segment *seg = s->segment;
	size_t at = seg->block_count;

	s->packed = kedge__calloc(seg->region_count + seg->classes.count + 1, sizeof(*s->packed));
	if (!s->packed)
		kedge__tool_no_memory();
	for (size_t i = 0; i < seg->classes.count; i++)
		at -= (size_t)seg->classes.at[i].blocks;
	for (size_t i = 0; i < at; i++)
		count(&s->packed[seg->blocks[i].region], &seg->blocks[i]);
	for (size_t i = 0; i < seg->classes.count; i++) {
		struct kedge__show_packed *p = &s->packed[seg->region_count + i];

		for (uint64_t k = 0; k < seg->classes.at[i].blocks; k++)
			count(p, &seg->blocks[at++]);
		p->told = &seg->classes.at[i].packing;
	}
	for (size_t i = 0; i < seg->packing_count; i++)
		s->packed[seg->packing[i].region].told = &seg->packing[i];
}

/* "aware: the smallest of a sample (agnostic 1.71, agnostic-block 1.70, aware 1.95, aware-block 1.93); tried 3 versions
 * ago" */
const char *kedge__show_scheme(const struct kedge__classes_record *c, char text[KEDGE__SHOW_WHY_ROOM])
{
	const char *name = kedge__aggregate_scheme_name(c->scheme), *why = kedge__aggregate_reason(c->reason);
	size_t used =
	    (size_t)snprintf(text, KEDGE__SHOW_WHY_ROOM, "%s: %s", name ? name : "unknown", why ? why : "not told");
	const char *before = " (";

	for (uint32_t i = 0; i < KEDGE__AGGREGATE_SCHEMES && used < KEDGE__SHOW_WHY_ROOM; i++) {
		if (c->sizes[i] <= 0)
			continue;
		used += (size_t)snprintf(text + used, KEDGE__SHOW_WHY_ROOM - used, "%s%s %.2f", before,
					 kedge__aggregate_scheme_name(KEDGE__AGGREGATE_AGNOSTIC + i), 1 / c->sizes[i]);
		before = ", ";
	}
	if (before[0] == ',' && used < KEDGE__SHOW_WHY_ROOM)
		used += (size_t)snprintf(text + used, KEDGE__SHOW_WHY_ROOM - used, ")");
	if (c->age && used < KEDGE__SHOW_WHY_ROOM)
		(void)snprintf(text + used, KEDGE__SHOW_WHY_ROOM - used, "; tried %u version%s ago", c->age,
			       c->age == 1 ? "" : "s");
	return text;
}

/* As it was chosen; for segments that do not record that, as in one of the blocks, which have no levels. */
const char *kedge__show_chain(const struct kedge__show_packed *p, char text[KEDGE__CODEC_NAME_ROOM])
{
	if (p->told)
		return p->told->name;
	return kedge__codec_describe(p->example->codec, p->example->param, text);
}

/* "estimated 1.90 at 640 MB/s per thread; storage takes 110 MB/s; sampled 3 versions ago" */
static size_t add_figures(const struct kedge__packing_record *p, char *text, size_t room)
{
	size_t used = 0;

	if (p->size > 0 && p->encode > 0)
		used += (size_t)snprintf(text + used, room - used, ": estimated %.2f at %.0f MB/s per thread",
					 1 / p->size, p->encode / 1e6);
	if (p->target > 0 && used < room)
		used += (size_t)snprintf(text + used, room - used, "; %.0f MB/s requested", p->target / 1e6);
	else if (p->storage > 0 && used < room)
		used += (size_t)snprintf(text + used, room - used, "; storage takes %.0f MB/s", p->storage / 1e6);
	if (p->age && used < room)
		used += (size_t)snprintf(text + used, room - used, "; sampled %u version%s ago", p->age,
					 p->age == 1 ? "" : "s");
	return used;
}

const char *kedge__show_why(const struct kedge__packing_record *p, char text[KEDGE__SHOW_WHY_ROOM])
{
	size_t used;

	if (!p || p->reason >= KEDGE__CODEC_REASONS)
		return "not told";
	used = (size_t)snprintf(text, KEDGE__SHOW_WHY_ROOM, "%s",
				kedge__codec_reason_text((enum kedge__codec_reason)p->reason));
	if (p->reason != KEDGE__CODEC_GIVEN && used < KEDGE__SHOW_WHY_ROOM)
		(void)add_figures(p, text + used, KEDGE__SHOW_WHY_ROOM - used);
	return text;
}
