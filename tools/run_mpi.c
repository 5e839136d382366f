/* SPDX-License-Identifier: BSD-3-Clause */
/* run_mpi: MPI programs cannot be captured from outside, and are refused before anything is started. */
#include "run_transparent.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ------------------------------------------------------------------ what a program is linked with */

struct elf {
	const uint8_t *data;
	size_t bytes;
	Elf64_Ehdr head;
};

/* BYTES bytes at AT of the file, into TO. */
static bool elf_get(const struct elf *e, uint64_t at, void *to, size_t bytes)
{
	if (at > e->bytes || bytes > e->bytes - at)
		return false;
	memcpy(to, e->data + at, bytes);
	return true;
}

static bool elf_segment(const struct elf *e, unsigned i, Elf64_Phdr *out)
{
	return i < e->head.e_phnum && elf_get(e, e->head.e_phoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

/* Where the file has what is at ADDRESS in memory; its end if that is nowhere. */
static uint64_t elf_place(const struct elf *e, uint64_t address)
{
	Elf64_Phdr s;

	for (unsigned i = 0; elf_segment(e, i, &s); i++)
		if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
			return s.p_offset + (address - s.p_vaddr);
	return e->bytes;
}

static bool is_mpi_library(const char *name)
{
	static const char *const begins[] = {"libmpi.so", "libmpi_", "libmpich", "libmpifort", "libmpicxx"};

	for (size_t i = 0; i < KEDGE__COUNT(begins); i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* The library of MPI that the dynamic segment names. kedge__free(). */
static char *needed_mpi(const struct elf *e, const Elf64_Phdr *dynamic)
{
	uint64_t texts = e->bytes;
	Elf64_Dyn d;

	for (uint64_t at = 0; at < dynamic->p_filesz && elf_get(e, dynamic->p_offset + at, &d, sizeof(d));
	     at += sizeof(d))
		if (d.d_tag == DT_STRTAB)
			texts = elf_place(e, d.d_un.d_ptr);
	for (uint64_t at = 0; at < dynamic->p_filesz && elf_get(e, dynamic->p_offset + at, &d, sizeof(d));
	     at += sizeof(d)) {
		const char *name = (const char *)e->data + texts + d.d_un.d_val;

		if (d.d_tag != DT_NEEDED || d.d_un.d_val >= e->bytes - texts ||
		    !memchr(name, 0, (size_t)(e->bytes - texts - d.d_un.d_val)))
			continue;
		if (is_mpi_library(name))
			return kedge__strdup(name);
	}
	return NULL;
}

static char *linked_mpi(const struct elf *e)
{
	Elf64_Phdr s;

	if (memcmp(e->head.e_ident, ELFMAG, SELFMAG) != 0 || e->head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->head.e_phentsize != sizeof(s))
		return NULL;
	for (unsigned i = 0; elf_segment(e, i, &s); i++)
		if (s.p_type == PT_DYNAMIC)
			return needed_mpi(e, &s);
	return NULL;
}

static char *mpi_of_file(const char *path)
{
	struct elf e = {0};
	struct stat st;
	char *found = NULL;
	int fd;

	if (kedge__fs_open_read(path, &fd, NULL) != 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(e.head)) {
		void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

		if (data != MAP_FAILED) {
			e.data = data;
			e.bytes = (size_t)st.st_size;
			memcpy(&e.head, data, sizeof(e.head));
			found = linked_mpi(&e);
			munmap(data, e.bytes);
		}
	}
	kedge__fs_close(fd);
	return found;
}

/* As execvp() looks for it. kedge__free(); NULL: nowhere. */
static char *program_path(const char *command)
{
	const char *list = getenv("PATH");

	if (strchr(command, '/'))
		return kedge__strdup(command);
	while (list && *list) {
		size_t n = strcspn(list, ":");
		char *path = kedge__asprintf("%.*s/%s", (int)n, list, command);

		if (path && access(path, X_OK) == 0)
			return path;
		kedge__free(path);
		list += n + (list[n] == ':');
	}
	return NULL;
}

/* ------------------------------------------------------------------ the command */

static bool is_launcher(const char *command)
{
	static const char *const names[] = {"mpirun",  "mpiexec", "mpiexec.hydra", "orterun",
					    "prterun", "srun",    "aprun",         "jsrun"};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (strcmp(base_of(command), names[i]) == 0)
			return true;
	return false;
}

/* The variable that says that this is one of several ranks, or NULL. */
static const char *rank_variable(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (getenv(names[i]) && atoi(getenv(names[i])) > 1)
			return names[i];
	return NULL;
}

#define ADVICE                                                                                                         \
	"which cannot be captured from outside: protect its arrays with the library (kedge_mpi.h), and run it "        \
	"without --transparent"

bool kedge__run_refuse_mpi(char *const *command, const struct kedge__usage *usage, int *status)
{
	const char *variable = rank_variable();
	char *path = program_path(command[0]), *library = path ? mpi_of_file(path) : NULL;

	*status = 0;
	kedge__free(path);
	if (is_launcher(command[0]))
		*status = kedge__usage_error(usage, "%s starts the processes of an MPI program, " ADVICE, command[0]);
	else if (library)
		*status = kedge__usage_error(usage, "%s is an MPI program (%s), " ADVICE, command[0], library);
	else if (variable)
		*status = kedge__usage_error(usage, "this is one of %s processes of an MPI program (%s), " ADVICE,
					     getenv(variable), variable);
	kedge__free(library);
	return *status != 0;
}
