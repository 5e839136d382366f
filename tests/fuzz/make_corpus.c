/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * make_corpus DIR: write the corpus of the fuzz targets: a few valid records of each kind, and some that are nearly
 * valid. Its files are in the tree; run this again when a record gets something new to say, and keep the files it
 * replaces.
 */
#include "../lib/draw.h"
#include "codec/codec.h"
#include "format/format.h"
#include "fuzz.h"
#include "process/process.h"

#include <sys/stat.h>

#define SLOT(n) ((uint64_t)(n) << KEDGE__SLOT_SHIFT)
#define SELF    1000

static const char *root;

static void save(const char *subject, const char *name, const void *prefix, size_t prefix_bytes, const void *data,
		 size_t n)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, subject);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%s", root, subject, name);
	f = fopen(path, "wb");
	FUZZ_REQUIRE(f);
	FUZZ_REQUIRE(fwrite(prefix, 1, prefix_bytes, f) == prefix_bytes);
	FUZZ_REQUIRE(fwrite(data, 1, n, f) == n);
	FUZZ_REQUIRE(fclose(f) == 0);
}

static void save_bytes(const char *subject, const char *name, struct kedge__bytes *b)
{
	save(subject, name, "", 0, b->at, b->count);
	kedge__bytes_done(b);
}

static struct kedge__digest digest(uint64_t n)
{
	return (struct kedge__digest){.lo = n * UINT64_C(0x9e3779b97f4a7c15), .hi = ~n};
}

static void make_marker(void)
{
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__store_marker_encode(&(struct kedge__store_id){"fifteen letters"}, &b, NULL) == 0);
	save_bytes("marker", "plain", &b);
}

/* Magic, the head of pages-7.img, then runs: with the old field, with flags, in a parent, with the new number of pages. */
static void make_criu(void)
{
	static const uint8_t map[] = {
	    0x19, 0x43, 0x56, 0x54, 0x25, 0x40, 0x08, 0x56, 0x02, 0x00, 0x00, 0x00, 0x08, 0x07, 0x07, 0x00,
	    0x00, 0x00, 0x08, 0x80, 0x20, 0x10, 0x01, 0x18, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x80, 0x80,
	    0x01, 0x10, 0x02, 0x20, 0x04, 0x08, 0x00, 0x00, 0x00, 0x08, 0x80, 0x80, 0x04, 0x10, 0x03, 0x18,
	    0x01, 0x0d, 0x00, 0x00, 0x00, 0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x10, 0x09, 0x20, 0x05,
	    0x28, 0x01, 0x0b, 0x00, 0x00, 0x00, 0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0x10, 0x01, 0x20, 0x04
	};

	save("criu", "plain", "", 0, map, sizeof(map));
}

static void make_process(void)
{
	uint8_t xstate[576] = {3}, words[] = "./a\0b", vdso[] = "vdso", auxv[16] = {6}, pending[KEDGE__PROCESS_SIGINFO] = {10}, pipe[] = "in it";
	uint8_t watched[24] = {4, [8] = 1, [16] = 9};
	struct kedge__process_thread threads[] = {
	    {.id = 100, .xstate = {xstate, sizeof(xstate)}, .name = "a", .rseq_bytes = 32, .pending = {pending, sizeof(pending)}},
	    {.id = 101, .xstate = {xstate, sizeof(xstate)}, .name = "b", .cpus = {auxv, 8}},
	};
	struct kedge__process_file files[] = {{.path = "/a", .bytes = 5, .mtime_ns = 1, .build_id = {vdso, 4}}, {.path = "/b"}};
	struct kedge__process_mapping mappings[] = {
	    {.start = 4096, .end = 8192, .kind = KEDGE__MAPPING_PRIVATE_FILE, .bits = 5, .name = "/a"},
	    {.start = 8192, .end = 16384, .file = KEDGE__PROCESS_NO_FILE, .bits = 3, .name = "[heap]"},
	    {.start = 20480, .end = 24576, .kind = KEDGE__MAPPING_KERNEL, .file = KEDGE__PROCESS_NO_FILE, .name = "[vdso]"},
	};
	struct kedge__process_descriptor descriptors[] = {
	    {.number = 0, .kind = KEDGE__DESCRIPTOR_INHERITED, .path = "/dev/pts/1"},
	    {.number = 3, .same = 3, .path = "/log", .bytes = 10, .offset = 10, .flags = 1},
	    {.number = 4, .same = 4, .kind = KEDGE__DESCRIPTOR_PIPE, .path = "pipe:[7]", .object = 7, .data = {pipe, 5}},
	    {.number = 6, .same = 6, .kind = KEDGE__DESCRIPTOR_EPOLL, .path = "anon_inode:[eventpoll]", .data = {watched, 24}},
	};
	struct kedge__process_action actions[] = {{.signal = 14, .handler = 4096, .flags = 1}};
	const struct kedge__process_image image = {.boot = "boot",
						   .release = "6.1",
						   .cwd = "/",
						   .pid = 100,
						   .command = {words, 6},
						   .xcr0 = 7,
						   .vdso = {vdso, 4},
						   .auxv = {auxv, sizeof(auxv)},
						   .pending = {pending, sizeof(pending)},
						   .actions = {.at = actions, .count = 1},
						   .threads = {.at = threads, .count = 2},
						   .files = {.at = files, .count = 2},
						   .mappings = {.at = mappings, .count = 3},
						   .descriptors = {.at = descriptors, .count = 4}};
	uint8_t *record;
	size_t bytes;

	FUZZ_REQUIRE(kedge__process_image_encode(&image, &record, &bytes, NULL) == 0);
	save("process", "plain", "", 0, record, bytes);
	kedge__free(record);
}

