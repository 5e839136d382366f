/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of files. */
#include "format_samples.h"

static struct kedge__tree_entry entry(const char *name, uint8_t kind, uint64_t n)
{
	struct kedge__tree_entry e = {.name = kedge__strdup(name),
				      .kind = kind,
				      .mode = 0644,
				      .uid = 1000,
				      .gid = 100,
				      .size = n,
				      .inode = 77 + n,
				      .mtime_ns = INT64_C(1700000000123456789) + (int64_t)n,
				      .ctime_ns = INT64_C(1700000000123456999)};

	assert_non_null(e.name);
	if (kind == KEDGE__TREE_SYMLINK || kind == KEDGE__TREE_HARDLINK)
		e.target = kedge__strdup("a/file");
	return e;
}

static void tree_add(struct kedge__tree *t, struct kedge__tree_entry e)
{
	assert_true(kedge__array_push(&t->list, e));
}

/* One of each kind, and COUNT files. */
static void make_tree(struct kedge__tree *t, size_t count)
{
	static const char attribute[] = {4, 0, 2, 0, 0, 0, 'u', '.', 'x', 'y', 'v', 0};
	char name[64];

	*t = (struct kedge__tree){.caller = 12};
	tree_add(t, entry("a", KEDGE__TREE_DIRECTORY, 0));
	tree_add(t, entry("a/file", KEDGE__TREE_FILE, 5));
	tree_add(t, entry("b", KEDGE__TREE_HARDLINK, 0));
	tree_add(t, entry("c", KEDGE__TREE_SYMLINK, 0));
	tree_add(t, entry("d", KEDGE__TREE_FIFO, 0));
	tree_add(t, entry("e", KEDGE__TREE_BLOCK, 0x801));
	tree_add(t, entry("\xff\n", KEDGE__TREE_FILE, 0));
	t->list.at[1].xattrs = kedge__malloc(sizeof(attribute));
	memcpy(t->list.at[1].xattrs, attribute, sizeof(attribute));
	t->list.at[1].xattr_bytes = sizeof(attribute);
	t->list.at[1].flags = KEDGE__TREE_SPARSE;
	t->list.at[3].mtime_ns = -500000000;
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "many/%05zu", i);
		tree_add(t, entry(name, KEDGE__TREE_FILE, i));
	}
	kedge__tree_sort(t);
}

static void trees_equal(const struct kedge__tree *a, const struct kedge__tree *b)
{
	assert_int_equal(a->list.count, b->list.count);
	assert_int_equal(a->caller, b->caller);
	for (size_t i = 0; i < a->list.count; i++) {
		const struct kedge__tree_entry *x = &a->list.at[i], *y = &b->list.at[i];

		assert_string_equal(x->name, y->name);
		assert_true(x->target ? y->target && strcmp(x->target, y->target) == 0 : !y->target);
		assert_int_equal(x->xattr_bytes, y->xattr_bytes);
		if (x->xattr_bytes)
			assert_memory_equal(x->xattrs, y->xattrs, x->xattr_bytes);
		assert_true(x->kind == y->kind && x->flags == y->flags && x->mode == y->mode && x->uid == y->uid &&
			    x->gid == y->gid && x->size == y->size && x->inode == y->inode &&
			    x->mtime_ns == y->mtime_ns && x->ctime_ns == y->ctime_ns);
	}
}

static void encode(const struct kedge__tree *t, const struct kedge__bytes *before, struct kedge__bytes *out)
{
	struct kedge__tree back;

	assert_int_equal(kedge__tree_encode(t, before ? before->at : NULL, before ? before->count : 0, out, NULL), 0);
	assert_int_equal(kedge__tree_decode(out->at, out->count, &back, NULL), 0);
	trees_equal(t, &back);
	kedge__tree_done(&back);
}

static size_t bytes_that_differ(const struct kedge__bytes *a, const struct kedge__bytes *b)
{
	size_t n = a->count < b->count ? a->count : b->count, different = a->count + b->count - 2 * n;

	for (size_t i = 0; i < n; i++)
		different += a->at[i] != b->at[i];
	return different;
}

static void test_round_trip(void **state)
{
	struct kedge__bytes b = {0};
	struct kedge__tree t;

	(void)state;
	make_tree(&t, 20);
	encode(&t, NULL, &b);
	assert_non_null(kedge__tree_find(&t, "many/00003"));
	assert_null(kedge__tree_find(&t, "many/0000"));
	kedge__tree_done(&t);
	kedge__bytes_done(&b);
	t = (struct kedge__tree){0};
	encode(&t, NULL, &b);
	kedge__bytes_done(&b);
}

/* Who does not know of plain forms must not take one for the file: such a tree has another version, and others have no
 * such file. */
