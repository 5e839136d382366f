/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The manifest". */
#include "format/wire.h"

#define HEADER_BYTES   80
#define CHECKSUM_BYTES 8
#define PART_LEAST     37 /* five varints of a byte and two digests */
#define TAG_BUNDLE     1  /* odd: a reader that does not know it would not find the segments */
#define TAG_WHY        2
#define TAG_RUN        4
#define TAG_NOTE       6
#define TAG_LABELS     8
#define TAG_KEEP       10
#define TAG_GROUPING   12
#define BUNDLE_LIMIT   (UINT64_C(1) << 62) /* bytes of one, so that its sums fit */
#define LINK_LEAST     9                   /* an id and a varint of a byte */
#define MINOR_PLAIN    0                   /* what has no extension is written as the first readers know it */
#define MINOR_EXTENDED 1
#define MINOR_RUN      2
#define MINOR_BUNDLE   3

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'S', 'E', 'T'};

static const char *set_problem(const struct kedge__set *s)
{
	if (s->version >= KEDGE_VERSION_LIMIT)
		return "the version is out of range";
	if (s->parent != KEDGE__NO_VERSION && s->parent >= s->version)
		return "the parent is not older";
	if (s->ranks == 0 || s->ranks > KEDGE__RANK_LIMIT)
		return "the number of ranks is out of range";
	if (!kedge__wire_seconds_valid(s->seconds))
		return "seconds are negative or not finite";
	return NULL;
}

static const char *run_problem(const struct kedge__set *s)
{
	uint64_t below = s->version;

	if (s->run.link_count > KEDGE__RUN_LINKS_MAX)
		return "the history of the run is too long";
	for (size_t i = 0; i < s->run.link_count; i++) {
		if (s->run.links[i].until >= below)
			return "the history of the run does not descend";
		below = s->run.links[i].until;
	}
	return NULL;
}

/* ------------------------------------------------------------------ bundles */

uint64_t kedge__bundle_next(uint64_t start, uint64_t bytes)
{
	return (start + bytes + KEDGE__BUNDLE_ALIGN - 1) / KEDGE__BUNDLE_ALIGN * KEDGE__BUNDLE_ALIGN;
}

/* The segments of a bundle come and go together. */
static const char *bundle_problem(const struct kedge__set *s)
{
	if (s->bundle == 1 || s->bundle > KEDGE__RANK_LIMIT)
		return "the number of ranks per bundle is out of range";
	for (uint32_t r = 0; s->bundle && r < s->ranks; r++) {
		if (s->parts[r].generation != s->parts[kedge__bundle_first(r, s->bundle)].generation)
			return "the segments of a bundle have different generations";
	}
	return NULL;
}

const char *kedge__set_place(struct kedge__set *s)
{
	const char *problem = bundle_problem(s);
	uint64_t next = 0;

	for (uint32_t r = 0; r < s->ranks && !problem; r++) {
		struct kedge__set_part *p = &s->parts[r];

		p->bundle = s->bundle;
		p->start = s->bundle && kedge__bundle_first(r, s->bundle) != r ? next : 0;
		if (s->bundle && p->file_bytes > BUNDLE_LIMIT - p->start)
			problem = "a bundle is too large";
		next = kedge__bundle_next(p->start, p->file_bytes);
	}
	return problem;
}

/* ------------------------------------------------------------------ what people say about a version */

static bool is_label_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || memchr("._-", c, 3);
}

bool kedge__label_valid(const char *label, size_t bytes)
{
	size_t digits = 0;

	if (bytes == 0 || bytes > KEDGE__LABEL_MAX || label[0] == '.' || label[0] == '-')
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (!is_label_byte(label[i]))
			return false;
		digits += label[i] >= '0' && label[i] <= '9';
	}
	return digits < bytes && !(bytes == 6 && memcmp(label, "newest", 6) == 0);
}

static bool labels_valid(const char *labels)
{
	if (strlen(labels) > KEDGE__LABELS_MAX)
		return false;
	for (;;) {
		size_t n = strcspn(labels, " ");

		if (!kedge__label_valid(labels, n))
			return false;
		if (!labels[n])
			return true;
		labels += n + 1;
	}
}

bool kedge__set_has_label(const struct kedge__set *s, const char *label)
{
	size_t bytes = strlen(label);

	for (const char *at = s->labels; at && *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == bytes && memcmp(at, label, n) == 0)
			return true;
		at += n;
	}
	return false;
}