static void make_tree(void)
{
	struct kedge__tree_entry list[] = {
	    {.name = "a", .kind = KEDGE__TREE_DIRECTORY, .mode = 0755},
	    {.name = "a/b", .kind = KEDGE__TREE_FILE, .size = 5, .inode = 7, .mtime_ns = 1, .ctime_ns = 2},
	    {.name = "c", .target = "a/b", .kind = KEDGE__TREE_HARDLINK},
	    {.name = "d", .target = "/etc", .kind = KEDGE__TREE_SYMLINK, .mode = 0777},
	};
	const struct kedge__tree tree = {.list = {.at = list, .count = KEDGE__COUNT(list)}, .caller = 3};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__tree_encode(&tree, NULL, 0, &b, NULL) == 0);
	save_bytes("tree", "plain", &b);
}

static void make_tie(void)
{
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__tie_encode(&(struct kedge__tie){{"fifteen letters"}, "/lustre/me/ckpt"}, &b, NULL) == 0);
	save_bytes("tie", "plain", &b);
}

static void save_message(const char *name, struct kedge__stage_message m)
{
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__stage_encode(&m, &b, NULL) == 0);
	save_bytes("stage", name, &b);
}

static void make_stage(void)
{
	save_message("hello", (struct kedge__stage_message){.type = KEDGE__STAGE_HELLO,
							    .u.hello = {.auth = KEDGE__STAGE_AUTH_MUNGE,
									.nonce = "a nonce of thirty-two bytes",
									.store = {"fifteen letters"},
									.name = "solver-3",
									.provider = "verbs;ofi_rxm",
									.port = "a name of a port",
									.port_bytes = 16,
									.credential = "MUNGE:abcdef:",
									.credential_bytes = 14}});
	save_message("welcome",
		     (struct kedge__stage_message){.type = KEDGE__STAGE_WELCOME,
						   .u.welcome = {.nonce = "another", .piece = 1 << 20, .slots = 16}});
	save_message("refused", (struct kedge__stage_message){
				    .type = KEDGE__STAGE_REFUSED,
				    .u.answer = {.to = KEDGE__STAGE_HELLO, .code = -6, .text = "not you"}});
	save_message("begin",
		     (struct kedge__stage_message){
			 .type = KEDGE__STAGE_BEGIN,
			 .number = 2,
			 .u.begin = {.file = 3, .version = 70000, .rank = 1234, .generation = 1, .sync = true}});
	save_message("piece", (struct kedge__stage_message){.type = KEDGE__STAGE_PIECE,
							    .number = 3,
							    .u.piece = {.file = 3,
									.slot = 15,
									.bytes = 65536,
									.offset = 1 << 20,
									.address = 4096,
									.key = 7,
									.checksum = 99}});
	save_message("commit", (struct kedge__stage_message){.type = KEDGE__STAGE_COMMIT, .u.commit = {3, 1 << 30}});
	save_message("abort", (struct kedge__stage_message){.type = KEDGE__STAGE_ABORT, .u.abort = {1}});
	save_message("taken", (struct kedge__stage_message){.type = KEDGE__STAGE_TAKEN, .u.taken = {1, 2}});
	save_message(
	    "answer",
	    (struct kedge__stage_message){
		.type = KEDGE__STAGE_ANSWER,
		.u.answer = {.file = 2, .to = KEDGE__STAGE_COMMIT, .code = -5, .sys_errno = 28, .text = "no space"}});
	save_message("ping", (struct kedge__stage_message){.type = KEDGE__STAGE_PING, .number = 1});
}

