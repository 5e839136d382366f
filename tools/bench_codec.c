/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench codec: ratio and speed of every codec on the user's own files, one thread, blocks as a store cuts them.
 * Every block is unpacked again and compared. The time of a codec is the least of the turns, in processor time of the
 * thread: what other processes do to it is not of interest here.
 */
#include "bench_codec.h"

#include <stdlib.h>
#include <time.h>

#define TURNS_MAX 64

struct file {
	char *path;
	uint8_t *data;
	size_t bytes;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
};

struct bench {
	struct kedge__usage usage;
	const char *type_name, *svg;
	enum kedge_type type;
	uint64_t block, repeat;
	struct kedge__text_list codecs;
	double target, storage;
	bool json;
	struct file *files;
	size_t file_count;
	uint64_t bytes;
	uint8_t *packed, *back;
};

static const char *const presets[] = {"none",
				      "lz4",
				      "zstd:1",
				      "zstd:3",
				      "zstd:9",
				      "deflate:6",
				      "fpzip",
				      "fpc64",
				      "fpc32",
				      "fpc64+zstd:1",
				      "shuffle+lz4",
				      "shuffle+zstd:1",
				      "shuffle+zstd:3",
				      "shuffle+zstd:9",
				      "bitshuffle+lz4",
				      "bitshuffle+zstd:1",
				      "delta+shuffle+zstd:1",
				      "delta+bitshuffle+zstd:1",
				      "field",
				      "auto",
				      "max"};

/* ---- the files */

/* "NAME:50x50" and "NAME": the shape is taken off the name. */
static void take_shape(struct file *f)
{
	char *colon = strrchr(f->path, ':'), *end;
	uint64_t dims[KEDGE_MAX_DIMS];
	int n = 0;

	if (!colon)
		return;
	for (char *p = colon + 1;; p = end + 1) {
		if (*p < '0' || *p > '9' || n == KEDGE_MAX_DIMS)
			return;
		dims[n++] = strtoull(p, &end, 10);
		if (*end == '\0')
			break;
		if (*end != 'x')
			return;
	}
	*colon = '\0';
	f->ndims = n;
	memcpy(f->dims, dims, sizeof(dims));
}

static int load(struct bench *b, struct file *f, const char *name, struct kedge__error *err)
{
	uint64_t bytes;
	int fd, rc;

	f->path = kedge__strdup(name);
	if (!f->path)
		return kedge__error_nomem(err);
	take_shape(f);
	rc = kedge__fs_open_read(f->path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &bytes, f->path, err);
	if (!rc) {
		f->data = kedge__malloc((size_t)bytes + 1);
		f->bytes = (size_t)bytes;
		rc = f->data ? kedge__fs_pread(fd, f->data, f->bytes, 0, f->path, err) : kedge__error_nomem(err);
	}
	kedge__fs_close(fd);
	b->bytes += bytes;
	return rc;
}

/* ---- one codec */

struct turn {
	double encode, decode;
	uint64_t packed;
};

static double thread_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure_block(struct bench *b, const struct kedge__codec_choice *choice, const uint8_t *raw, size_t bytes,
			 struct turn *t, struct kedge__error *err)
{
	uint16_t codec, param;
	size_t used;
	double start = thread_seconds(), middle;
	int rc = kedge__block_encode(choice, b->type, raw, bytes, b->packed, &used, &codec, &param, err);

	if (rc)
		return rc;
	middle = thread_seconds();
	rc = kedge__block_decode(codec, param, b->packed, used, b->back, bytes, err);
	if (rc)
		return rc;
	t->decode += thread_seconds() - middle;
	t->encode += middle - start;
	t->packed += used;
	if (memcmp(raw, b->back, bytes) != 0)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a block did not come back as it was");
	return 0;
}

static void note_choice(struct kedge__codec_result *r, const struct kedge__codec_choice *choice)
{
	char name[KEDGE__CODEC_NAME_ROOM];
	size_t used = strlen(r->chosen);

	kedge__codec_choice_describe(choice, name);
	if (!strstr(r->chosen, name) && used + strlen(name) + 3 < sizeof(r->chosen))
		snprintf(r->chosen + used, sizeof(r->chosen) - used, "%s%s", used ? ", " : "", name);
}

static int measure_file(struct bench *b, const struct kedge__codec_choice *wanted, const struct file *f,
			struct kedge__codec_result *r, struct turn *t, struct kedge__error *err)
{
	struct kedge__codec_choice choice = *wanted;
	const struct kedge__codec_input piece = {.raw = f->data, .bytes = f->bytes, .type = b->type};
	double start = thread_seconds();
	int rc = 0;

