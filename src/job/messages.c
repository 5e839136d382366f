/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/messages.h"

static const struct {
	const char *name, *call;
} steps[KEDGE__STEP_COUNT] = {{"none", "nothing"},
#define STEP_ROW(name, call, decides) {#name, call},
			      KEDGE__STEPS(STEP_ROW)
#undef STEP_ROW
};

const char *kedge__step_name(enum kedge__step step)
{
	return steps[(unsigned)step < KEDGE__STEP_COUNT ? step : KEDGE__STEP_NONE].name;
}

const char *kedge__step_call(enum kedge__step step)
{
	return steps[(unsigned)step < KEDGE__STEP_COUNT ? step : KEDGE__STEP_NONE].call;
}

/* ------------------------------------------------------------------ parts of messages */

void kedge__msg_same_set(struct kedge__msg_same *same, int rank, uint64_t value)
{
	*same = (struct kedge__msg_same){value, rank, -1};
}

bool kedge__msg_same_is(const struct kedge__msg_same *same, int between[2])
{
	between[0] = same->rank;
	between[1] = same->other;
	return same->other < 0;
}

static int32_t lower(int32_t a, int32_t b)
{
	if (a < 0 || b < 0)
		return KEDGE__MAX(a, b);
	return KEDGE__MIN(a, b);
}

/* ACC has the lower ranks' value: what counts is the lowest rank that has another one. */
static void same_fold(struct kedge__msg_same *acc, const struct kedge__msg_same *other)
{
	if (other->value == acc->value)
		acc->other = lower(acc->other, other->other);
	else
		acc->other = lower(acc->other, other->rank);
}

static bool head_is_later(const struct kedge__run_head *a, const struct kedge__run_head *b)
{
	if (a->epoch != b->epoch)
		return a->epoch > b->epoch;
	if (a->created_ns != b->created_ns)
		return a->created_ns > b->created_ns;
	if (a->id != b->id)
		return a->id > b->id;
	return a->rank < b->rank;
}

static void run_fold(struct kedge__run_head *acc, const struct kedge__run_head *other)
{
	bool differ = acc->differ || other->differ || acc->id != other->id;

	if (head_is_later(other, acc))
		*acc = *other;
	acc->differ = differ;
}

/* ------------------------------------------------------------------ bodies; ACC is of lower ranks than OTHER */

static void meet_fold(struct kedge__meet_msg *acc, const struct kedge__meet_msg *other)
{
	for (size_t i = 0; i < KEDGE__COUNT(acc->settings); i++)
		same_fold(&acc->settings[i], &other->settings[i]);
	same_fold(&acc->leader, &other->leader);
	acc->followers |= other->followers;
	acc->watcher = lower(acc->watcher, other->watcher);
}

static const struct kedge__level_witness *lower_witness(const struct kedge__level_witness *a,
							const struct kedge__level_witness *b)
{
	return lower(a->rank, b->rank) == a->rank ? a : b;
}

/* Of the lowest rank's id in both, and of the lowest rank that has another one. */
static void ids_fold(struct kedge__level_msg *acc, const struct kedge__level_msg *other)
{
	bool first = lower_witness(&acc->known, &other->known) == &acc->known;
	const struct kedge__level_msg *low = first ? acc : other, *high = first ? other : acc;
	struct kedge__level_witness known = low->known;
	bool same = high->known.rank < 0 || memcmp(&known.id, &high->known.id, sizeof(known.id)) == 0;

	acc->other = *lower_witness(&low->other, same ? &high->other : &high->known);
	acc->known = known;
}

static void level_fold(struct kedge__level_msg *acc, const struct kedge__level_msg *other)
{
	acc->refuse |= other->refuse;
	if (other->bad >= 0 && lower(acc->bad, other->bad) != acc->bad) {
		acc->bad = other->bad;
		acc->code = other->code;
		memcpy(acc->text, other->text, sizeof(acc->text));
	}
	acc->with = *lower_witness(&acc->with, &other->with);
	acc->without = *lower_witness(&acc->without, &other->without);
	ids_fold(acc, other);
}

static void begin_fold(struct kedge__begin_msg *acc, const struct kedge__begin_msg *other)
{
	same_fold(&acc->held, &other->held);
	run_fold(&acc->run, &other->run);
	acc->after = KEDGE__MAX(acc->after, other->after);
	if (!acc->why[0])
		memcpy(acc->why, other->why, sizeof(acc->why));
}

static void common_fold(struct kedge__common_msg *acc, const struct kedge__common_msg *other)
{
	same_fold(&acc->list, &other->list);
	acc->mask &= other->mask;
}