static void make_index(void)
{
	static const uint8_t manifest[] = "as many bytes as it has";
	const struct kedge__index_record records[] = {
	    {.kind = KEDGE__INDEX_CHANGING, .version = 7},
	    {.kind = KEDGE__INDEX_PUBLISHED,
	     .unswept = true,
	     .version = 7,
	     .file = {12, sizeof(manifest), INT64_C(1700000000123456789), -1},
	     .manifest = manifest},
	    {.kind = KEDGE__INDEX_REOPENED, .version = 7},
	    {.kind = KEDGE__INDEX_SWEPT},
	    {.kind = KEDGE__INDEX_REMOVED, .version = KEDGE_VERSION_LIMIT - 1},
	};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__index_header_encode(&(struct kedge__store_id){"fifteen letters"}, 1, &b, NULL) == 0);
	for (size_t i = 0; i < KEDGE__COUNT(records); i++)
		FUZZ_REQUIRE(kedge__index_record_encode(&records[i], &b, NULL) == 0);
	save_bytes("index", "plain", &b);
}

static void make_summary(void)
{
	struct kedge__segment_summary s = {.name = (char *)"heat2d",
					   .parent = KEDGE__NO_VERSION,
					   .next_slot = 1,
					   .raw_bytes = 100,
					   .literal_bytes = 100};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__summary_encode(&s, &b, NULL) == 0);
	save_bytes("summary", "full", &b);
	s = (struct kedge__segment_summary){.name = (char *)"a.b_c-d",
					    .parent = 7,
					    .reducer = 3,
					    .chunk = 64,
					    .next_slot = 99,
					    .hash_seconds = 0.25,
					    .write_seconds = 1.5};
	s.image_id = digest(3);
	FUZZ_REQUIRE(kedge__summary_encode(&s, &b, NULL) == 0);
	save_bytes("summary", "tree", &b);
}

static void make_regions(void)
{
	const struct kedge__region_record r[] = {
	    {.name = (char *)"u",
	     .slot = 0,
	     .type = KEDGE_F64,
	     .ndims = 2,
	     .dims = {10, 20},
	     .bytes = 1600,
	     .digest = {1, 2}},
	    {.name = (char *)"step", .slot = 1, .type = KEDGE_U64, .bytes = 8},
	    {.name = (char *)"data/file.bin", .slot = 70000, .bytes = KEDGE__REGION_BYTES_MAX},
	    {.name = (char *)"empty",
	     .slot = 1048575,
	     .type = KEDGE_C128,
	     .ndims = 8,
	     .dims = {1, 2, 3, 0, 5, 6, 7, 8}}};
	struct kedge__bytes b = {0};

	for (size_t n = 0; n <= 4; n += n < 2 ? 1 : 2) {
		char name[] = {(char)('0' + n), 0};

		FUZZ_REQUIRE(kedge__regions_encode(r, n, &b, NULL) == 0);
		save_bytes("regions", name, &b);
	}
}

static void make_blocks(void)
{
	const struct kedge__block_record blocks[] = {
	    {.raw_bytes = 4096, .stored_bytes = 4096, .checksum = 11},
	    {.raw_bytes = KEDGE__BLOCK_RAW_MAX, .stored_bytes = 1000, .codec = 2, .region = 3, .checksum = 12},
	    {.raw_bytes = 300, .stored_bytes = 299, .codec = 1, .param = 8, .region = 1, .checksum = 13}};
	struct kedge__bytes b = {0};

	for (size_t n = 0; n <= 3; n++) {
		uint16_t payload = 0;
		char name[] = {(char)('0' + n), 0};

		for (size_t i = 0; i < n; i++)
			payload = (uint16_t)(payload + blocks[i].stored_bytes);
		FUZZ_REQUIRE(kedge__blocks_encode(blocks, n, &b, NULL) == 0);
		save("blocks", name, &payload, 2, b.at, b.count);
		kedge__bytes_done(&b);
	}
}