static void test_plain_forms(void **state)
{
	struct kedge__bytes b = {0};
	struct kedge__tree t, back;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	make_tree(&t, 3);
	encode(&t, NULL, &b);
	assert_int_equal(kedge__get16(b.at + 8), 1);
	t.list.at[1].flags |= KEDGE__TREE_PLAIN;
	b.count = 0;
	encode(&t, NULL, &b);
	assert_int_equal(kedge__get16(b.at + 8), 2);
	kedge__put16(b.at + 8, 1);
	assert_int_equal(kedge__tree_decode(b.at, b.count, &back, NULL), KEDGE_E_DAMAGED);
	kedge__put16(b.at + 8, 3);
	assert_int_equal(kedge__tree_decode(b.at, b.count, &back, &err), KEDGE_E_FORMAT);
	assert_string_equal(kedge__error_text(&err), "the tree of files has format 3, but this build reads 1 and 2");
	kedge__error_done(&err);
	t.list.at[1].flags &= ~KEDGE__TREE_PLAIN;
	t.list.at[0].flags |= KEDGE__TREE_PLAIN; /* a directory */
	b.count = 0;
	assert_int_equal(kedge__tree_encode(&t, NULL, 0, &b, NULL), 0);
	assert_int_equal(kedge__tree_decode(b.at, b.count, &back, NULL), KEDGE_E_DAMAGED);
	kedge__tree_done(&t);
	kedge__bytes_done(&b);
}

/* What is the same stays where it was: whatever comes and goes, little of the tree differs. */
static void test_places_stay(void **state)
{
	struct kedge__bytes one = {0}, two = {0}, three = {0};
	struct kedge__tree t;

	(void)state;
	make_tree(&t, 1000);
	encode(&t, NULL, &one);
	tree_add(&t, entry("a/new", KEDGE__TREE_FILE, 1));
	tree_add(&t, entry("many/00500x", KEDGE__TREE_FILE, 1));
	kedge__tree_sort(&t);
	kedge__tree_entry_done(&t.list.at[20]);
	t.list.at[20] = entry("many/99999", KEDGE__TREE_FILE, 3);
	kedge__tree_sort(&t);
	t.list.at[30].mtime_ns++;
	t.list.at[30].mode = 0600;
	encode(&t, &one, &two);
	assert_true(bytes_that_differ(&one, &two) < 400);

	/* A few are left: there are no gaps for ever. */
	while (t.list.count > 10)
		kedge__tree_entry_done(&t.list.at[--t.list.count]);
	encode(&t, &two, &three);
	assert_true(three.count < 2000);

	/* What was there before may be anything. */
	two.at[40] ^= 0xff;
	three.count = 0;
	encode(&t, &two, &three);
	kedge__tree_done(&t);
	kedge__bytes_done(&one);
	kedge__bytes_done(&two);
	kedge__bytes_done(&three);
}

static void refused(const struct kedge__tree *t)
{
	struct kedge__bytes b = {0};
	struct kedge__tree back;

	assert_int_equal(kedge__tree_encode(t, NULL, 0, &b, NULL), 0);
	assert_int_equal(kedge__tree_decode(b.at, b.count, &back, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_names_stay_below(void **state)
{
	static const char *const bad[] = {"", "/etc", "..", "a/../b", "./a", "a//b", "a/", "a/.", "../a"};
	static const char *const good[] = {"a", "a/b", "...", "a/..b", ".a", "a/b..", "-"};
	struct kedge__tree t = {0};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(good); i++)
		assert_true(kedge__tree_name_ok(good[i]));
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++) {
		assert_false(kedge__tree_name_ok(bad[i]));
		tree_add(&t, entry(bad[i], KEDGE__TREE_FILE, 1));
		refused(&t);
		kedge__tree_done(&t);
	}
	tree_add(&t, entry("a", KEDGE__TREE_HARDLINK, 1));
	kedge__free(t.list.at[0].target);
	t.list.at[0].target = kedge__strdup("../out");
	refused(&t);
	kedge__tree_done(&t);
	tree_add(&t, entry("twice", KEDGE__TREE_FILE, 1));
	tree_add(&t, entry("twice", KEDGE__TREE_FILE, 1));
	refused(&t);
	kedge__tree_done(&t);
}

/* Cut short anywhere, and with any byte changed: refused, or another tree, but never out of bounds. */
static void test_damage(void **state)
{
	struct kedge__bytes b = {0};
	struct kedge__tree t, back;
	uint8_t *copy;

	(void)state;
	make_tree(&t, 2);
	encode(&t, NULL, &b);
	for (size_t n = 0; n < b.count; n++) {
		copy = malloc(n + !n);
		memcpy(copy, b.at, n);
		if (kedge__tree_decode(copy, n, &back, NULL) == 0)
			kedge__tree_done(&back);
		free(copy);
	}
	for (size_t i = 0; i < b.count; i++) {
		for (int bit = 0; bit < 8; bit++) {
			b.at[i] ^= (uint8_t)(1 << bit);
			if (kedge__tree_decode(b.at, b.count, &back, NULL) == 0)
				kedge__tree_done(&back);
			b.at[i] ^= (uint8_t)(1 << bit);
		}
	}
	kedge__tree_done(&t);
	kedge__bytes_done(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_plain_forms),
	    cmocka_unit_test(test_places_stay), cmocka_unit_test(test_names_stay_below),
	    cmocka_unit_test(test_damage),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
