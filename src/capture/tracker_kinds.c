/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kinds there are, and which of them can be had here. */
#include "capture/tracker.h"

static const struct kedge__tracker_ops *const kinds[] = {
    &kedge__tracker_uffd,
    &kedge__tracker_softdirty,
    &kedge__tracker_mprotect,
    &kedge__tracker_none,
};

const struct kedge__tracker_ops *kedge__tracker_kind_find(const char *name)
{
	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	}
	return NULL;
}

const char *kedge__tracker_kind(size_t i)
{
	return i < KEDGE__COUNT(kinds) ? kinds[i]->name : NULL;
}

int kedge__tracker_probe(const char *name, struct kedge__error *err)
{
	const struct kedge__tracker_ops *ops = kedge__tracker_kind_find(name);
	int rc;

	if (!ops)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "unknown page tracker '%s'", name);
	rc = ops->probe(err);
	if (rc)
		kedge__error_prefix(err, "page tracker %s", name);
	return rc;
}

const struct kedge__tracker_ops *kedge__tracker_kind_choose(void)
{
	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		if (!kinds[i]->automatic)
			continue;
		if (kinds[i]->probe(&err) == 0)
			return kinds[i];
		kedge__log(KEDGE_LOG_DEBUG, "page tracker %s is not available: %s", kinds[i]->name,
			   kedge__error_text(&err));
		kedge__error_done(&err);
	}
	return &kedge__tracker_none;
}
