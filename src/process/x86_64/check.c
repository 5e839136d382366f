/* SPDX-License-Identifier: BSD-3-Clause */
/* check: is this machine one on which the image can become a process again? Nothing is changed. */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

__attribute__((target("xsave"))) static uint64_t xcr0(void)
{
	return _xgetbv(0);
}

/* Programs choose at their start which instructions they use. */
static int check_processor(const struct kedge__process_image *image, struct kedge__error *err)
{
	uint64_t here[KEDGE__PROCESS_FEATURES];

	kedge__cpu_features(here);
	for (size_t i = 0; i < KEDGE__PROCESS_FEATURES; i++)
		if (image->features[i] & ~here[i])
			return kedge__error_set(
			    err, KEDGE_E_MISMATCH, 0,
			    "this processor lacks instructions that the one of the image has (word %zu, bits 0x%llx)",
			    i, (unsigned long long)(image->features[i] & ~here[i]));
	if (image->xcr0 & ~xcr0())
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"this machine lacks vector registers that the one of the image has");
	return 0;
}

static int check_kernel(const struct kedge__process_image *image, struct kedge__error *err)
{
	const void *vdso = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	struct timespec now;
	char *boot;
	bool other;

	if (!vdso || memcmp(vdso, image->vdso.data, (size_t)image->vdso.bytes) != 0)
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0, "the image is of another kernel, %s", image->release);
	boot = kedge__process_boot();
	if (!boot)
		return kedge__error_nomem(err);
	other = strcmp(boot, image->boot) != 0;
	kedge__free(boot);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (other && (uint64_t)now.tv_sec < image->monotonic_ns / 1000000000u)
		kedge__log(KEDGE_LOG_WARNING,
			   "the image is of a machine that had been up for %llu s longer than this one: sleeps until a "
			   "certain "
			   "time may last that much longer",
			   (unsigned long long)(image->monotonic_ns / 1000000000u - (uint64_t)now.tv_sec));
	return 0;
}

static int check_mapped(const struct kedge__process_file *f, bool shared, struct kedge__error *err)
{
	struct kedge__process_blob id = {0};
	uint64_t bytes = 0, mtime = kedge__stat_mtime_ns(f->path, &bytes);
	bool same;
	int rc;

	if (!mtime)
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "a file that it had mapped is missing: %s", f->path);
	if (shared || (bytes == f->bytes && mtime == f->mtime_ns))
		return 0;
	rc = kedge__build_id(f->path, &id, err);
	if (rc)
		return rc;
	same = bytes == f->bytes && id.bytes && id.bytes == f->build_id.bytes &&
	       memcmp(id.data, f->build_id.data, (size_t)id.bytes) == 0;
	kedge__free(id.data);
	return same ? 0
		    : kedge__error_set(err, KEDGE_E_MISMATCH, 0, "a program or library has changed since: %s", f->path);
}

static bool is_shared(const struct kedge__process_image *image, size_t file)
{
	bool mapped = false;

	for (size_t i = 0; i < image->mappings.count; i++) {
		if (image->mappings.at[i].kind == KEDGE__MAPPING_PRIVATE_FILE && image->mappings.at[i].file == file)
			return false;
		mapped |=
		    image->mappings.at[i].kind == KEDGE__MAPPING_SHARED_FILE && image->mappings.at[i].file == file;
	}
	return mapped;
}

static int check_file(const struct kedge__process_descriptor *d, struct kedge__error *err)
{
	bool writes = (d->flags & O_ACCMODE) != O_RDONLY;
	struct stat st;

	if (d->contents || d->kind == KEDGE__DESCRIPTOR_INHERITED || d->kind > KEDGE__DESCRIPTOR_DEVICE)
		return 0;
	if (stat(d->path, &st) != 0)
		return kedge__error_set(err, KEDGE_E_MISSING, errno, "a file that it had open is missing: %s", d->path);
	if (access(d->path, (writes ? W_OK : 0) | ((d->flags & O_ACCMODE) != O_WRONLY ? R_OK : 0)) != 0)
		return kedge__error_set(err, KEDGE_E_ACCESS, errno, "a file that it had open cannot be opened: %s",
					d->path);
	if (d->kind != KEDGE__DESCRIPTOR_FILE)
		return 0;
	if (writes && (uint64_t)st.st_size < d->bytes)
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"a file that it wrote is shorter than it was, %llu bytes instead of %llu: %s",
					(unsigned long long)st.st_size, (unsigned long long)d->bytes, d->path);
	if (!writes && (uint64_t)st.st_size != d->bytes)
		kedge__log(KEDGE_LOG_WARNING, "a file that the program reads has changed since: %s", d->path);
	return 0;
}

int kedge__process_check(const struct kedge__process_image *image, struct kedge__error *err)
{
	int rc = 0;

	if (image->uid != geteuid())
		return kedge__error_set(err, KEDGE_E_ACCESS, 0,
					"the image belongs to user %llu: an image is restarted for its owner only",
					(unsigned long long)image->uid);
	rc = check_processor(image, err);
	if (!rc)
		rc = check_kernel(image, err);
	for (size_t i = 0; !rc && i < image->files.count; i++)
		rc = check_mapped(&image->files.at[i], is_shared(image, i), err);
	for (size_t i = 0; !rc && i < image->descriptors.count; i++)
		rc = check_file(&image->descriptors.at[i], err);
	if (!rc && access(image->cwd, X_OK) != 0)
		rc = kedge__error_set(err, KEDGE_E_MISSING, errno, "its directory is missing: %s", image->cwd);
	return rc;
}
