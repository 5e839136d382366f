/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cat_dataset: libhdf5 is looked for when it is needed, so that the command depends on none. Its calls and the values
 * of its constants are those of HDF5 1.10 and later, which did not change since (HDF5 Reference Manual: H5D, H5S, H5T).
 */
#include "base/library.h"
#include "cat.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_BYTES ((uint64_t)4 << 20)

enum {
	RDONLY = 0,
	DEFAULT = 0,
	SELECT_SET = 0,
	CLASS_REFERENCE = 7,
	CLASS_VLEN = 9,
	SPACE_NULL = 2,
	LAYOUT_VIRTUAL = 3,
	LINK_EXTERNAL = 64,
	MAX_RANK = 32
};

typedef int64_t hid;
typedef unsigned long long hsize;

struct hdf5 {
	int (*get_libversion)(unsigned *major, unsigned *minor, unsigned *release);
	int (*eset_auto)(hid stack, void *function, void *data);
	hid (*fopen)(const char *path, unsigned flags, hid access);
	hid (*dopen)(hid file, const char *name, hid access);
	hid (*get_type)(hid set);
	hid (*get_space)(hid set);
	int (*detect_class)(hid type, int class);
	int (*is_variable_str)(hid type);
	size_t (*type_size)(hid type);
	int (*link_unregister)(int class);
	hid (*get_create_plist)(hid set);
	int (*get_layout)(hid plist);
	int (*get_external_count)(hid plist);
	int (*space_class)(hid space);
	int (*ndims)(hid space);
	int (*dims)(hid space, hsize *dims, hsize *max);
	hid (*screate)(int rank, const hsize *dims, const hsize *max);
	int (*select)(hid space, int op, const hsize *start, const hsize *stride, const hsize *count,
		      const hsize *block);
	int (*dread)(hid set, hid type, hid memory, hid file, hid transfer, void *to);
	int (*sclose)(hid space);
};

struct dataset {
	struct hdf5 h;
	hid set, type, space;
	int rank;
	hsize dims[MAX_RANK];
	uint64_t row; /* bytes of one step in the first dimension */
};

/* How the process that reads ends. */
enum outcome { PRINTED, NO_LIBRARY, NO_FILE, NO_DATASET, NO_BYTES, ELSEWHERE, CANNOT_READ, CANNOT_WRITE, NO_MEMORY };

