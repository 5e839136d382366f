/* SPDX-License-Identifier: BSD-3-Clause */
#include "change.h"
#include "../lib/map.h"

#include <dirent.h>

struct change {
	struct store *store;
	struct sealed *im; /* one of the store's */
	uint64_t *state;
};

/* A number that is likely to matter: small, at a power of two, near OLD, or any. */
static uint64_t odd_number(uint64_t *state, uint64_t old)
{
	switch (draw_below(state, 8)) {
	case 0:
		return draw_below(state, 4);
	case 1:
		return old + 1 + draw_below(state, 3);
	case 2:
		return old - 1 - draw_below(state, 3);
	case 3:
		return (UINT64_C(1) << draw_below(state, 64)) - draw_below(state, 2);
	case 4:
		return old ^ (UINT64_C(1) << draw_below(state, 64));
	case 5:
		return old * 2;
	case 6:
		return UINT64_MAX - draw_below(state, 3);
	default:
		return draw(state);
	}
}

/* ---- bytes */

static void change_bytes(struct piece *p, uint64_t *state)
{
	static const uint8_t tokens[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x04};
	uint8_t some[16];
	size_t at, n;

	for (size_t i = 0; i < sizeof(some); i++)
		some[i] = draw_below(state, 2) ? tokens[draw_below(state, sizeof(tokens))] : (uint8_t)draw(state);
	if (!p->bytes) {
		piece_splice(p, 0, 0, some, 1 + draw_below(state, 8));
		return;
	}
	at = draw_below(state, p->bytes);
	n = 1 + draw_below(state, 8);
	n = n < p->bytes - at ? n : p->bytes - at;
	switch (draw_below(state, 5)) {
	case 0:
		p->at[at] ^= (uint8_t)(1u << draw_below(state, 8));
		break;
	case 1:
		memcpy(p->at + at, some, n);
		break;
	case 2:
		piece_splice(p, at, n, some, 0);
		break;
	case 3:
		piece_splice(p, at, 0, some, n);
		break;
	default: /* the same again */
		piece_splice(p, at, 0, p->at + at, n);
	}
}

static const char *any_section(struct change *c)
{
	if (!c->im->count)
		return "nothing";
	change_bytes(&c->im->sections[draw_below(c->state, c->im->count)].data, c->state);
	return "bytes of a section";
}

/* Stored bytes get past their checksum: decoders see them. */
static const char *payload(struct change *c)
{
	struct piece *p = &c->im->payload;

	if (!p->bytes)
		return "nothing";
	for (uint64_t n = 1 + draw_below(c->state, 4); n > 0; n--)
		p->at[draw_below(c->state, p->bytes)] = (uint8_t)draw(c->state);
	return "bytes of blocks";
}

/* ---- records of sections */

static void section_put(struct section *s, struct kedge__bytes *b, int rc)
{
	if (rc == 0)
		piece_set(&s->data, b->at, b->count);
	kedge__bytes_done(b);
}

static const char *summary(struct change *c)
{
	static const uint8_t at[] = {0, 8, 16, 24, 32, 40, 48, 56, 60, 64, 68};
	struct section *s = sealed_section(c->im, KEDGE__SECTION_SUMMARY);
	size_t i = draw_below(c->state, sizeof(at));

	if (!s || s->data.bytes < 72)
		return "nothing";
	if (at[i] < 56)
		kedge__put64(s->data.at + at[i], odd_number(c->state, kedge__get64(s->data.at + at[i])));
	else
		kedge__put32(s->data.at + at[i], (uint32_t)odd_number(c->state, kedge__get32(s->data.at + at[i])));
	return "the summary";
}

