/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * equal: files that keep data packed, with it unpacked, and back. Chunks of HDF5 datasets that the file has deflated or szipped are
 * replaced by what is in them, and packed again when the file is wanted back; every other byte of the file stays what and, with one exception
 * (rebuild.c), where it is. So nothing has to be known of groups, links, attributes and types for them to be the same. A chunk for which
 * that was not tried, with success, stays as it is. Not part of libkedge.
 */
#ifndef KEDGE_EQUAL_EQUAL_H
#define KEDGE_EQUAL_EQUAL_H

#include "aggregate/aggregate.h"
#include "pipeline/pipeline.h"

/* ------------------------------------------------------------------ filters.c, optional/ */

enum kedge__effort { /* where a filter has a choice */
	KEDGE__EFFORT_AS_WAS, /* what the file says */
	KEDGE__EFFORT_MOST,   /* the smallest */
	KEDGE__EFFORT_NONE,   /* for tests: larger than anybody would make it */
};

struct kedge__filter {
	uint16_t id;         /* as HDF5 numbers them */
	const char *name;
	const char *library; /* that it needs; NULL: none */
	bool built;
	bool packs;          /* what it made may be followed by zeros: its end is known */
	size_t adds;         /* bytes that it always adds, if it does not pack */
	/* N bytes at IN become *USED bytes at OUT, which has ROOM bytes. False: they cannot. */
	bool (*undo)(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t *used);
	bool (*apply)(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n, uint8_t *out, size_t room,
		      size_t *used);
};

extern const struct kedge__filter kedge__filter_deflate, kedge__filter_szip; /* optional/deflate.c, optional/szip.c */
const struct kedge__filter *kedge__filter_find(uint16_t id); /* NULL: not known */
bool kedge__filters_built(void); /* is there any that packs? */
/* The first filter of PIPE that this build does not have; NULL: it has all of them. */
const struct kedge__filter *kedge__pipe_lacks(const struct kedge__plain_pipe *pipe);

struct kedge__chunk_bytes { /* what comes of a chunk */
	uint8_t *at; /* kedge__free()d */
	size_t bytes;
};

/* All filters of PIPE, undone: up to MOST bytes come of it. 0, KEDGE_E_NOMEM, or KEDGE_E_DAMAGED: it cannot be done. */
int kedge__pipe_undo(const struct kedge__plain_pipe *pipe, const uint8_t *in, size_t n, size_t most, struct kedge__chunk_bytes *out);
/* All of them, applied: with zeros in it, if need be, PLACE bytes come of it, or more. */
int kedge__pipe_apply(const struct kedge__plain_pipe *pipe, enum kedge__effort effort, const uint8_t *in, size_t n, size_t place,
		      struct kedge__chunk_bytes *out);

/* ------------------------------------------------------------------ plain.c: from a file to its plain form */

enum kedge__plain_answer {
	KEDGE__PLAIN_MADE,
	KEDGE__PLAIN_NOT_HDF5,
	KEDGE__PLAIN_NOTHING, /* it keeps nothing packed */
	KEDGE__PLAIN_FOREIGN, /* all that is packed is packed by something that is not known here */
	KEDGE__PLAIN_KEPT,    /* what is packed cannot be unpacked, or would not fit its place when packed again */
	KEDGE__PLAIN_ABSENT,  /* this build has no library that unpacks anything */
	KEDGE__PLAIN_CLASH,   /* what describes the file is where its data is: it is damaged, or hostile */
};

const char *kedge__plain_answer_text(enum kedge__plain_answer answer); /* why a file stays as it is */

struct kedge__plain_made {
	enum kedge__plain_answer answer;
	uint64_t bytes;         /* of the plain form */
	size_t chunks, kept;    /* that were unpacked, and that were not */
	size_t different;       /* of those unpacked: packed again they are as good, but not the same bytes */
};

/* Write the plain form of FILE to FD, which is empty. Each chunk was packed again, and is what it was. NAME is for messages; POOL may be NULL. */
int kedge__plain_make(const struct kedge__contents *file, int fd, const char *name, struct kedge__pool *pool, struct kedge__plain_made *out,
		      struct kedge__error *err);

/* ------------------------------------------------------------------ rebuild.c: and back */

struct kedge__rebuilt {
	uint64_t bytes;       /* of the file */
	size_t chunks, moved; /* packed; and of those, put at the end of the file since they are larger than they were */
};

/* Write the file whose plain form is REGION to FD, which is empty. KEDGE_E_DAMAGED: it is no plain form; KEDGE_E_CODEC: this build cannot
 * pack what it has to. */
int kedge__plain_rebuild(const struct kedge__contents *region, int fd, const char *name, struct kedge__pool *pool, enum kedge__effort effort,
			 struct kedge__rebuilt *out, struct kedge__error *err);

/* ------------------------------------------------------------------ chunks.c: work on many chunks at once */

#define KEDGE__CHUNKS_AT_ONCE 64
#define KEDGE__CHUNKS_BYTES   (UINT64_C(32) << 20) /* at once, beyond the first */

/* Copy BYTES bytes of FROM at OFFSET to FD at TO. */
int kedge__contents_copy(const struct kedge__contents *from, uint64_t offset, uint64_t bytes, int fd, uint64_t to, const char *name,
			 struct kedge__error *err);
/* The checksum that HDF5 puts behind what describes a file (H5_checksum_lookup3). */
uint32_t kedge__lookup3(const uint8_t *at, size_t bytes);

#endif
