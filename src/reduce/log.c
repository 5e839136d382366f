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

/* Entries keep their numbers: it grows only while the next one is behind all others. */
static void grow(struct kedge__log *log, uint64_t wanted, uint64_t limit)
{
	uint64_t room = KEDGE__MAX(2 * log->room, KEDGE__MAX(wanted, SMALLEST));

	room = KEDGE__MIN(room, limit);
	if (room <= log->room || log->next % (log->room + !log->room) != log->count % (log->room + !log->room) ||
	    !kedge__large_grow((void **)&log->at, bytes_of(log->room), bytes_of(room)))
		return;
	log->next = log->count;
	log->room = room;
}

void kedge__log_extend(struct kedge__log *log, uint64_t n, uint64_t limit, uint64_t *first)
{
	if (log->count + n > log->room && log->room < limit)
		grow(log, log->count + n, limit);
	if (!log->room)
		return;
	n = KEDGE__MIN(n, log->room);
	*first = log->next % log->room;
	log->next = (log->next + n) % log->room;
	log->count = KEDGE__MIN(log->count + n, log->room);
}

bool kedge__log_limit(struct kedge__log *log, uint64_t limit)
{
	struct kedge__log less = {0};
	uint64_t kept = KEDGE__MIN(log->count, limit);

	if (log->room <= limit)
		return false;
	less.at = kept ? kedge__large_alloc(bytes_of(limit)) : NULL;
	if (less.at) {
		less.room = limit;
		less.count = kept;
		less.next = kept % limit;
		for (uint64_t i = 0; i < kept; i++)
			less.at[i] = log->at[(log->next + log->room - kept + i) % log->room];
	}
	kedge__log_done(log);
	*log = less;
	return true;
}