static void share_fold(struct kedge__share_msg *acc, const struct kedge__share_msg *other)
{
	if (acc->from >= 0 || other->from < 0)
		return;
	acc->from = other->from;
	acc->bytes = other->bytes;
	memcpy(acc->data, other->data, sizeof(acc->data));
}

static void seal_fold(struct kedge__seal_msg *acc, const struct kedge__seal_msg *other)
{
	acc->parent = KEDGE__MAX(acc->parent, other->parent);
	acc->seconds = KEDGE__MAX(acc->seconds, other->seconds);
	for (size_t i = 0; i < KEDGE__COUNT(acc->sources); i++)
		acc->sources[i] |= other->sources[i];
}

static void flush_fold(struct kedge__flush_msg *acc, const struct kedge__flush_msg *other)
{
	same_fold(&acc->written, &other->written);
	acc->refers |= other->refers;
}

static void restart_fold(struct kedge__restart_msg *acc, const struct kedge__restart_msg *other)
{
	run_fold(&acc->run, &other->run);
	same_fold(&acc->held, &other->held);
	acc->after = KEDGE__MAX(acc->after, other->after);
}

static void protect_fold(struct kedge__protect_msg *acc, const struct kedge__protect_msg *other)
{
	acc->most = KEDGE__MAX(acc->most, other->most);
	same_fold(&acc->same, &other->same);
}

static void body_fold(union kedge__msg *acc, const union kedge__msg *other)
{
	switch ((enum kedge__step)acc->head.step) {
	case KEDGE__STEP_MEET:
		meet_fold(&acc->meet, &other->meet);
		break;
	case KEDGE__STEP_LEVEL:
		level_fold(&acc->level, &other->level);
		break;
	case KEDGE__STEP_BEGIN:
		begin_fold(&acc->begin, &other->begin);
		break;
	case KEDGE__STEP_COMMON:
		common_fold(&acc->common, &other->common);
		break;
	case KEDGE__STEP_SHARE:
		share_fold(&acc->share, &other->share);
		break;
	case KEDGE__STEP_SEAL:
		seal_fold(&acc->seal, &other->seal);
		break;
	case KEDGE__STEP_FLUSH:
		flush_fold(&acc->flush, &other->flush);
		break;
	case KEDGE__STEP_RESTART:
	case KEDGE__STEP_DISCARD:
		restart_fold(&acc->restart, &other->restart);
		break;
	case KEDGE__STEP_RECOVER:
	case KEDGE__STEP_PROTECT:
		protect_fold(&acc->protect, &other->protect);
		break;
	default: /* nothing but the head, and what rank 0 says */
		break;
	}
}

/* ------------------------------------------------------------------ heads */

static bool is_odd(const struct kedge__msg_head *acc, const struct kedge__msg_head *other)
{
	return acc->step != other->step || acc->version != other->version;
}

static void odd_set(struct kedge__msg_head *acc, int32_t rank, uint32_t step, uint64_t version)
{
	if (rank < 0 || (acc->odd >= 0 && acc->odd <= rank))
		return;
	acc->odd = rank;
	acc->odd_step = step;
	acc->odd_version = version;
}

static void head_fold(struct kedge__msg_head *acc, const struct kedge__msg_head *other)
{
	acc->flags |= other->flags;
	if (other->failed >= 0 && (acc->failed < 0 || other->failed < acc->failed)) {
		acc->failed = other->failed;
		acc->code = other->code;
		memcpy(acc->text, other->text, sizeof(acc->text));
	}
	if (is_odd(acc, other))
		odd_set(acc, other->rank, other->step, other->version);
	else
		odd_set(acc, other->odd, other->odd_step, other->odd_version);
}

/* A transport may have messages at any address. */
void kedge__msg_fold(void *acc, const void *other)
{
	union kedge__msg pair[2], *low = &pair[0], *high = &pair[1];

	memcpy(&pair[0], acc, sizeof(*low));
	memcpy(&pair[1], other, sizeof(*high));
	if (high->head.rank < low->head.rank) {
		low = &pair[1];
		high = &pair[0];
	}
	if (!is_odd(&low->head, &high->head))
		body_fold(low, high);
	head_fold(&low->head, &high->head);
	if (low->head.odd >= 0) /* which bodies met depends on the order, and none of them counts */
		memset((char *)low + sizeof(low->head), 0, sizeof(*low) - sizeof(low->head));
	memcpy(acc, low, sizeof(*low));
}