static void make_lineage(void)
{
	const struct kedge__source_record s[] = {
	    {.version = 0, .image_id = {1, 1}}, {.version = 1}, {.version = 900}, {.version = KEDGE_VERSION_LIMIT - 1}};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__lineage_encode(s, 0, &b, NULL) == 0);
	save_bytes("lineage", "none", &b);
	FUZZ_REQUIRE(kedge__lineage_encode(s, 4, &b, NULL) == 0);
	save_bytes("lineage", "four", &b);
}

static void make_packing(void)
{
	const struct kedge__packing_record p[] = {
	    {.region = 0, .reason = 3, .name = "shuffle+zstd:3", .size = 0.5, .encode = 350e6, .storage = 100e6},
	    {.region = 7, .reason = 1, .age = 300, .name = "zstd:19", .target = 1e9}};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__packing_encode(p, 0, &b, NULL) == 0);
	save_bytes("packing", "none", &b);
	FUZZ_REQUIRE(kedge__packing_encode(p, 2, &b, NULL) == 0);
	save_bytes("packing", "two", &b);
}

static void make_classes(void)
{
	struct kedge__class_record at[] = {
	    {.name = (char *)"(rest)",
	     .pieces = 3,
	     .blocks = 1,
	     .packing = {.reason = 3, .name = "zstd:3", .size = 0.1}},
	    {.name = (char *)"Grid/Density_f32_Array3D x16x32",
	     .type = KEDGE_F32,
	     .ndims = 3,
	     .dims = {16, 16, 32},
	     .pieces = 1000,
	     .blocks = 300,
	     .packing = {.reason = 6, .age = 2, .name = "field", .size = 0.7, .encode = 700e6, .storage = 1e8}}};
	const struct kedge__classes_record c = {
	    .scheme = 3, .block = 4096, .reason = 1, .age = 15, .sizes = {0.6, 0.61, 0.5, 0}, .at = at, .count = 2};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__classes_encode(&(struct kedge__classes_record){.scheme = 1}, &b, NULL) == 0);
	save_bytes("classes", "none", &b);
	FUZZ_REQUIRE(kedge__classes_encode(&c, &b, NULL) == 0);
	save_bytes("classes", "two", &b);
}

/* The regions are those of fuzz_map.c. */
static const struct kedge__region_record map_regions[] = {
    {.name = (char *)"a", .slot = 0, .bytes = 640},
    {.name = (char *)"b", .slot = 1, .bytes = 0},
    {.name = (char *)"c", .slot = 2, .bytes = 1001},
    {.name = (char *)"d", .slot = 1048575, .bytes = KEDGE__REGION_BYTES_MAX}};

/* And those of the highest bit. */
static const struct kedge__region_record map_pages[] = {{.name = (char *)"a", .slot = 0, .bytes = 20000},
							{.name = (char *)"b", .slot = 7, .bytes = 8192}};

static void save_map(const char *name, enum kedge__map_encoding how, struct kedge__extent *e, size_t count,
		     uint32_t chunk, uint8_t n)
{
	const struct kedge__extent_map map = {.at = e, .count = count};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__map_encode(how, kedge__extents_of_map(&map), chunk, SELF, n & 0x80 ? map_pages : map_regions,
				       n % (n & 0x80 ? 3 : 5), &b, NULL) == 0);
	save("map", name, &n, 1, b.at, b.count);
	kedge__bytes_done(&b);
}