bool kedge__note_valid(const char *note)
{
	size_t n = strlen(note);

	if (n == 0 || n > KEDGE_NOTE_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)note[i] < ' ' || note[i] == 127)
			return false;
	}
	return true;
}

uint64_t kedge__set_refers(const struct kedge__set *s)
{
	for (size_t i = 0; i < s->source_count; i++) {
		if (s->sources[i] == s->parent)
			return s->parent;
	}
	return s->source_count ? s->sources[s->source_count - 1] : KEDGE__NO_VERSION;
}

/* ------------------------------------------------------------------ encode */

static size_t varint_bytes(uint64_t v)
{
	size_t n = 1;

	while (v >>= 7)
		n++;
	return n;
}

static bool has_run(const struct kedge__set *s)
{
	return s->run.id || s->run.epoch || s->run.link_count;
}

static size_t run_bytes(const struct kedge__run *run)
{
	size_t n = 8 + varint_bytes(run->epoch) + varint_bytes(run->link_count);

	for (size_t i = 0; i < run->link_count; i++)
		n += 8 + varint_bytes(run->links[i].until);
	return n;
}

static size_t text_bytes(uint64_t tag, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return text ? varint_bytes(tag) + varint_bytes(n) + n : 0;
}

static size_t grouping_bytes(const struct kedge__grouping *g)
{
	size_t n = varint_bytes(g->size) + strlen(g->pattern);

	for (uint32_t i = 0; i < g->count; i++)
		n += varint_bytes(g->numbers[i] - (i ? g->numbers[i - 1] + 1 : 0));
	return n;
}

static size_t extension_bytes(const struct kedge__set *s)
{
	size_t run = run_bytes(&s->run), bundle = varint_bytes(s->bundle);
	size_t bytes = text_bytes(TAG_WHY, s->why) + text_bytes(TAG_NOTE, s->note) + text_bytes(TAG_LABELS, s->labels) +
		       text_bytes(TAG_KEEP, s->keep);

	if (s->bundle)
		bytes += varint_bytes(TAG_BUNDLE) + varint_bytes(bundle) + bundle;
	if (s->grouping)
		bytes += varint_bytes(TAG_GROUPING) + varint_bytes(grouping_bytes(s->grouping)) +
			 grouping_bytes(s->grouping);
	return bytes + (has_run(s) ? varint_bytes(TAG_RUN) + varint_bytes(run) + run : 0);
}

static void put_run(struct kedge__wire_out *w, const struct kedge__run *run)
{
	kedge__wire_put_varint(w, TAG_RUN);
	kedge__wire_put_varint(w, run_bytes(run));
	kedge__wire_put64(w, run->id);
	kedge__wire_put_varint(w, run->epoch);
	kedge__wire_put_varint(w, run->link_count);
	for (size_t i = 0; i < run->link_count; i++) {
		kedge__wire_put64(w, run->links[i].id);
		kedge__wire_put_varint(w, run->links[i].until);
	}
}

static void put_text(struct kedge__wire_out *w, uint64_t tag, const char *text)
{
	if (!text)
		return;
	kedge__wire_put_varint(w, tag);
	kedge__wire_put_varint(w, strlen(text));
	kedge__wire_put(w, text, strlen(text));
}

static void put_extensions(struct kedge__wire_out *w, const struct kedge__set *s)
{
	if (s->bundle) {
		kedge__wire_put_varint(w, TAG_BUNDLE);
		kedge__wire_put_varint(w, varint_bytes(s->bundle));
		kedge__wire_put_varint(w, s->bundle);
	}
	put_text(w, TAG_WHY, s->why);
	if (has_run(s))
		put_run(w, &s->run);
	put_text(w, TAG_NOTE, s->note);
	put_text(w, TAG_LABELS, s->labels);
	put_text(w, TAG_KEEP, s->keep);
	if (s->grouping) {
		kedge__wire_put_varint(w, TAG_GROUPING);
		kedge__wire_put_varint(w, grouping_bytes(s->grouping));
		kedge__grouping_encode(s->grouping, w);
	}
}