	kedge__codec_choice_shape(&choice, f->ndims, f->dims);
	if (wanted->automatic) {
		choice = kedge__codec_sample(&choice, &piece, 1, NULL);
		note_choice(r, &choice);
	}
	t->encode += thread_seconds() - start;
	for (size_t at = 0; at < f->bytes && !rc; at += b->block)
		rc = measure_block(b, &choice, f->data + at, (size_t)KEDGE__MIN(f->bytes - at, b->block), t, err);
	return rc;
}

static int measure(struct bench *b, const struct kedge__codec_choice *wanted, struct kedge__codec_result *r,
		   struct kedge__error *err)
{
	double encode = 0, decode = 0;

	for (uint64_t i = 0; i < b->repeat; i++) {
		struct turn t = {0};

		for (size_t k = 0; k < b->file_count; k++) {
			int rc = measure_file(b, wanted, &b->files[k], r, &t, err);

			if (rc) {
				kedge__error_prefix(err, "%s: %s", r->name, b->files[k].path);
				return rc;
			}
		}
		encode = i && encode < t.encode ? encode : t.encode;
		decode = i && decode < t.decode ? decode : t.decode;
		r->packed_bytes = t.packed;
	}
	r->raw_bytes = b->bytes;
	r->encode = (double)b->bytes / KEDGE__MAX(encode, 1e-9);
	r->decode = (double)b->bytes / KEDGE__MAX(decode, 1e-9);
	return 0;
}

/* ---- results */

static void mark_best(struct kedge__codec_result *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		r[i].best = true;
		for (size_t k = 0; k < n; k++)
			if (r[k].packed_bytes <= r[i].packed_bytes && r[k].encode >= r[i].encode &&
			    (r[k].packed_bytes < r[i].packed_bytes || r[k].encode > r[i].encode))
				r[i].best = false;
	}
}

static void print_json(const struct bench *b, const struct kedge__codec_result *r, size_t n)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *row = kedge__json_object();

		kedge__json_text(row, "codec", r[i].name);
		kedge__json_uint(row, "packed_bytes", r[i].packed_bytes);
		kedge__json_real(row, "ratio", kedge__codec_result_ratio(&r[i]));
		kedge__json_real(row, "encode_megabytes_per_second", r[i].encode * 1e-6);
		kedge__json_real(row, "decode_megabytes_per_second", r[i].decode * 1e-6);
		kedge__json_bool(row, "best", r[i].best);
		if (r[i].chosen[0])
			kedge__json_text(row, "chosen", r[i].chosen);
		kedge__json_add(rows, row);
	}
	kedge__json_text(o, "type", kedge__type_name(b->type));
	kedge__json_uint(o, "block", b->block);
	kedge__json_uint(o, "raw_bytes", b->bytes);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_set(o, "results", rows);
	kedge__json_print(o);
}

