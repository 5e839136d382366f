/* SPDX-License-Identifier: BSD-3-Clause */
/* show_packing: how the blocks of each region were packed, and why. */
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

void kedge__show_packing_count(struct kedge__show *s)
{
	const struct kedge__segment *seg = s->segment;

	s->packed = kedge__calloc(seg->region_count + 1, sizeof(*s->packed));
	if (!s->packed)
		kedge__tool_no_memory();
	for (size_t i = 0; i < seg->block_count; i++) {
		const struct kedge__block_record *b = &seg->blocks[i];
		struct kedge__show_packed *p = &s->packed[b->region];

		p->blocks++;
		p->raw += b->raw_bytes;
		p->stored += b->stored_bytes;
		p->as_is += b->codec == KEDGE__CODEC_NONE;
		p->based += kedge__codec_needs_base(b->codec, b->param);
		if (!p->example || p->example->codec == KEDGE__CODEC_NONE)
			p->example = b;
	}
	for (size_t i = 0; i < seg->packing_count; i++)
		s->packed[seg->packing[i].region].told = &seg->packing[i];
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