static uint16_t minor_of(const struct kedge__set *s)
{
	if (s->bundle)
		return MINOR_BUNDLE;
	if (has_run(s))
		return MINOR_RUN;
	return s->why || s->note || s->labels || s->keep || s->grouping ? MINOR_EXTENDED : MINOR_PLAIN;
}

static void put_header(struct kedge__wire_out *w, const struct kedge__set *s)
{
	kedge__wire_put(w, magic, sizeof(magic));
	kedge__wire_put16(w, KEDGE__FORMAT_MAJOR);
	kedge__wire_put16(w, minor_of(s));
	kedge__wire_put32(w, HEADER_BYTES);
	kedge__wire_put64(w, 0); /* the file's size, known at the end */
	kedge__wire_put64(w, s->version);
	kedge__wire_put64(w, s->parent);
	kedge__wire_put64(w, s->created_ns);
	kedge__wire_put_double(w, s->seconds);
	kedge__wire_put32(w, s->reducer);
	kedge__wire_put32(w, s->ranks);
	kedge__wire_put32(w, (uint32_t)s->source_count);
	kedge__wire_put32(w, (uint32_t)strlen(s->name));
	kedge__wire_put64(w, extension_bytes(s));
}

static void put_parts(struct kedge__wire_out *w, const struct kedge__set *s)
{
	for (uint32_t i = 0; i < s->ranks; i++) {
		const struct kedge__set_part *p = &s->parts[i];

		kedge__wire_put_varint(w, p->generation);
		kedge__wire_put_varint(w, p->file_bytes);
		kedge__wire_put_varint(w, p->raw_bytes);
		kedge__wire_put_varint(w, p->literal_bytes);
		kedge__wire_put_varint(w, p->metadata_bytes);
		kedge__wire_put_digest(w, p->seal);
		kedge__wire_put_digest(w, p->image_id);
	}
}

/* False if they do not ascend or are not older than the set. */
static bool put_sources(struct kedge__wire_out *w, const struct kedge__set *s)
{
	uint64_t after = 0;

	for (size_t i = 0; i < s->source_count; i++) {
		if (s->sources[i] < after || s->sources[i] >= s->version)
			return false;
		kedge__wire_put_varint(w, s->sources[i] - after);
		after = s->sources[i] + 1;
	}
	return true;
}

int kedge__set_encode(const struct kedge__set *s, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	const char *problem = set_problem(s);
	int rc = kedge__job_name_check(s->name, err);
	uint8_t *raw;

	if (rc != 0)
		return rc;
	if (!problem && s->source_count > UINT32_MAX)
		problem = "too many sources";
	if (!problem && s->why && strlen(s->why) > KEDGE__WHY_MAX)
		problem = "the reason is too long";
	if (!problem && s->note && !kedge__note_valid(s->note))
		problem = "the note is empty, too long, or not one line of text";
	if (!problem && s->labels && !labels_valid(s->labels))
		problem = "the labels are invalid, or too many";
	if (!problem && s->keep && strlen(s->keep) > KEDGE__KEEP_MAX)
		problem = "what is kept is too long";
	if (!problem)
		problem = run_problem(s);
	if (!problem)
		problem = bundle_problem(s);
	if (!problem && s->grouping)
		problem = kedge__grouping_problem(s->grouping, s->ranks);
	if (problem)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "manifest: %s", problem);
	put_header(&w, s);
	kedge__wire_put(&w, s->name, strlen(s->name));
	put_parts(&w, s);
	if (!put_sources(&w, s)) {
		kedge__wire_out_undo(&w);
		return kedge__error_set(err, KEDGE_E_ARG, 0, "manifest: sources are out of order or not older");
	}
	put_extensions(&w, s);
	if (!w.failed) {
		raw = out->at + w.start;
		kedge__put64(raw + 16, out->count - w.start + CHECKSUM_BYTES);
		kedge__wire_put64(&w, kedge__checksum(raw, out->count - w.start));
	}
	return kedge__wire_out_finish(&w, err);
}