static const char *regions(struct change *c)
{
	struct section *s = sealed_section(c->im, KEDGE__SECTION_REGIONS);
	struct kedge__region_record *r, other;
	struct kedge__bytes b = {0};
	size_t n, i, j, count;

	if (!s || kedge__regions_decode(s->data.at, s->data.bytes, &r, &n, NULL, NULL) != 0)
		return "nothing";
	count = n;
	i = n ? draw_below(c->state, n) : 0;
	j = n ? draw_below(c->state, n) : 0;
	switch (n ? draw_below(c->state, 6) : 6) {
	case 0:
		r[i].bytes = odd_number(c->state, r[i].bytes) % (UINT64_C(1) << (10 + draw_below(c->state, 14)));
		r[i].ndims = 0;
		r[i].type = KEDGE_BYTES;
		break;
	case 1: /* the other's contents */
		other = r[i];
		r[i].digest = r[j].digest;
		r[j].digest = other.digest;
		break;
	case 2:
		other = r[i];
		r[i].name = r[j].name;
		r[j].name = other.name;
		break;
	case 3:
		r[n - 1].slot += (uint32_t)draw_below(c->state, KEDGE__SLOT_LIMIT);
		break;
	case 4:
		r[i].type = (uint32_t)draw_below(c->state, 16);
		r[i].ndims = (uint32_t)draw_below(c->state, 3);
		break;
	default:
		r[i].digest.lo ^= draw_below(c->state, 2);
		n -= n > 1 && draw_below(c->state, 2);
	}
	section_put(s, &b, kedge__regions_encode(r, n, &b, NULL));
	kedge__regions_free(r, count);
	return "the regions";
}

static void change_block(struct kedge__block_record *b, struct kedge__block_record *other, uint64_t *state)
{
	struct kedge__block_record old = *b;

	switch (draw_below(state, 5)) {
	case 0:
		*b = *other;
		*other = old;
		break;
	case 1:
		b->raw_bytes = (uint32_t)odd_number(state, b->raw_bytes) % KEDGE__BLOCK_RAW_MAX;
		break;
	case 2: /* so that the sum stays */
		b->raw_bytes += (uint32_t)draw_below(state, 64);
		other->raw_bytes -= b->raw_bytes - old.raw_bytes;
		break;
	case 3:
		b->codec = (uint16_t)draw_below(state, 16);
		b->param = (uint16_t)odd_number(state, b->param);
		break;
	default:
		b->region = (uint32_t)draw_below(state, 5);
		b->param = (uint16_t)odd_number(state, b->param);
	}
}

static const char *blocks(struct change *c)
{
	struct section *s = sealed_section(c->im, KEDGE__SECTION_BLOCKS);
	struct kedge__block_record *b;
	struct kedge__bytes out = {0};
	size_t n;

	if (!s || kedge__blocks_decode(s->data.at, s->data.bytes, c->im->payload.bytes, &b, &n, NULL) != 0)
		return "nothing";
	if (n)
		change_block(&b[draw_below(c->state, n)], &b[draw_below(c->state, n)], c->state);
	section_put(s, &out, kedge__blocks_encode(b, n, &out, NULL));
	kedge__free(b);
	return "the blocks";
}

static void change_extent(struct change *c, struct kedge__extent *e, struct kedge__extent *other)
{
	struct kedge__extent old = *e;

	switch (draw_below(c->state, 7)) {
	case 0: /* each other's sources */
		e->src = other->src;
		e->version = other->version;
		e->kind = other->kind;
		other->src = old.src;
		other->version = old.version;
		other->kind = old.kind;
		break;
	case 1:
		e->src = odd_number(c->state, e->src);
		break;
	case 2:
		e->src += draw_below(c->state, 2) ? 1 : (uint64_t)-8;
		break;
	case 3:
		e->kind = (enum kedge__extent_kind)draw_below(c->state, 4);
		e->version = e->kind == KEDGE__EXTENT_COPY ? c->im->version - draw_below(c->state, 3) : 0;
		e->src = e->kind == KEDGE__EXTENT_COPY ? e->addr : 0;
		break;
	case 4: /* of its own version: perhaps of itself */
		e->kind = KEDGE__EXTENT_COPY;
		e->version = c->im->version;
		e->src = draw_below(c->state, 2) ? other->addr : e->addr + 8;
		break;
	case 5:
		e->kind = KEDGE__EXTENT_COPY;
		e->version = odd_number(c->state, c->im->version);
		break;
	default: /* an end that moves, and a begin with it */
		e->len += 8;
		if (e->addr < other->addr) {
			other->addr += 8;
			other->len -= 8;
		}
	}
}

