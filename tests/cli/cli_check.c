/* SPDX-License-Identifier: BSD-3-Clause */
/* cli_check: what the command's tests need and a shell has not: JSON values, XML balance, reproducible bytes, talk to a
 * port. */
#include "../lib/damage.h"
#include "../lib/draw.h"
#include "../lib/files.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int print_value(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		return puts(json_string_value(v)) < 0;
	case JSON_ARRAY:
		return printf("%zu\n", json_array_size(v)) < 0;
	case JSON_OBJECT:
		return printf("%zu\n", json_object_size(v)) < 0;
	default:
		return json_dumpf(v, stdout, JSON_ENCODE_ANY) != 0 || puts("") < 0;
	}
}

/* Follow "a.0.b"; arrays and objects print their size. */
static int json_get(const char *file, char *path)
{
	json_error_t error;
	json_t *root = json_load_file(file, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error), *v = root;
	int rc;

	if (!root) {
		fprintf(stderr, "%s:%d: %s\n", file, error.line, error.text);
		return 1;
	}
	for (char *word = strtok(path, "."); word && v; word = strtok(NULL, "."))
		v = json_is_array(v) ? json_array_get(v, strtoul(word, NULL, 10)) : json_object_get(v, word);
	rc = v ? print_value(v) : 1;
	json_decref(root);
	return rc;
}

/* One tag from P ('<') on: its end, or NULL. *DEPTH and NAMES keep the open elements. */
static const char *xml_tag(const char *p, char names[][64], int *depth)
{
	const char *end = strchr(p, '>'), *name = p + 1 + (p[1] == '/');
	size_t n = strcspn(name, " \t\n/>");

	if (!end || n == 0 || n >= 64)
		return NULL;
	if (p[1] == '?' || end[-1] == '/')
		return end + 1;
	if (p[1] == '/')
		return --*depth >= 0 && strlen(names[*depth]) == n && memcmp(names[*depth], name, n) == 0 ? end + 1
													  : NULL;
	if (*depth == 32)
		return NULL;
	snprintf(names[(*depth)++], 64, "%.*s", (int)n, name);
	return end + 1;
}

/* Well-formed as far as our own drawings go: balanced tags, known entities, no stray '<' or control characters. */
static int xml_check(const char *file)
{
	size_t bytes;
	char *text = (char *)file_read(file, &bytes), names[32][64];
	const char *p = text;
	int depth = 0, elements = 0;

	while (p && *p) {
		if (*p == '<') {
			elements++;
			p = xml_tag(p, names, &depth);
		} else if (*p == '&') {
			p = strncmp(p, "&amp;", 5) && strncmp(p, "&lt;", 4) && strncmp(p, "&gt;", 4) &&
				    strncmp(p, "&quot;", 6)
				? NULL
				: p + 1;
		} else {
			p = iscntrl((unsigned char)*p) && *p != '\n' ? NULL : p + 1;
		}
	}
	free(text);
	return !(p && depth == 0 && elements > 2);
}

static int random_file(const char *file, size_t kib, uint64_t seed)
{
	uint8_t *data = malloc(kib * 1024 + 1);

	REQUIRE(data);
	fill_random(data, kib * 1024, seed);
	file_write(file, data, kib * 1024);
	free(data);
	return 0;
}

static int flip_byte(const char *file, uint64_t offset)
{
	file_flip(file, offset, 0x40);
	return 0;
}

/* Send standard input to PORT of this host as it is, and print what comes back. */
static int talk(const char *port)
{
	struct sockaddr_in to = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char text[65536];
	ssize_t n;

	signal(SIGPIPE, SIG_IGN);
	REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	while ((n = read(STDIN_FILENO, text, sizeof(text))) > 0 && write(fd, text, (size_t)n) == n)
		;
	while ((n = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stdout);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "talk") == 0)
		return talk(argv[2]);
	if (argc == 4 && strcmp(argv[1], "json") == 0)
		return json_get(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "xml") == 0)
		return xml_check(argv[2]);
	if (argc == 5 && strcmp(argv[1], "random") == 0)
		return random_file(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "flip") == 0)
		return flip_byte(argv[2], strtoull(argv[3], NULL, 10));
	return 2;
}
