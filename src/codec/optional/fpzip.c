/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of libfpzip without its header, lossless. A block of an array is a number of whole planes (or rows), which
 * go as what they are, and what is left over, which goes as a row.
 *
 * The library predicts in floating point. An application may have changed how that rounds, or have denormals flushed;
 * so both directions run in the default environment. Its error code is a global that several threads may write: it is
 * never looked at. Its decoder takes the stream on trust and may crash on one that is damaged: so the block carries a
 * checksum of its own, over everything that the decoder goes by.
 */
#include "codec/codec_table.h"

#include <fenv.h>
#include <fpzip.h>

#define HEADER 28 /* checksum of all behind it 8, parameter 4, raw bytes 4, nx 4, ny 4, bytes of the first stream 4 */

struct part {
	size_t nx, ny, nz;
};

static size_t part_count(const struct part *p)
{
	return p->nx * p->ny * p->nz;
}

static size_t fpzip_bound(size_t raw)
{
	return raw + raw / 2 + 1024;
}

/* N numbers as planes, rows, or a row, and the rest. */
static void cut(size_t n, uint32_t row, uint32_t plane, struct part parts[2])
{
	if (plane && n >= plane)
		parts[0] = (struct part){row, plane / row, n / plane};
	else if (row && n >= row)
		parts[0] = (struct part){row, n / row, 1};
	else
		parts[0] = (struct part){n, 1, 1};
	parts[1] = (struct part){n - part_count(&parts[0]), 1, 1};
}

static void describe(FPZ *z, const struct part *p, unsigned width)
{
	z->type = width == 8 ? FPZIP_TYPE_DOUBLE : FPZIP_TYPE_FLOAT;
	z->prec = 0;
	z->nx = (int)p->nx;
	z->ny = (int)p->ny;
	z->nz = (int)p->nz;
	z->nf = 1;
}

/* Bytes written, 0 if they do not fit. */
static size_t write_part(const struct part *p, const uint8_t *raw, unsigned width, uint8_t *out, size_t room)
{
	FPZ *z = fpzip_write_to_buffer(out, room);
	size_t n;

	if (!z)
		return 0;
	describe(z, p, width);
	n = fpzip_write(z, raw);
	fpzip_write_close(z);
	return n <= room ? n : 0;
}

static bool write_parts(const struct part parts[2], const uint8_t *raw, unsigned width, uint8_t *out, size_t room,
			size_t sizes[2])
{
	sizes[0] = write_part(&parts[0], raw, width, out, room);
	if (!sizes[0])
		return false;
	sizes[1] = 0;
	if (!part_count(&parts[1]))
		return true;
	sizes[1] = write_part(&parts[1], raw + part_count(&parts[0]) * width, width, out + sizes[0], room - sizes[0]);
	return sizes[1] != 0;
}

static void put_header(uint8_t *to, uint16_t param, size_t raw_bytes, const struct part *first, size_t bytes)
{
	kedge__put32(to + 8, param);
	kedge__put32(to + 12, (uint32_t)raw_bytes);
	kedge__put32(to + 16, (uint32_t)first->nx);
	kedge__put32(to + 20, (uint32_t)first->ny);
	kedge__put32(to + 24, (uint32_t)bytes);
}

static int fpzip_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	unsigned width = kedge__element_width(in->type), step = kedge__element_step(in->type);
	uint8_t *to = out;
	size_t n = in->bytes / width, tail = in->bytes % width, sizes[2];
	struct part parts[2];
	fenv_t env;
	bool ok;

	if (!kedge__element_is_float(in->type) || width < 4 || !n || in->bytes > INT32_MAX || room < HEADER + tail + 16)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0,
					"codec fpzip: does not support this element type, or so few bytes");
	cut(n, how->row * step, how->plane * step, parts);
	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	ok = write_parts(parts, in->raw, width, to + HEADER, room - HEADER - tail, sizes);
	fesetenv(&env);
	if (!ok)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec fpzip: %zu bytes do not fit into %zu", in->bytes,
					room);
	*param = (uint16_t)((fpzip_codec_version & 0xff) | kedge__width_log2(width) << 8);
	*used = HEADER + sizes[0] + sizes[1] + tail;
	memcpy(to + *used - tail, (const uint8_t *)in->raw + n * width, tail);
	put_header(to, *param, in->bytes, &parts[0], sizes[0]);
	kedge__put64(to, kedge__checksum(to + 8, *used - 8));
	return 0;
}