static void *open_library(void)
{
	static const char *const names[] = {"libhdf5_serial.so.103", "libhdf5.so.103",        "libhdf5.so.200",
					    "libhdf5.so.310",        "libhdf5_serial.so.310", "libhdf5.so"};
	void *library = NULL;

	for (size_t i = 0; !library && i < KEDGE__COUNT(names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static bool load(struct hdf5 *h)
{
	const struct kedge__library_call calls[] = {
	    {"H5get_libversion", &h->get_libversion},
	    {"H5Eset_auto2", &h->eset_auto},
	    {"H5Fopen", &h->fopen},
	    {"H5Dopen2", &h->dopen},
	    {"H5Dget_type", &h->get_type},
	    {"H5Dget_space", &h->get_space},
	    {"H5Tdetect_class", &h->detect_class},
	    {"H5Tis_variable_str", &h->is_variable_str},
	    {"H5Tget_size", &h->type_size},
	    {"H5Lunregister", &h->link_unregister},
	    {"H5Dget_create_plist", &h->get_create_plist},
	    {"H5Pget_layout", &h->get_layout},
	    {"H5Pget_external_count", &h->get_external_count},
	    {"H5Sget_simple_extent_type", &h->space_class},
	    {"H5Sget_simple_extent_ndims", &h->ndims},
	    {"H5Sget_simple_extent_dims", &h->dims},
	    {"H5Screate_simple", &h->screate},
	    {"H5Sselect_hyperslab", &h->select},
	    {"H5Dread", &h->dread},
	    {"H5Sclose", &h->sclose},
	};
	void *library = open_library();
	unsigned version[3];

	return library && !kedge__library_find(library, calls, KEDGE__COUNT(calls)) &&
	       h->get_libversion(&version[0], &version[1], &version[2]) >= 0 && (version[0] > 1 || version[1] >= 10);
}

/* Whether libhdf5 would read other files than this one: those that it names may be anybody's. */
static bool is_elsewhere(const struct dataset *d)
{
	hid plist = d->h.get_create_plist(d->set);

	return plist < 0 || d->h.get_layout(plist) == LAYOUT_VIRTUAL || d->h.get_external_count(plist) != 0;
}

static enum outcome open_dataset(struct dataset *d, const char *path, const char *name)
{
	hid file;

	if (!load(&d->h))
		return NO_LIBRARY;
	d->h.eset_auto(DEFAULT, NULL, NULL);
	file = d->h.fopen(path, RDONLY, DEFAULT);
	if (file < 0)
		return NO_FILE;
	if (d->h.link_unregister(LINK_EXTERNAL) < 0)
		return CANNOT_READ;
	d->set = d->h.dopen(file, name, DEFAULT);
	if (d->set < 0)
		return NO_DATASET;
	d->type = d->h.get_type(d->set);
	d->space = d->h.get_space(d->set);
	d->rank = d->h.ndims(d->space);
	if (d->type < 0 || d->space < 0 || d->rank < 0 || d->rank > MAX_RANK)
		return CANNOT_READ;
	if (d->h.detect_class(d->type, CLASS_VLEN) > 0 || d->h.detect_class(d->type, CLASS_REFERENCE) > 0 ||
	    d->h.is_variable_str(d->type) > 0)
		return NO_BYTES;
	return is_elsewhere(d) ? ELSEWHERE : PRINTED;
}

/* The bytes of a row; false: there are none, or more than there can be. */
static bool measure(struct dataset *d)
{
	d->row = d->h.type_size(d->type);
	if (d->h.space_class(d->space) == SPACE_NULL) /* its rank is that of a single value */
		return false;
	if (d->rank && d->h.dims(d->space, d->dims, NULL) < 0)
		return false;
	for (int i = 1; i < d->rank; i++)
		if (!d->dims[i] || __builtin_mul_overflow(d->row, d->dims[i], &d->row))
			return false;
	return d->row && d->row <= SIZE_MAX / 2;
}

/* COUNT rows from FIRST on. */
static int read_rows(const struct dataset *d, hsize first, hsize count, void *to)
{
	hsize start[MAX_RANK] = {first}, size[MAX_RANK];
	hid memory;
	int rc;

	if (!d->rank)
		return d->h.dread(d->set, d->type, DEFAULT, DEFAULT, DEFAULT, to);
	memcpy(size, d->dims, sizeof(size));
	size[0] = count;
	memory = d->h.screate(d->rank, size, NULL);
	rc = memory < 0 ? -1 : d->h.select(d->space, SELECT_SET, start, NULL, size, NULL);
	if (rc >= 0)
		rc = d->h.dread(d->set, d->type, memory, d->space, DEFAULT, to);
	d->h.sclose(memory);
	return rc;
}

static enum outcome print(const char *path, const char *name)
{
	struct dataset d = {.dims = {1}};
	enum outcome outcome = open_dataset(&d, path, name);
	hsize rows, at_once;
	void *buffer;

	if (outcome != PRINTED || !measure(&d))
		return outcome;
	rows = d.rank ? d.dims[0] : 1;
	at_once = KEDGE__MAX(PIECE_BYTES / d.row, 1);
	buffer = kedge__malloc(KEDGE__MIN(at_once, KEDGE__MAX(rows, 1)) * d.row);
	if (!buffer)
		return NO_MEMORY;
	for (hsize at = 0; at < rows; at += at_once) {
		hsize n = KEDGE__MIN(at_once, rows - at);

		if (read_rows(&d, at, n, buffer) < 0)
			return CANNOT_READ;
		if (fwrite(buffer, d.row, n, stdout) != n)
			return CANNOT_WRITE;
	}
	return fflush(stdout) == 0 ? PRINTED : CANNOT_WRITE;
}

static int judge(int status, const char *name, const char *dataset, struct kedge__error *err)
{
	switch (WIFEXITED(status) ? (enum outcome)WEXITSTATUS(status) : CANNOT_READ) {
	case PRINTED:
		return 0;
	case NO_LIBRARY:
		return kedge__error_set(err, KEDGE_E_CODEC, 0, "there is no libhdf5, 1.10 or later, to read %s with",
					name);
	case NO_FILE:
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s is not an HDF5 file, or is damaged", name);
	case NO_DATASET:
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no dataset %s of its own", name, dataset);
	case NO_BYTES:
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"%s in %s has values of variable length, or references, which are not bytes; "
					"h5dump shows them",
					dataset, name);
	case ELSEWHERE:
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"the values of %s are in other files than %s (it is virtual, or has external "
					"storage); unpack them all, and h5dump shows it",
					dataset, name);
	case CANNOT_WRITE:
		return kedge__error_set(err, KEDGE_E_IO, 0, "cannot write to standard output");
	case NO_MEMORY:
		return kedge__error_nomem(err);
	case CANNOT_READ:
		break;
	}
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "libhdf5 cannot read %s in %s", dataset, name);
}

int kedge__cat_dataset(const char *path, const char *name, const char *dataset, struct kedge__error *err)
{
	pid_t child, parent = getpid();
	int status;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* who is killed prints no more */
		_exit(getppid() == parent ? (int)print(path, dataset) : 0);
	}
	if (child < 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot start a process");
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return kedge__error_set(err, KEDGE_E_IO, errno, "cannot wait for a process");
	return judge(status, name, dataset, err);
}