static const char *map(struct change *c)
{
	struct section *s = sealed_section(c->im, KEDGE__SECTION_MAP),
		       *g = sealed_section(c->im, KEDGE__SECTION_REGIONS);
	struct kedge__region_record *r = NULL;
	struct kedge__extent_map stored = {0}, m;
	struct kedge__bytes out = {0};
	enum kedge__map_encoding how;
	size_t n = 0;

	if (!s || !g || kedge__regions_decode(g->data.at, g->data.bytes, &r, &n, NULL, NULL) != 0)
		return "nothing";
	if (kedge__map_decode(s->data.at, s->data.bytes, c->im->version, r, n, &how, &stored, NULL) != 0)
		how = KEDGE__MAP_RUNS;
	m = map_flat(&stored);
	if (m.count) {
		size_t i = draw_below(c->state, m.count);

		change_extent(
		    c, &m.at[i],
		    &m.at[draw_below(c->state, 2) && i + 1 < m.count ? i + 1 : draw_below(c->state, m.count)]);
		if (draw_below(c->state, 3) == 0)
			how = KEDGE__MAP_RUNS;
		section_put(s, &out,
			    kedge__map_encode(how, kedge__extents_of_map(&m), 64, c->im->version, r, n, &out, NULL));
	}
	kedge__extent_map_done(&m);
	kedge__extent_map_done(&stored);
	kedge__regions_free(r, n);
	return "the map";
}

static const char *lineage(struct change *c)
{
	struct section *s = sealed_section(c->im, KEDGE__SECTION_LINEAGE);
	struct kedge__source_record *was, now[STORE_VERSIONS + 4];
	struct kedge__bytes out = {0};
	size_t n;

	if (!s || kedge__lineage_decode(s->data.at, s->data.bytes, &was, &n, NULL) != 0)
		return "nothing";
	n = n < STORE_VERSIONS ? n : STORE_VERSIONS;
	for (size_t i = 0; i < n; i++)
		now[i] = was[i];
	kedge__free(was);
	if (n && draw_below(c->state, 3) == 0)
		n--;
	else if (n && draw_below(c->state, 2))
		now[n - 1].version = odd_number(c->state, now[n - 1].version);
	else
		now[n++] = (struct kedge__source_record){c->im->version - draw_below(c->state, 2), {1, 2}};
	section_put(s, &out, kedge__lineage_encode(now, n, &out, NULL));
	return "the lineage";
}

static const char *base(struct change *c)
{
	struct section *s = sealed_section(c->im, KEDGE__SECTION_BASE);
	struct kedge__bytes out = {0};

	if (!s && c->im->count < KEDGE__SECTION_LIMIT) {
		s = &c->im->sections[c->im->count++];
		*s = (struct section){KEDGE__SECTION_BASE, KEDGE__SECTION_REQUIRED, {NULL, 0}};
		piece_set(&s->data, "", 0);
	}
	section_put(s, &out, kedge__base_encode(odd_number(c->state, c->im->version) % 8, &out, NULL));
	return "the base";
}

/* ---- the file around them */

static const char *header(struct change *c)
{
	struct kedge__segment_header *h = &c->im->header;

	switch (draw_below(c->state, 4)) {
	case 0:
		h->version = odd_number(c->state, h->version);
		break;
	case 1:
		h->rank = (uint32_t)odd_number(c->state, h->rank);
		break;
	case 2:
		h->ranks = (uint32_t)odd_number(c->state, h->ranks);
		break;
	default:
		h->created_ns = odd_number(c->state, h->created_ns);
	}
	return "the header";
}

static const char *sections(struct change *c)
{
	struct sealed *im = c->im;
	size_t i = im->count ? draw_below(c->state, im->count) : 0, j = im->count ? draw_below(c->state, im->count) : 0;
	struct section old;

	if (!im->count)
		return "nothing";
	old = im->sections[i];
	switch (draw_below(c->state, 5)) {
	case 0:
		im->sections[i] = im->sections[j];
		im->sections[j] = old;
		break;
	case 1:
		free(old.data.at);
		im->sections[i] = im->sections[--im->count];
		break;
	case 2:
		im->sections[i].type = (uint32_t)odd_number(c->state, old.type);
		break;
	case 3:
		im->sections[i].flags = (uint32_t)odd_number(c->state, old.flags);
		break;
	default:
		if (im->count == KEDGE__SECTION_LIMIT)
			break;
		im->sections[im->count] = (struct section){old.type, old.flags, {NULL, 0}};
		piece_set(&im->sections[im->count++].data, old.data.at, old.data.bytes);
	}
	return "the order of sections";
}

