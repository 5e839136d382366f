/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages keep their places: against an oracle, over random moments; and an index that was stored wrong is refused. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "tool_pages.h"

#include <stddef.h>
#include <stdint.h>

#include <sys/mman.h>
#include <unistd.h>

enum { UNIVERSE = 200, MOMENTS = 60 };

/* Each page of the universe has its number in every word, so that a wrong place shows. */
static struct kedge__save_file files[2]; /* the second one has the data */

static void make_image(struct kedge__page_image *image, uint64_t *addresses, uint8_t *data, uint64_t *seed)
{
	uint64_t share = draw(seed) % 100;

	image->count = 0;
	for (uint64_t page = 0; page < UNIVERSE; page++) {
		if (draw(seed) % 100 > share)
			continue;
		for (size_t i = 0; i < KEDGE__PAGE_BYTES; i += 8)
			kedge__put64(data + image->count * KEDGE__PAGE_BYTES + i, page);
		addresses[image->count++] = page * 3 * KEDGE__PAGE_BYTES;
	}
	if (image->count == 0) {
		memset(data, 0, KEDGE__PAGE_BYTES);
		addresses[image->count++] = 0;
	}
	image->addresses = addresses;
	image->files = (struct kedge__save_files){files, 2, 2};
	assert_int_equal(pwrite(files[1].fd, data, image->count * KEDGE__PAGE_BYTES, 0),
			 image->count * KEDGE__PAGE_BYTES);
}

static void check_places(const struct kedge__page_places *before, const struct kedge__page_places *now,
			 const struct kedge__page_image *image, const uint8_t *data)
{
	uint8_t *region = NULL;
	struct kedge__page_place *sorted;
	size_t n = kedge__page_places_sorted(now, &sorted);

	assert_int_equal(kedge__page_places_fill(now, image, &region, NULL), 0);
	assert_int_equal(n, image->count);
	for (size_t i = 0; i < n; i++) {
		uint64_t address = image->addresses[i];

		assert_int_equal(sorted[i].address, address);
		assert_memory_equal(region + sorted[i].place * KEDGE__PAGE_BYTES, data + i * KEDGE__PAGE_BYTES,
				    KEDGE__PAGE_BYTES);
		for (size_t place = 0; place < before->count; place++)
			if (before->words[KEDGE__PAGES_HEAD + place] == address)
				assert_int_equal(sorted[i].place, place);
	}
	assert_true(now->words[KEDGE__PAGES_HEAD + now->count - 1] != KEDGE__PAGES_FREE);
	/* No place is added while one is free. */
	if (now->count > before->count)
		assert_int_equal(now->count, n);
	kedge__free(sorted);
	kedge__map_free(region, now->count * KEDGE__PAGE_BYTES);
}

static void test_places_stay(void **state)
{
	static uint64_t addresses[UNIVERSE];
	static uint8_t data[UNIVERSE * 4096];
	struct kedge__page_places before = {0}, now;
	struct kedge__page_image image = {0};
	uint64_t seed = 7;

	(void)state;
	files[1] = (struct kedge__save_file){.path = "data", .fd = memfd_create("data", MFD_CLOEXEC)};
	assert_true(files[1].fd >= 0);
	for (int moment = 0; moment < MOMENTS; moment++) {
		make_image(&image, addresses, data, &seed);
		kedge__page_places_next(&before, &image, &now);
		check_places(&before, &now, &image, data);
		kedge__page_places_done(&before);
		before = now;
	}
	kedge__page_places_done(&before);
}

static void refuse(uint64_t *words, uint64_t bytes, int code, const char *text)
{
	struct kedge__page_places out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__page_places_take(words, bytes, &out, &err), code);
	assert_non_null(strstr(kedge__error_text(&err), text));
	assert_null(out.words);
	kedge__error_done(&err);
}

static void test_wrong_index(void **state)
{
	uint64_t words[] = {KEDGE__PAGES_MAGIC, KEDGE__PAGE_BYTES, 0x3000, KEDGE__PAGES_FREE, 0x1000};
	struct kedge__page_places out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(kedge__page_places_take(words, sizeof(words), &out, &err), 0);
	assert_ptr_equal(out.words, words);
	assert_int_equal(out.count, 3);
	refuse(words, sizeof(words) - 1, KEDGE_E_DAMAGED, "not a page index");
	refuse(words, 8, KEDGE_E_DAMAGED, "not a page index");
	words[2] = 0x1000;
	refuse(words, sizeof(words), KEDGE_E_DAMAGED, "page 0x1000 is listed twice");
	words[2] = 0x1800;
	refuse(words, sizeof(words), KEDGE_E_DAMAGED, "page 0x1800 is not aligned");
	words[1] = 16384;
	refuse(words, sizeof(words), KEDGE_E_FORMAT, "pages of 16384 bytes");
	words[0]++;
	refuse(words, sizeof(words), KEDGE_E_DAMAGED, "not a page index");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_places_stay),
	    cmocka_unit_test(test_wrong_index),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