static void print_table(const struct bench *b, const struct kedge__codec_result *r, size_t n)
{
	char bytes[KEDGE__TEXT_ROOM], block[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	printf("%s of %s in blocks of %s, one thread; *: none is both smaller and faster\n\n",
	       kedge__text_bytes(b->bytes, bytes), kedge__type_name(b->type), kedge__text_bytes(b->block, block));
	kedge__table_init(&t, "lrrrll");
	kedge__table_add(&t, "codec");
	kedge__table_add(&t, "ratio");
	kedge__table_add(&t, "pack MB/s");
	kedge__table_add(&t, "unpack MB/s");
	kedge__table_add(&t, "best");
	kedge__table_add(&t, "chosen");
	for (size_t i = 0; i < n; i++) {
		kedge__table_add(&t, "%s", r[i].name);
		kedge__table_add(&t, "%.3f", kedge__codec_result_ratio(&r[i]));
		kedge__table_add(&t, "%.0f", r[i].encode * 1e-6);
		kedge__table_add(&t, "%.0f", r[i].decode * 1e-6);
		kedge__table_add(&t, "%s", r[i].best ? "*" : "");
		kedge__table_add(&t, "%s", r[i].chosen);
	}
	kedge__table_print(&t, stdout);
}

static int write_svg(const struct bench *b, const struct kedge__codec_result *r, size_t n)
{
	char title[2 * KEDGE__TEXT_ROOM], bytes[KEDGE__TEXT_ROOM];
	FILE *out = fopen(b->svg, "w");

	if (!out) {
		kedge__tool_say(b->usage.command, "cannot write %s: %m", b->svg);
		return KEDGE__EXIT_IO;
	}
	snprintf(title, sizeof(title), "%s of %s", kedge__text_bytes(b->bytes, bytes), kedge__type_name(b->type));
	kedge__bench_codec_svg(out, r, n, title);
	if (fclose(out) != 0) {
		kedge__tool_say(b->usage.command, "cannot write %s: %m", b->svg);
		return KEDGE__EXIT_IO;
	}
	return KEDGE__EXIT_OK;
}

/* ---- the run */

static int prepare(struct bench *b, char **names, size_t n, struct kedge__error *err)
{
	int rc = 0;

	b->files = kedge__calloc(n, sizeof(*b->files));
	b->packed = kedge__malloc((size_t)b->block);
	b->back = kedge__malloc((size_t)b->block);
	if (!b->files || !b->packed || !b->back)
		return kedge__error_nomem(err);
	for (; b->file_count < n && !rc; b->file_count++)
		rc = load(b, &b->files[b->file_count], names[b->file_count], err);
	return rc;
}

static void done(struct bench *b)
{
	for (size_t i = 0; i < b->file_count; i++) {
		kedge__free(b->files[i].path);
		kedge__free(b->files[i].data);
	}
	kedge__free(b->files);
	kedge__free(b->packed);
	kedge__free(b->back);
}

/* A preset that is not in this build, or not for this type, is left out; one that was asked for is an error. */
static bool is_measured(const struct bench *b, const char *name, struct kedge__codec_choice *choice,
			struct kedge__error *err)
{
	size_t size = kedge_type_size(b->type);

	if (kedge__codec_choice_parse(name, choice, err) != 0)
		return false;
	choice->target = b->target;
	choice->storage = b->storage;
	if (b->codecs.count)
		return true;
	if (strncmp(name, "fpc64", 5) == 0 || strncmp(name, "fpc32", 5) == 0)
		return size == (name[3] == '6' ? 8 : 4);
	return size > 1 || (!choice->codec->first && choice->codec->id != KEDGE__CODEC_FIELD);
}

static int run(struct bench *b, char **names, size_t count)
{
	const char *const *codecs = b->codecs.count ? b->codecs.at : presets;
	size_t n = b->codecs.count ? b->codecs.count : KEDGE__COUNT(presets), done_count = 0;
	struct kedge__codec_result *r = kedge__calloc(n, sizeof(*r));
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = r ? prepare(b, names, count, &err) : kedge__error_nomem(&err), status = KEDGE__EXIT_OK;

	for (size_t i = 0; i < n && !rc; i++) {
		struct kedge__codec_choice choice;

		if (!is_measured(b, codecs[i], &choice, b->codecs.count ? &err : NULL)) {
			rc = err.code;
			continue;
		}
		r[done_count].name = codecs[i];
		rc = measure(b, &choice, &r[done_count], &err);
		done_count += !rc;
	}
	if (!rc) {
		mark_best(r, done_count);
		if (b->json)
			print_json(b, r, done_count);
		else
			print_table(b, r, done_count);
		status = b->svg ? write_svg(b, r, done_count) : KEDGE__EXIT_OK;
	}
	done(b);
	kedge__free(r);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : status;
}

int kedge__bench_codec(int argc, char **argv)
{
	struct bench b = {.type_name = "bytes", .block = 128 << 10, .repeat = 3};
	const struct kedge__option options[] = {
	    {"type", 't', KEDGE__OPTION_TEXT, &b.type_name, "TYPE", "element type of all files (default: bytes)"},
	    {"block", 0, KEDGE__OPTION_SIZE, &b.block, "BYTES", "bytes packed as a unit (default: 128k)"},
	    {"codec", 0, KEDGE__OPTION_LIST, &b.codecs, "CODEC", "only this one; may be given again"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the fastest counts (default: 3)"},
	    {"target", 0, KEDGE__OPTION_REAL, &b.target, "BYTES", "bytes a second that auto has to keep up with"},
	    {"storage", 0, KEDGE__OPTION_REAL, &b.storage, "BYTES",
	     "bytes a second that storage takes from a thread (default: 1e8)"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &b.svg, "FILE", "write a plot of ratio over speed"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench codec",
	    .operands = "FILE[:SHAPE]...",
	    .about =
		"Packs and unpacks the files, raw arrays of one element type, with every codec: ratio, speed of\n"
		"packing and of unpacking by one thread, and what auto and max choose. SHAPE, as in 64x64x128 with\n"
		"the slowest dimension first, is that of the arrays that a file holds one after the other.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench codec --type f64 density.raw:256x256 --svg codecs.svg\n"
		       "kedge bench codec --type f32 --codec auto --codec shuffle+zstd:3 --json *.f32",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (first == argc)
		return kedge__usage_error(&b.usage, "which files?");
	if (!kedge__type_parse(b.type_name, &b.type))
		return kedge__usage_error(&b.usage, "'%s' is not an element type", b.type_name);
	if (!b.repeat || b.repeat > TURNS_MAX || b.block < 64 || b.block > 64 << 20)
		return kedge__usage_error(&b.usage, "1 to %d turns, blocks of 64 bytes to 64 MiB", TURNS_MAX);
	return run(&b, argv + first, (size_t)(argc - first));
}