/* The library knows no end of its input. So it gets a copy with more zeros behind it than it can ever read: a number
 * takes at most its bits and what one symbol of the range coder consumes. */
static int read_part(const struct part *p, unsigned width, const uint8_t *in, size_t in_bytes, uint8_t *raw,
		     struct kedge__error *err)
{
	size_t padded = in_bytes + part_count(p) * (width + 8) + 64, taken = 0;
	uint8_t *copy = kedge__calloc(padded, 1);
	FPZ *z;

	if (!copy)
		return kedge__error_nomem(err);
	memcpy(copy, in, in_bytes);
	z = fpzip_read_from_buffer(copy);
	if (z) {
		describe(z, p, width);
		taken = fpzip_read(z, raw);
		fpzip_read_close(z);
	}
	kedge__free(copy);
	if (taken != in_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec fpzip: the stream ends at the wrong place");
	return 0;
}

static int damaged(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec fpzip: wrong checksum, sizes or parameter");
}

/* What the header says of the N numbers. */
static bool get_parts(const uint8_t *in, size_t n, struct part parts[2])
{
	size_t nx = kedge__get32(in + 16), ny = kedge__get32(in + 20), nz;

	if (!nx || !ny || nx > n || ny > n / nx)
		return false;
	nz = n / (nx * ny);
	parts[0] = (struct part){nx, ny, nz};
	parts[1] = (struct part){n - part_count(&parts[0]), 1, 1};
	return true;
}

static int fpzip_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	unsigned width = 1u << (param >> 8 & 7);
	size_t n = raw_bytes / width, tail = raw_bytes % width, first;
	const uint8_t *from = in;
	struct part parts[2];
	fenv_t env;
	int rc;

	(void)base;
	if ((width != 4 && width != 8) || param >> 11 || in_bytes < HEADER + tail || raw_bytes > INT32_MAX)
		return damaged(err);
	if ((param & 0xff) != (fpzip_codec_version & 0xff))
		return kedge__error_set(err, KEDGE_E_CODEC, 0,
					"codec fpzip with arithmetic %u is needed; this build's "
					"library has %u",
					param & 0xffu, fpzip_codec_version & 0xff);
	if (kedge__get64(from) != kedge__checksum(from + 8, in_bytes - 8) || kedge__get32(from + 8) != param ||
	    kedge__get32(from + 12) != raw_bytes)
		return damaged(err);
	first = kedge__get32(from + 24);
	if (first > in_bytes - HEADER - tail || !get_parts(from, n, parts))
		return damaged(err);
	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	rc = read_part(&parts[0], width, from + HEADER, first, raw, err);
	if (!rc && part_count(&parts[1]))
		rc = read_part(&parts[1], width, from + HEADER + first, in_bytes - HEADER - tail - first,
			       (uint8_t *)raw + part_count(&parts[0]) * width, err);
	else if (!rc && first != in_bytes - HEADER - tail)
		rc = damaged(err);
	fesetenv(&env);
	if (!rc)
		memcpy((uint8_t *)raw + n * width, from + in_bytes - tail, tail);
	return rc;
}

const struct kedge__codec kedge__codec_fpzip = {
    .id = KEDGE__CODEC_FPZIP,
    .name = "fpzip",
    .bound = fpzip_bound,
    .encode = fpzip_encode,
    .decode = fpzip_decode,
};