static void make_map(void)
{
	struct kedge__extent full[] = {{.addr = 0, .len = 640},
				       {.addr = SLOT(2), .len = 1001, .src = 640},
				       {.addr = SLOT(1048575), .len = KEDGE__REGION_BYTES_MAX, .src = 1641}};
	struct kedge__extent basic[] = {{.addr = 0, .len = 128, .kind = KEDGE__EXTENT_PARENT},
					{.addr = 128, .len = 512},
					{.addr = SLOT(2), .len = 64, .src = 512},
					{.addr = SLOT(2) + 64, .len = 937, .kind = KEDGE__EXTENT_PARENT}};
	struct kedge__extent tree[] = {
	    {.addr = 0, .len = 128, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 128, .len = 128},
	    {.addr = 256, .len = 64, .src = 64, .version = 990, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 320, .len = 64, .kind = KEDGE__EXTENT_FILL},
	    {.addr = 384, .len = 256, .src = SLOT(2) + 128, .version = SELF, .kind = KEDGE__EXTENT_COPY},
	    {.addr = SLOT(2), .len = 960, .src = 128},
	    {.addr = SLOT(2) + 960, .len = 41, .src = SLOT(7), .version = 5, .kind = KEDGE__EXTENT_COPY}};
	struct kedge__extent odd[] = {
	    {.addr = 0, .len = 3, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 3, .len = 61, .src = 5},
	    {.addr = 64, .len = 99, .src = UINT64_C(0x123456789abcdef0), .kind = KEDGE__EXTENT_FILL},
	    {.addr = 163, .len = 77, .src = SLOT(1048575) + 1, .version = 0, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 240, .len = 400, .src = 2}};

	struct kedge__extent pages[] = {
	    {.addr = 0, .len = 4096, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 4096, .len = 4096},
	    {.addr = 8192, .len = 320, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 8512, .len = 96, .src = 8192 + 3200, .version = 990, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 8608, .len = 64, .src = 4096},
	    {.addr = 8672, .len = 1600, .kind = KEDGE__EXTENT_FILL, .src = 7},
	    {.addr = 10272, .len = 2016, .src = 160},
	    {.addr = 12288, .len = 4096, .kind = KEDGE__EXTENT_FILL},
	    {.addr = 16384, .len = 320, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 16704, .len = 3296, .src = 4160},
	    {.addr = SLOT(7), .len = 32, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = SLOT(7) + 32, .len = 32, .src = 7456},
	    {.addr = SLOT(7) + 64, .len = 4064, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = SLOT(7) + 4128, .len = 32, .src = 7488},
	    {.addr = SLOT(7) + 4160, .len = 4032, .kind = KEDGE__EXTENT_PARENT}};

	save_map("pages", KEDGE__MAP_PAGES, pages, 15, 32, 0x80);
	save_map("full", KEDGE__MAP_RUNS, full, 3, 0, 4);
	save_map("basic", KEDGE__MAP_BITMAP, basic, 4, 64, 3);
	save_map("basic-runs", KEDGE__MAP_RUNS, basic, 4, 64, 3);
	save_map("list", KEDGE__MAP_LIST, tree, 7, 64, 3);
	save_map("tree", KEDGE__MAP_RUNS, tree, 7, 64, 3);
	save_map("odd", KEDGE__MAP_RUNS, odd, 5, 32, 1);
	save_map("columns", KEDGE__MAP_COLUMNS, tree, 7, 64, 3);
	save_map("columns-odd", KEDGE__MAP_COLUMNS, odd, 5, 0, 1);
	save_map("nothing", KEDGE__MAP_RUNS, NULL, 0, 0, 0);
}

/* Differences to the tables of fuzz_changes.c, of four regions. */
static void make_changes(void)
{
	static const char digest_bytes[] = "0123456789abcdef";
	char text[128];
	int n;

	save("changes", "nothing", "\4", 1, "", 0);
	save("changes", "removed", "\4", 1, "\5\1", 2);
	n = snprintf(text, sizeof(text), "%c%s%c%s", 4, digest_bytes, 4, digest_bytes);
	save("changes", "digests", "\4", 1, text, (size_t)n);
	memcpy(text, "\x0a\1c\2\0\1\x40\x40", 8);
	memcpy(text + 8, digest_bytes, 16);
	memcpy(text + 24, "\3\x0b\0\x40", 4);
	memcpy(text + 28, digest_bytes, 16);
	save("changes", "added-resized", "\4", 1, text, 44);
	save("changes", "from-nothing", "\0", 1, text, 0);
}

