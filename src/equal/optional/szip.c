/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * szip, by libaec: four bytes with the size of what was packed, then that, as HDF5 has it. libaec has the calls of the
 * library that HDF5 was made for, too; but these trust what they are given, and here it comes from files. So what they
 * do is done here: numbers of four and eight bytes are taken apart, and lines are made whole numbers of blocks.
 */
#include "equal/equal.h"

#include <libaec.h>

#define HEAD     4
#define MSB_MASK 16 /* options that HDF5 notes */
#define NN_MASK  32

struct shape {
	unsigned flags, bits, block,
	    rsi;          /* as libaec has them; bits of a sample, samples of a block, blocks of a line */
	size_t word;      /* bytes of numbers that are taken apart; 1: none are */
	size_t sample;    /* bytes */
	size_t line, pad; /* bytes of a line, and those that make it whole blocks */
};

/* The values that HDF5 notes: options, pixels per block, bits per pixel, pixels per scanline. */
static bool shape_of(const struct kedge__plain_filter *f, size_t n, struct shape *s)
{
	unsigned block = f->values[1], bits = f->values[2], line = f->values[3];

	if (f->count < 4 || block < 2 || block > 32 || block % 2 || !bits || (bits > 24 && bits != 32 && bits != 64) ||
	    !line || line > 4096)
		return false;
	*s = (struct shape){.bits = bits, .block = block, .rsi = (line + block - 1) / block, .word = 1};
	s->flags = AEC_NOT_ENFORCE | (f->values[0] & MSB_MASK ? AEC_DATA_MSB : 0u) |
		   (f->values[0] & NN_MASK ? AEC_DATA_PREPROCESS : 0u);
	if (bits >= 32) {
		s->word = bits / 8;
		s->bits = 8;
	}
	s->sample = s->bits > 16 ? 4 : s->bits > 8 ? 2 : 1;
	s->line = line * s->sample;
	s->pad = (size_t)s->rsi * block * s->sample - s->line;
	return n && n % (s->word * s->sample) == 0;
}

/* Of N bytes, with what makes their lines whole. */
static size_t padded_bytes(const struct shape *s, size_t n)
{
	return (n + s->line - 1) / s->line * (s->line + s->pad);
}

static struct aec_stream stream_of(const struct shape *s, const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	return (struct aec_stream){.next_in = in,
				   .avail_in = n,
				   .next_out = out,
				   .avail_out = room,
				   .bits_per_sample = s->bits,
				   .block_size = s->block,
				   .rsi = s->rsi,
				   .flags = s->flags};
}

/* ------------------------------------------------------------------ lines */

/* Where byte I of N is once numbers are taken apart. */
static size_t apart(const struct shape *s, size_t i, size_t n)
{
	return s->word == 1 ? i : i % s->word * (n / s->word) + i / s->word;
}

/* TO has padded_bytes(). */
static void lines_make(const struct shape *s, const uint8_t *in, size_t n, uint8_t *to)
{
	size_t at = 0, end = padded_bytes(s, n), pitch = s->line + s->pad;

	memset(to, 0, end);
	for (size_t i = 0; i < n; i++) {
		size_t place = apart(s, i, n);

		to[place / s->line * pitch + place % s->line] = in[i];
	}
	/* With prediction, the last sample of a line goes on to its end. */
	for (size_t done = 0; s->flags & AEC_DATA_PREPROCESS && done < n; done += s->line, at += pitch)
		for (size_t k = KEDGE__MIN(s->line, n - done); k < pitch; k++)
			to[at + k] = to[at + k - s->sample];
}

static void lines_take(const struct shape *s, const uint8_t *from, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i++) {
		size_t place = apart(s, i, n);

		out[i] = from[place / s->line * (s->line + s->pad) + place % s->line];
	}
}

/* ------------------------------------------------------------------ the filter */

static bool szip_undo(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room,
		      size_t *used)
{
	size_t bytes = n < HEAD ? 0 : kedge__get32(in), whole;
	struct aec_stream z;
	struct shape s;
	uint8_t *lines;
	bool ok;

	if (bytes > room || !shape_of(f, bytes, &s))
		return false;
	whole = padded_bytes(&s, bytes);
	lines = kedge__malloc(whole);
	if (!lines)
		return false;
	z = stream_of(&s, in + HEAD, n - HEAD, lines, whole);
	ok = aec_buffer_decode(&z) == AEC_OK && z.total_out >= whole - s.pad - (s.line - 1 - (bytes - 1) % s.line);
	if (ok)
		lines_take(&s, lines, bytes, out);
	kedge__free(lines);
	*used = bytes;
	return ok;
}

static bool szip_apply(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n,
		       uint8_t *out, size_t room, size_t *used)
{
	struct aec_stream z;
	struct shape s;
	uint8_t *lines;
	bool ok;

	(void)effort;
	if (n > UINT32_MAX || room < HEAD || !shape_of(f, n, &s))
		return false;
	lines = kedge__malloc(padded_bytes(&s, n));
	if (!lines)
		return false;
	lines_make(&s, in, n, lines);
	z = stream_of(&s, lines, padded_bytes(&s, n), out + HEAD, room - HEAD);
	ok = aec_buffer_encode(&z) == AEC_OK && z.avail_in == 0;
	kedge__free(lines);
	kedge__put32(out, (uint32_t)n);
	*used = HEAD + z.total_out;
	return ok;
}

const struct kedge__filter kedge__filter_szip = {4, "szip", "libaec", true, true, 0, szip_undo, szip_apply};
