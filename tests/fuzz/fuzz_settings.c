/* SPDX-License-Identifier: BSD-3-Clause */
/* A settings file: either it is refused with its name in the message, or what it sets can be written and read again. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

struct settings {
	char *text;
	bool flag;
	int64_t number;
	uint64_t size;
	double real;
	int choice;
};

static const char *const words[] = {"full", "basic", "list", "tree", NULL};

static const struct kedge__setting table[] = {
    {"text", KEDGE__SETTING_STRING, offsetof(struct settings, text), "none", 0, 0, NULL, false, "Any text."},
    {"flag", KEDGE__SETTING_BOOL, offsetof(struct settings, flag), "no", 0, 0, NULL, false, "Yes or no."},
    {"number", KEDGE__SETTING_INT, offsetof(struct settings, number), "1", -10, 1000, NULL, false, "A number."},
    {"size", KEDGE__SETTING_SIZE, offsetof(struct settings, size), "64k", 32, 1e15, NULL, false, "Bytes."},
    {"real", KEDGE__SETTING_REAL, offsetof(struct settings, real), "0.5", 0, 1e9, NULL, false, "A real number."},
    {"choice", KEDGE__SETTING_CHOICE, offsetof(struct settings, choice), "tree", 0, 0, words, false, "A word."},
};

static void require_readable(const struct settings *s)
{
	struct settings again;
	const struct kedge__settings in = {table, KEDGE__COUNT(table), &again, NULL};

	FUZZ_REQUIRE(kedge__settings_init(table, KEDGE__COUNT(table), &again, NULL) == 0);
	for (size_t i = 0; i < KEDGE__COUNT(table); i++) {
		char *value = kedge__settings_format(&table[i], s);

		FUZZ_REQUIRE(value);
		FUZZ_REQUIRE(strchr(value, '$') || /* a text that says $$ */
			     kedge__settings_set(&in, table[i].key, value, KEDGE__FORM_PLAIN, "again", NULL) == 0);
		kedge__free(value);
	}
	FUZZ_REQUIRE(again.flag == s->flag && again.number == s->number && again.size == s->size);
	FUZZ_REQUIRE(again.choice == s->choice && (strchr(s->text, '$') || strcmp(again.text, s->text) == 0));
	kedge__settings_done(table, KEDGE__COUNT(table), &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct settings s;
	int fd = memfd_create("settings", MFD_CLOEXEC);
	char path[64];
	int rc;

	FUZZ_REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	FUZZ_REQUIRE(kedge__settings_init(table, KEDGE__COUNT(table), &s, NULL) == 0);
	rc = kedge__settings_load_file(&(struct kedge__settings){table, KEDGE__COUNT(table), &s, NULL}, path, &err);
	if (rc == 0) {
		require_readable(&s);
	} else {
		FUZZ_REQUIRE(strstr(kedge__error_text(&err), path));
		fuzz_require_cause(rc, &err);
	}
	kedge__settings_done(table, KEDGE__COUNT(table), &s);
	close(fd);
	return 0;
}
