/* SPDX-License-Identifier: BSD-3-Clause */
/* proc: what /proc and the processor say. */
#include "process/target.h"

#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILD_ID_MOST 64

static int slurp(const char *path, char **text, size_t *bytes, struct kedge__error *err)
{
	KEDGE__ARRAY(char) all = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;

	if (fd < 0)
		return kedge__error_set(err, errno == ENOENT || errno == ESRCH ? KEDGE_E_STATE : KEDGE_E_ACCESS, errno,
					"cannot open %s", path);
	do {
		if (!kedge__array_reserve(&all, all.count + 4096)) {
			close(fd);
			kedge__array_done(&all);
			return kedge__error_nomem(err);
		}
		got = read(fd, all.at + all.count, all.room - all.count - 1);
		if (got > 0)
			all.count += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0) {
		kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read %s", path);
		close(fd);
		kedge__array_done(&all);
		return KEDGE_E_STATE;
	}
	close(fd);
	all.at[all.count] = '\0';
	*text = all.at;
	if (bytes)
		*bytes = all.count;
	return 0;
}

int kedge__proc_read(pid_t pid, const char *name, char **text, size_t *bytes, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return slurp(path, text, bytes, err);
}

const char *kedge__proc_field(const char *status, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			return line + n + 1 + strspn(line + n + 1, " \t");
	}
	return NULL;
}

int kedge__proc_link(pid_t pid, const char *name, char **target, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM], buf[4352];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = readlink(path, buf, sizeof(buf) - 1);
	if (n < 0 || n == (ssize_t)sizeof(buf) - 1)
		return kedge__error_set(err, KEDGE_E_STATE, n < 0 ? errno : ENAMETOOLONG, "cannot read %s", path);
	buf[n] = '\0';
	*target = kedge__strdup(buf);
	return *target ? 0 : kedge__error_nomem(err);
}

static int by_number(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

int kedge__proc_numbers(pid_t pid, const char *name, kedge__proc_each *each, void *ctx, struct kedge__error *err)
{
	KEDGE__ARRAY(unsigned long) all = {0};
	char path[KEDGE__PATH_ROOM];
	struct dirent *entry;
	int rc = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	dir = opendir(path);
	if (!dir)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot list %s", path);
	while (!rc && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && !kedge__array_push(&all, strtoul(entry->d_name, NULL, 10)))
			rc = kedge__error_nomem(err);
	closedir(dir);
	if (all.count)
		qsort(all.at, all.count, sizeof(*all.at), by_number);
	for (size_t i = 0; !rc && i < all.count; i++)
		rc = each(ctx, all.at[i], err);
	kedge__array_done(&all);
	return rc;
}

uint64_t kedge__process_started(pid_t pid)
{
	unsigned long long started = 0;
	const char *after;
	char *text;

	if (pid <= 0 || kedge__proc_read(pid, "stat", &text, NULL, NULL) != 0)
		return 0;
	after = strrchr(text, ')');
	if (!after ||
	    sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &started) != 1)
		started = 0;
	if (after && after[2] == 'Z') /* it has ended, and nobody has asked how */
		started = 0;
	kedge__free(text);
	return started;
}

char *kedge__process_boot(void)
{
	char *text;

	if (slurp("/proc/sys/kernel/random/boot_id", &text, NULL, NULL) != 0)
		return kedge__strdup("");
	text[strcspn(text, "\n")] = '\0';
	return text;
}

uint64_t kedge__stat_mtime_ns(const char *path, uint64_t *bytes)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return 0;
	*bytes = (uint64_t)st.st_size;
	return (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

bool kedge__blob_set(struct kedge__process_blob *b, const void *data, size_t bytes)
{
	uint8_t *copy = kedge__malloc(bytes + 1);

	if (!copy)
		return false;
	if (bytes)
		memcpy(copy, data, bytes);
	kedge__free(b->data);
	*b = (struct kedge__process_blob){copy, bytes};
	return true;
}

/* In the notes of a segment. */
static bool note_find(const uint8_t *at, size_t left, const uint8_t **id, size_t *bytes)
{
	while (left >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr head;
		size_t name, whole;

		memcpy(&head, at, sizeof(head));
		name = sizeof(head) + ((size_t)head.n_namesz + 3) / 4 * 4;
		whole = name + ((size_t)head.n_descsz + 3) / 4 * 4;
		if (whole > left)
			return false;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(at + sizeof(head), "GNU", 4) == 0) {
			*id = at + name;
			*bytes = head.n_descsz;
			return head.n_descsz > 0 && head.n_descsz <= BUILD_ID_MOST;
		}
		at += whole;
		left -= whole;
	}
	return false;
}

static bool read_notes(int fd, const Elf64_Phdr *segment, struct kedge__process_blob *out, bool *no_memory)
{
	uint8_t notes[4096];
	const uint8_t *id;
	size_t bytes;
	ssize_t got = pread(fd, notes, KEDGE__MIN(sizeof(notes), segment->p_filesz), (off_t)segment->p_offset);

	if (got <= 0 || !note_find(notes, (size_t)got, &id, &bytes))
		return false;
	*no_memory = !kedge__blob_set(out, id, bytes);
	return true;
}

int kedge__build_id(const char *path, struct kedge__process_blob *out, struct kedge__error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool no_memory = false;
	Elf64_Ehdr head;

	*out = (struct kedge__process_blob){0};
	if (fd < 0)
		return 0;
	if (pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
	    head.e_phentsize == sizeof(Elf64_Phdr)) {
		for (unsigned i = 0; i < head.e_phnum; i++) {
			Elf64_Phdr segment;

			if (pread(fd, &segment, sizeof(segment), (off_t)(head.e_phoff + i * sizeof(segment))) !=
			    (ssize_t)sizeof(segment))
				break;
			if (segment.p_type == PT_NOTE && read_notes(fd, &segment, out, &no_memory))
				break;
		}
	}
	close(fd);
	return no_memory ? kedge__error_nomem(err) : 0;
}

void kedge__cpu_features(uint64_t out[KEDGE__PROCESS_FEATURES])
{
	unsigned a, b, c, d;

	memset(out, 0, KEDGE__PROCESS_FEATURES * sizeof(*out));
	if (__get_cpuid(1, &a, &b, &c, &d))
		out[0] = c, out[1] = d;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		out[2] = b, out[3] = c, out[4] = d;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		out[5] = c, out[6] = d;
}
