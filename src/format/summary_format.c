/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "SUMM: summary". */
#include "format/wire.h"

#define FIXED_BYTES 72

static const char *summary_problem(const struct kedge__segment_summary *s)
{
	if (s->parent != KEDGE__NO_VERSION && s->parent >= KEDGE_VERSION_LIMIT)
		return "the parent is out of range";
	if (!kedge__chunk_valid(s->chunk))
		return "the chunk size is invalid";
	if (s->next_slot > KEDGE__SLOT_LIMIT)
		return "the next slot is out of range";
	if (!kedge__wire_seconds_valid(s->hash_seconds) || !kedge__wire_seconds_valid(s->write_seconds))
		return "seconds are negative or not finite";
	return NULL;
}

int kedge__summary_encode(const struct kedge__segment_summary *s, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	const char *problem = summary_problem(s);
	int rc = kedge__job_name_check(s->name, err);

	if (rc != 0)
		return rc;
	if (problem)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "section SUMM: %s", problem);
	kedge__wire_put64(&w, s->parent);
	kedge__wire_put64(&w, s->raw_bytes);
	kedge__wire_put64(&w, s->literal_bytes);
	kedge__wire_put_digest(&w, s->image_id);
	kedge__wire_put_double(&w, s->hash_seconds);
	kedge__wire_put_double(&w, s->write_seconds);
	kedge__wire_put32(&w, s->reducer);
	kedge__wire_put32(&w, s->chunk);
	kedge__wire_put32(&w, s->next_slot);
	kedge__wire_put32(&w, (uint32_t)strlen(s->name));
	kedge__wire_put(&w, s->name, strlen(s->name));
	return kedge__wire_out_finish(&w, err);
}

int kedge__summary_decode(const void *data, size_t bytes, struct kedge__segment_summary *s, struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(data, bytes);
	struct kedge__segment_summary got = {0};
	const char *problem;
	uint32_t name_bytes;
	int rc;

	if (bytes < FIXED_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section SUMM is cut short");
	got.parent = kedge__wire_get64(&r);
	got.raw_bytes = kedge__wire_get64(&r);
	got.literal_bytes = kedge__wire_get64(&r);
	got.image_id = kedge__wire_get_digest(&r);
	got.hash_seconds = kedge__wire_get_double(&r);
	got.write_seconds = kedge__wire_get_double(&r);
	got.reducer = kedge__wire_get32(&r);
	got.chunk = kedge__wire_get32(&r);
	got.next_slot = kedge__wire_get32(&r);
	name_bytes = kedge__wire_get32(&r);
	problem = name_bytes == r.left ? summary_problem(&got) : "wrong size";
	if (problem)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section SUMM: %s", problem);
	rc = kedge__wire_get_job_name(&r, name_bytes, "section SUMM", &got.name, err);
	if (rc == 0)
		*s = got;
	return rc;
}

void kedge__summary_done(struct kedge__segment_summary *s)
{
	kedge__free(s->name);
	*s = (struct kedge__segment_summary){0};
}
