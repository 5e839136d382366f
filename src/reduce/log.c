/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c: digests that later versions replaced, the newest of them. */
#include "reduce/reducer.h"

#define SMALLEST 256

static uint64_t bytes_of(uint64_t entries)
{
	return entries * sizeof(struct kedge__past);
}

void kedge__log_done(struct kedge__log *log)
{
	kedge__large_free(log->at, bytes_of(log->room));
	*log = (struct kedge__log){0};
}

/* The newest KEPT entries, oldest first, with room for ROOM. False: nothing has changed. */
static bool move_to(struct kedge__log *log, uint64_t kept, uint64_t room)
{
	struct kedge__log other = {.at = kedge__large_alloc(bytes_of(room)), .room = room, .count = kept};

	if (!other.at)
		return false;
	other.next = kept % room;
	for (uint64_t i = 0; i < kept; i++)
		other.at[i] = log->at[(log->next + log->room - kept + i) % log->room];
	kedge__log_done(log);
	*log = other;
	return true;
}

/* Entries keep their numbers while the next one is behind all others. */
static void grow(struct kedge__log *log, uint64_t wanted, uint64_t limit, bool loose)
{
	uint64_t room = KEDGE__MIN(KEDGE__MAX(2 * log->room, KEDGE__MAX(wanted, SMALLEST)), limit);
	bool straight = log->next % (log->room + !log->room) == log->count % (log->room + !log->room);

	if (room <= log->room)
		return;
	if (!straight) {
		if (loose)
			(void)move_to(log, log->count, room);
		return;
	}
	if (!kedge__large_grow((void **)&log->at, bytes_of(log->room), bytes_of(room)))
		return;
	log->next = log->count;
	log->room = room;
}

void kedge__log_extend(struct kedge__log *log, uint64_t n, uint64_t limit, bool loose, uint64_t *first)
{
	if (log->count + n > log->room && log->room < limit)
		grow(log, log->count + n, limit, loose);
	if (!log->room)
		return;
	n = KEDGE__MIN(n, log->room);
	*first = log->next % log->room;
	log->next = (log->next + n) % log->room;
	log->count = KEDGE__MIN(log->count + n, log->room);
}

bool kedge__log_limit(struct kedge__log *log, uint64_t limit)
{
	uint64_t kept = KEDGE__MIN(log->count, limit);

	if (log->room <= limit)
		return false;
	if (!kept || !move_to(log, kept, limit))
		kedge__log_done(log);
	return true;
}
