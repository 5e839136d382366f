/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section REGN as a difference to a table that is given; the first byte says how many of its regions there are. What fits and
 * decodes can be taken apart again.
 */
#include "format/format.h"
#include "fuzz.h"

static const struct kedge__region_record base[] = {
    {.name = (char *)"a", .slot = 0, .bytes = 640},
    {.name = (char *)"b", .slot = 1, .bytes = 0, .type = KEDGE_F64},
    {.name = (char *)"long name", .slot = 7, .bytes = 1000, .ndims = 2, .dims = {10, 100}},
    {.name = (char *)"z", .slot = 1048570, .bytes = KEDGE__REGION_BYTES_MAX},
};

static void take_apart(const struct kedge__bytes *from, const struct kedge__bytes *to)
{
	struct kedge__bytes difference = {0}, again = {0};

	FUZZ_REQUIRE(kedge__regions_subtract(from->at, from->count, to->at, to->count, &difference, NULL) == 0);
	FUZZ_REQUIRE(kedge__regions_apply(from->at, from->count, difference.at, difference.count, &again, NULL) == 0);
	FUZZ_REQUIRE(again.count == to->count && memcmp(again.at, to->at, to->count) == 0);
	kedge__bytes_done(&difference);
	kedge__bytes_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__bytes table = {0}, out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__region_record *r = NULL;
	size_t n = 0;
	int rc;

	if (size < 1)
		return 0;
	FUZZ_REQUIRE(kedge__regions_encode(base, data[0] % (KEDGE__COUNT(base) + 1), &table, NULL) == 0);
	rc = kedge__regions_apply(table.at, table.count, data + 1, size - 1, &out, &err);
	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(out.count == 0);
	} else if (kedge__regions_decode(out.at, out.count, &r, &n, NULL, NULL) == 0) {
		take_apart(&table, &out);
		take_apart(&out, &table);
		kedge__regions_free(r, n);
	}
	kedge__bytes_done(&table);
	kedge__bytes_done(&out);
	return 0;
}
