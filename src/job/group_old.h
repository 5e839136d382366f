/* Messages of every rank to every rank: on the way out. */
#ifndef KEDGE_JOB_GROUP_OLD_H
#define KEDGE_JOB_GROUP_OLD_H

#include "job/group.h"

struct kedge__say {
	uint32_t step;
	int32_t code;
	uint64_t version;
	uint64_t flags;
	char text[232];
};

int kedge__channel_begin(struct kedge__channel *ch, size_t bytes, void **slot, struct kedge__error *err);
int kedge__channel_gather(struct kedge__channel *ch, size_t bytes, void **all, struct kedge__error *err);
void kedge__say_set(struct kedge__say *say, enum kedge__step step, uint64_t version, int rc, const struct kedge__error *err);
int kedge__say_judge(const struct kedge__channel *ch, const void *all, size_t stride, struct kedge__error *err);

#endif
