/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of files: what is accepted is encoded again, with and without the input as what came before, and is the same. */
#include "format/format.h"
#include "fuzz.h"

static void again(const struct kedge__tree *tree, const uint8_t *before, size_t size)
{
	struct kedge__bytes b = {0};
	struct kedge__tree back;

	FUZZ_REQUIRE(kedge__tree_encode(tree, before, size, &b, NULL) == 0);
	FUZZ_REQUIRE(kedge__tree_decode(b.at, b.count, &back, NULL) == 0);
	FUZZ_REQUIRE(back.list.count == tree->list.count && back.caller == tree->caller);
	for (size_t i = 0; i < back.list.count; i++)
		FUZZ_REQUIRE(strcmp(back.list.at[i].name, tree->list.at[i].name) == 0 &&
			     kedge__tree_name_ok(back.list.at[i].name));
	kedge__tree_done(&back);
	kedge__bytes_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__tree tree;
	int rc = kedge__tree_decode(data, size, &tree, &err);

	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		return 0;
	}
	again(&tree, NULL, 0);
	again(&tree, data, size);
	kedge__tree_done(&tree);
	return 0;
}