static void make_manifest(void)
{
	struct kedge__set_part parts[3] = {
	    {.file_bytes = 4711, .raw_bytes = 5000, .literal_bytes = 4000, .metadata_bytes = 700},
	    {.generation = 2, .file_bytes = 1},
	    {.file_bytes = UINT64_C(1) << 50}};
	uint64_t sources[] = {0, 1, 41};
	struct kedge__set s = {
	    .name = (char *)"heat2d", .version = 42, .parent = KEDGE__NO_VERSION, .ranks = 1, .parts = parts};
	struct kedge__bytes b = {0};

	FUZZ_REQUIRE(kedge__set_encode(&s, &b, NULL) == 0);
	save_bytes("manifest", "one", &b);
	s.ranks = 3;
	s.parent = 41;
	s.reducer = 3;
	s.seconds = 0.5;
	s.sources = sources;
	s.source_count = 3;
	FUZZ_REQUIRE(kedge__set_encode(&s, &b, NULL) == 0);
	kedge__put64(b.at + 72, 5);
	b.count -= 8;
	save("manifest", "extension", b.at, b.count, "\2\3abc........", 13);
	kedge__put64(b.at + 72, 0);
	b.count += 8;
	save_bytes("manifest", "three", &b);
}

static void make_segment(void)
{
	static const uint32_t types[] = {KEDGE__SECTION_SUMMARY, KEDGE__SECTION_REGIONS, KEDGE__SECTION_MAP,
					 KEDGE__SECTION_BLOCKS,  KEDGE__SECTION_LINEAGE, 0x74736554};
	const struct kedge__segment_header h = {.version = 42, .created_ns = 1, .rank = 1, .ranks = 2};
	struct kedge__segment_footer f = {.payload_bytes = 1000, .section_count = 6, .seal = {1, 2}};
	struct kedge__section_entry e[6];
	struct kedge__bytes b = {0};
	uint8_t raw[128];
	uint64_t at = 1064;

	for (size_t i = 0; i < 6; i++) {
		e[i] = (struct kedge__section_entry){
		    .type = types[i], .flags = i < 5, .offset = at, .bytes = 10 * i, .checksum = i};
		at += e[i].bytes;
	}
	f.index_offset = at;
	f.file_bytes = at + 6 * 32 + 64;
	kedge__segment_header_encode(&h, raw);
	kedge__segment_footer_encode(&f, raw + 64);
	FUZZ_REQUIRE(kedge__section_index_encode(e, 6, &b, NULL) == 0);
	save("segment", "six", raw, 128, b.at, b.count);
	kedge__bytes_done(&b);
}

static void make_settings(void)
{
	static const char all[] = "; every kind of setting\n[kedge]\ntext = some words\nflag = yes\nnumber = -3\nsize "
				  "= 2MiB\nreal = 1e3\nchoice = list\n";
	static const char misspelt[] = "txet = x\n";
	static const char odd[] = "number=1000\nsize: 32\ntext =\n  more\n\n# done\nflag=off";

	save("settings", "all", "", 0, all, sizeof(all) - 1);
	save("settings", "misspelt", "", 0, misspelt, sizeof(misspelt) - 1);
	save("settings", "odd", "", 0, odd, sizeof(odd) - 1);
}

static void save_packed(const char *text, enum kedge_type type, const uint8_t *raw, size_t bytes)
{
	uint8_t *packed = malloc(bytes), prefix[5];
	struct kedge__codec_choice choice;
	char name[64];
	uint16_t codec, param;
	size_t used;

	FUZZ_REQUIRE(packed);
	if (kedge__codec_choice_parse(text, &choice, NULL) != 0) {
		free(packed);
		return;
	}
	choice.row = 10;
	FUZZ_REQUIRE(kedge__block_encode(&choice, type, raw, bytes, packed, &used, &codec, &param, NULL) == 0);
	prefix[0] = (uint8_t)codec;
	kedge__put16(prefix + 1, (uint16_t)(codec == KEDGE__CODEC_ECHO ? bytes / 6 : bytes));
	kedge__put16(prefix + 3, param);
	snprintf(name, sizeof(name), "%s-%u", text, (unsigned)type);
	for (char *p = name; *p; p++)
		*p = *p == ':' || *p == '+' ? '-' : *p;
	save("codec", name, prefix, sizeof(prefix), packed, used);
	free(packed);
}