/* What can be said before anything of the contents is believed. */
static int check_frame(const uint8_t *raw, size_t bytes, struct kedge__error *err)
{
	if (bytes < sizeof(magic) || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not a Kedge manifest");
	/* Magic, version, size and the checksum at the end keep their places in all formats to come. */
	if (bytes < 32 || kedge__get64(raw + 16) != bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: cut short, or extra bytes after its end");
	if (kedge__get64(raw + bytes - CHECKSUM_BYTES) != kedge__checksum(raw, bytes - CHECKSUM_BYTES))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: checksum does not match");
	if (kedge__get16(raw + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "manifest has format %u.%u, but this build reads %u.x",
					kedge__get16(raw + 8), kedge__get16(raw + 10), KEDGE__FORMAT_MAJOR);
	if (bytes < HEADER_BYTES + CHECKSUM_BYTES || kedge__get32(raw + 12) != HEADER_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the header has the wrong size");
	return 0;
}

static int get_parts(struct kedge__wire_in *r, struct kedge__set *s, struct kedge__error *err)
{
	if (s->ranks > r->left / PART_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: more ranks than fit into the file");
	s->parts = kedge__calloc(s->ranks, sizeof(*s->parts));
	if (!s->parts)
		return kedge__error_nomem(err);
	for (uint32_t i = 0; i < s->ranks; i++) {
		struct kedge__set_part *p = &s->parts[i];

		p->generation = (uint32_t)kedge__wire_get_varint_max(r, UINT32_MAX);
		p->file_bytes = kedge__wire_get_varint(r);
		p->raw_bytes = kedge__wire_get_varint(r);
		p->literal_bytes = kedge__wire_get_varint(r);
		p->metadata_bytes = kedge__wire_get_varint(r);
		p->seal = kedge__wire_get_digest(r);
		p->image_id = kedge__wire_get_digest(r);
		if (r->failed || p->metadata_bytes > p->file_bytes)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the record of rank %u is malformed",
						i);
	}
	return 0;
}

static int get_sources(struct kedge__wire_in *r, uint32_t count, struct kedge__set *s, struct kedge__error *err)
{
	uint64_t after = 0;

	if (count > r->left)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: more sources than fit into the file");
	if (count == 0)
		return 0;
	s->sources = kedge__reallocarray(NULL, count, sizeof(*s->sources));
	if (!s->sources)
		return kedge__error_nomem(err);
	s->source_count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t version = after + kedge__wire_get_varint_max(r, KEDGE_VERSION_LIMIT);

		if (r->failed || version >= s->version)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"manifest: source %u is malformed or not older", i);
		s->sources[i] = version;
		after = version + 1;
	}
	return 0;
}

static int get_run(struct kedge__wire_in *whole, size_t size, struct kedge__set *s, struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(whole->at, size);
	struct kedge__run *run = &s->run;
	uint64_t count;

	kedge__wire_get(whole, size);
	run->id = kedge__wire_get64(&r);
	run->epoch = kedge__wire_get_varint(&r);
	count = kedge__wire_get_varint_max(&r, KEDGE__RUN_LINKS_MAX);
	if (r.failed || count > r.left / LINK_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the run is malformed");
	run->links = count ? kedge__calloc((size_t)count, sizeof(*run->links)) : NULL;
	if (count && !run->links)
		return kedge__error_nomem(err);
	run->link_count = (size_t)count;
	for (size_t i = 0; i < run->link_count; i++) {
		run->links[i].id = kedge__wire_get64(&r);
		run->links[i].until = kedge__wire_get_varint(&r);
	}
	if (r.failed || r.left || run_problem(s))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the history of the run is malformed");
	return 0;
}

static int get_note(struct kedge__wire_in *r, uint64_t size, struct kedge__set *s, struct kedge__error *err)
{
	int rc = kedge__wire_get_string(r, size, "manifest: note", &s->note, err);

	if (!rc && !kedge__note_valid(s->note))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the note is malformed");
	return rc;
}

static int get_labels(struct kedge__wire_in *r, uint64_t size, struct kedge__set *s, struct kedge__error *err)
{
	int rc = kedge__wire_get_string(r, size, "manifest: labels", &s->labels, err);

	if (!rc && !labels_valid(s->labels))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: a label is malformed");
	return rc;
}

static int get_bundle(struct kedge__wire_in *whole, uint64_t size, struct kedge__set *s, struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(whole->at, (size_t)size);
	const char *problem;

	kedge__wire_get(whole, (size_t)size);
	s->bundle = (uint32_t)kedge__wire_get_varint_max(&r, KEDGE__RANK_LIMIT);
	problem =
	    r.failed || r.left || s->bundle < 2 ? "the number of ranks per bundle is malformed" : kedge__set_place(s);
	return problem ? kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: %s", problem) : 0;
}

static int get_extensions(struct kedge__wire_in *r, uint64_t bytes, struct kedge__set *s, struct kedge__error *err)
{
	int rc = 0;

	if (r->left != bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the extensions have the wrong size");
	while (r->left > 0 && rc == 0) {
		uint64_t tag = kedge__wire_get_varint(r);
		uint64_t size = kedge__wire_get_varint(r);

		if (r->failed || size > r->left)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: an extension is malformed");
		if ((tag & 1) && (tag != TAG_BUNDLE || s->bundle))
			return kedge__error_set(err, KEDGE_E_FORMAT, 0,
						"manifest: requires extension %llu, which this build does not know",
						(unsigned long long)tag);
		if (tag == TAG_BUNDLE)
			rc = get_bundle(r, size, s, err);
		else if (tag == TAG_WHY && size <= KEDGE__WHY_MAX && !s->why)
			rc = kedge__wire_get_string(r, size, "manifest: reason", &s->why, err);
		else if (tag == TAG_RUN && !has_run(s))
			rc = get_run(r, (size_t)size, s, err);
		else if (tag == TAG_NOTE && !s->note)
			rc = get_note(r, size, s, err);
		else if (tag == TAG_LABELS && !s->labels)
			rc = get_labels(r, size, s, err);
		else if (tag == TAG_KEEP && size <= KEDGE__KEEP_MAX && !s->keep)
			rc = kedge__wire_get_string(r, size, "manifest: what is kept", &s->keep, err);
		else if (tag == TAG_GROUPING && !s->grouping)
			rc = kedge__grouping_decode(kedge__wire_get(r, (size_t)size), (size_t)size, s->ranks,
						    &s->grouping, err);
		else
			kedge__wire_get(r, (size_t)size);
	}
	return rc;
}

static int get_set(struct kedge__wire_in *r, struct kedge__set *s, struct kedge__error *err)
{
	uint32_t source_count, name_bytes;
	uint64_t extended;
	const char *problem;
	int rc;

	kedge__wire_get(r, 24);
	s->version = kedge__wire_get64(r);
	s->parent = kedge__wire_get64(r);
	s->created_ns = kedge__wire_get64(r);
	s->seconds = kedge__wire_get_double(r);
	s->reducer = kedge__wire_get32(r);
	s->ranks = kedge__wire_get32(r);
	source_count = kedge__wire_get32(r);
	name_bytes = kedge__wire_get32(r);
	extended = kedge__wire_get64(r);
	problem = set_problem(s);
	if (problem)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: %s", problem);
	rc = kedge__wire_get_job_name(r, name_bytes, "manifest", &s->name, err);
	if (rc == 0)
		rc = get_parts(r, s, err);
	if (rc == 0)
		rc = get_sources(r, source_count, s, err);
	if (rc == 0)
		rc = get_extensions(r, extended, s, err);
	return rc;
}

int kedge__set_decode(const void *data, size_t bytes, struct kedge__set *s, struct kedge__error *err)
{
	struct kedge__set got = {0};
	struct kedge__wire_in r;
	int rc = check_frame(data, bytes, err);

	if (rc != 0)
		return rc;
	r = kedge__wire_in_init(data, bytes - CHECKSUM_BYTES);
	rc = get_set(&r, &got, err);
	if (rc != 0) {
		kedge__set_done(&got);
		return rc;
	}
	*s = got;
	return 0;
}

struct kedge__set_sizes kedge__set_sizes(const struct kedge__set *s)
{
	struct kedge__set_sizes sizes = {0};

	for (uint32_t r = 0; r < s->ranks; r++) {
		sizes.raw += s->parts[r].raw_bytes;
		sizes.stored += s->parts[r].file_bytes;
		sizes.literal += s->parts[r].literal_bytes;
		sizes.metadata += s->parts[r].metadata_bytes;
	}
	return sizes;
}

void kedge__set_done(struct kedge__set *s)
{
	kedge__free(s->name);
	kedge__free(s->parts);
	kedge__free(s->sources);
	kedge__free(s->why);
	kedge__free(s->note);
	kedge__free(s->labels);
	kedge__free(s->keep);
	kedge__grouping_free(s->grouping);
	kedge__run_done(&s->run);
	*s = (struct kedge__set){0};
}
