/* SPDX-License-Identifier: BSD-3-Clause */
/* The tracker that knows nothing: an area that cannot be armed is dirty at every collect. */
#include "capture/tracker.h"

static int none_probe(struct kedge__error *err)
{
	(void)err;
	return 0;
}

static int none_open(void **state, struct kedge__error *err)
{
	(void)err;
	*state = NULL;
	return 0;
}

static void none_close(void *state)
{
	(void)state;
}

static int none_pass(void *state, struct kedge__error *err)
{
	(void)state;
	(void)err;
	return 0;
}

static int none_arm(void *state, const struct kedge__area *area, struct kedge__error *err)
{
	(void)state;
	(void)area;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "pages are not tracked");
}

static void none_drop(void *state, const struct kedge__area *area)
{
	(void)state;
	(void)area;
}

static int none_collect(void *state, const struct kedge__area *area, struct kedge__pages_list *out,
			struct kedge__error *err)
{
	(void)state;
	(void)area;
	(void)out;
	(void)err;
	return KEDGE__AREA_LOST;
}

static int none_count(void *state, const struct kedge__area *area, uint64_t *bytes, struct kedge__error *err)
{
	(void)state;
	(void)err;
	*bytes += area->end - area->begin;
	return 0;
}

static void none_touch(void *state, uintptr_t begin, uintptr_t end)
{
	(void)state;
	(void)begin;
	(void)end;
}

const struct kedge__tracker_ops kedge__tracker_none = {
    .name = "none",
    .live = true,
    .automatic = true,
    .blind = true,
    .probe = none_probe,
    .open = none_open,
    .close = none_close,
    .start = none_pass,
    .finish = none_pass,
    .arm = none_arm,
    .drop = none_drop,
    .collect = none_collect,
    .count = none_count,
    .touch = none_touch,
};