/* A section of another version in the place of this one's. */
static const char *exchange(struct change *c)
{
	struct sealed *other = &c->store->images[draw_below(c->state, c->store->count)];
	size_t i = c->im->count ? draw_below(c->state, c->im->count) : 0;
	struct section *from;

	if (!c->im->count)
		return "nothing";
	from = sealed_section(other, c->im->sections[i].type);
	if (!from || other == c->im)
		return "nothing";
	piece_set(&c->im->sections[i].data, from->data.at, from->data.bytes);
	if (c->im->sections[i].type == KEDGE__SECTION_BLOCKS)
		piece_set(&c->im->payload, other->payload.at, other->payload.bytes);
	return "a section of another version";
}

static const char *(*const changes[])(struct change *) = {any_section, any_section, payload,  payload, summary, regions,
							  blocks,      blocks,      map,      map,     map,     lineage,
							  base,        header,      sections, exchange};

static void change_segments(const char *dir, uint64_t *state, char *text, size_t room)
{
	static struct store s;
	unsigned mend = 0;
	size_t used = 0;

	store_load(&s, dir);
	text[0] = '\0';
	for (uint64_t n = 1 + draw_below(state, 3); n > 0 && s.count; n--) {
		struct change c = {&s, &s.images[draw_below(state, s.count)], state};
		const char *what = changes[draw_below(state, sizeof(changes) / sizeof(*changes))](&c);

		used += (size_t)snprintf(text + used, room - used, "%s%s of version %llu", used ? ", " : "", what,
					 (unsigned long long)c.im->version);
	}
	/* Mostly what is said twice agrees. */
	mend |= draw_below(state, 8) ? MEND_BLOCKS : 0;
	mend |= draw_below(state, 4) ? MEND_SUMMARY : 0;
	mend |= draw_below(state, 4) ? MEND_LINEAGE : 0;
	store_seal(&s, mend);
	store_free(&s);
}

/* ---- manifests and records */

static void change_set(struct kedge__set *s, uint64_t *state)
{
	struct kedge__set_part *p = &s->parts[0];

	switch (draw_below(state, 9)) {
	case 0:
		s->parent = odd_number(state, s->parent);
		break;
	case 1:
		s->version = odd_number(state, s->version);
		break;
	case 2:
		p->generation = (uint32_t)odd_number(state, p->generation);
		break;
	case 3:
		p->file_bytes = odd_number(state, p->file_bytes);
		break;
	case 4:
		p->raw_bytes = odd_number(state, p->raw_bytes);
		p->literal_bytes = odd_number(state, p->literal_bytes);
		break;
	case 5:
		p->metadata_bytes = odd_number(state, p->metadata_bytes);
		break;
	case 6:
		s->source_count -= s->source_count && draw_below(state, 2);
		if (s->source_count)
			s->sources[s->source_count - 1] = odd_number(state, s->sources[s->source_count - 1]);
		break;
	case 7:
		s->reducer = (uint32_t)odd_number(state, s->reducer);
		break;
	default:
		s->created_ns = odd_number(state, s->created_ns);
	}
}

static void change_manifest(const char *path, uint64_t *state)
{
	struct piece p = {0};
	struct kedge__bytes out = {0};
	struct kedge__set set;

	p.at = file_read(path, &p.bytes);
	REQUIRE(p.at);
	if (draw_below(state, 2) && kedge__set_decode(p.at, p.bytes, &set, NULL) == 0) {
		change_set(&set, state);
		if (kedge__set_encode(&set, &out, NULL) == 0)
			piece_set(&p, out.at, out.count);
		kedge__bytes_done(&out);
		kedge__set_done(&set);
	} else {
		change_bytes(&p, state);
	}
	manifest_seal(&p);
	file_write(path, p.at, p.bytes);
	free(p.at);
}

static bool find_file(const char *dir, const char *prefix, uint64_t *state, char path[FILES_PATH])
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), hits = 0;

	path[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (strncmp(names[i]->d_name, prefix, strlen(prefix)) == 0 && draw_below(state, (uint64_t)++hits) == 0)
			path_make(path, "%s/%s", dir, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return path[0] != '\0';
}

void change_store(const char *dir, uint64_t *state, char *text, size_t room)
{
	char path[FILES_PATH];
	uint64_t kind = draw_below(state, 10);

	if (kind < 3 && find_file(dir, "set-", state, path)) {
		change_manifest(path, state);
		snprintf(text, room, "manifest %s", strrchr(path, '/') + 1);
	} else {
		change_segments(dir, state, text, room);
	}
}