/* Enough numbers for all lanes. */
static void make_lanes(void)
{
	uint8_t raw[4400];

	for (size_t k = 0; k < sizeof(raw) / 4; k++)
		kedge__put32(raw + k * 4, UINT32_C(0x3f800000) + (uint32_t)(k * k << 3) + (uint32_t)(k * k * 7 % 511));
	save_packed("field", KEDGE_I32, raw, sizeof(raw));
}

/* Two parts, zeros for the most: noise, a copy of it, and, in the other part, its mirror image with the other sign. */
static void make_echoes(void)
{
	static uint8_t raw[144000];
	uint64_t seed = 1;

	for (size_t k = 0; k < 100; k++) {
		uint64_t noise = draw(&seed);

		kedge__put64(raw + (1000 + k) * 8, UINT64_C(0x3ff0000000000000) + (noise >> 12));
		kedge__put64(raw + (2000 + k) * 8, UINT64_C(0x3ff0000000000000) + (noise >> 12) + k % 3);
		kedge__put64(raw + (17800 - k) * 8, UINT64_C(0xbff0000000000000) + (noise >> 12));
	}
	save_packed("echo", KEDGE_F64, raw, sizeof(raw));
}

static void make_codec(void)
{
	static const char *const texts[] = {"none",           "lz4",         "zstd:1",      "zstd:19",
					    "deflate",        "fpzip",       "fpc64",       "fpc64:6+zstd:1",
					    "fpc32",          "fpc32:6+lz4", "shuffle+lz4", "shuffle+zstd",
					    "bitshuffle+lz4", "delta+lz4",   "field",       "delta+bitshuffle+zstd",
					    "records:24+lz4", "records+zstd"};
	uint8_t raw[600];

	for (size_t i = 0; i < KEDGE__COUNT(texts); i++) {
		for (size_t k = 0; k < sizeof(raw); k++)
			raw[k] = (uint8_t)(k / 37 + (k % 8 == 7 ? 0x40 : k * k % 7));
		save_packed(texts[i], KEDGE_BYTES, raw, sizeof(raw));
		for (size_t k = 0; k < sizeof(raw) / 8; k++)
			kedge__put64(raw + k * 8, UINT64_C(0x3ff0000000000000) + (k * k << 38) + (k % 5 << 14));
		save_packed(texts[i], KEDGE_F64, raw, sizeof(raw));
		for (size_t k = 0; k < sizeof(raw) / 4; k++)
			kedge__put32(raw + k * 4,
				     UINT32_C(0x3f800000) + (uint32_t)(k * k << 3) + (uint32_t)(k * 7 % 5));
		save_packed(texts[i], KEDGE_F32, raw, sizeof(raw));
	}
	make_lanes();
	make_echoes();
}

static void make_shield(void)
{
	struct kedge__shield s = {.version = 7, .scheme = KEDGE__SCHEME_RS, .members = 6, .parity = 2, .self = 1};
	struct kedge__bytes b = {0};

	for (uint32_t i = 0; i < s.members; i++)
		s.at[i] = (struct kedge__shield_member){i * 3, i % 2, 100000 + i, {i, ~i}, "n1"};
	kedge__shield_measure(&s);
	FUZZ_REQUIRE(kedge__shield_encode(&s, &b, NULL) == 0);
	save_bytes("shield", "rs", &b);
	s.scheme = KEDGE__SCHEME_PARTNER;
	s.members = 2;
	s.parity = 1;
	b.count = 0;
	kedge__shield_measure(&s);
	FUZZ_REQUIRE(kedge__shield_encode(&s, &b, NULL) == 0);
	save_bytes("shield", "partner", &b);
	kedge__bytes_done(&b);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIR\n", argv[0]);
		return 2;
	}
	root = argv[1];
	mkdir(root, 0777);
	make_marker();
	make_tie();
	make_shield();
	make_tree();
	make_process();
	make_criu();
	make_stage();
	make_index();
	make_summary();
	make_regions();
	make_blocks();
	make_lineage();
	make_packing();
	make_classes();
	make_map();
	make_changes();
	make_manifest();
	make_segment();
	make_settings();
	make_codec();
	return 0;
}
