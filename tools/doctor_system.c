/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/capture.h"
#include "doctor.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FILES_WANTED 1024  /* open files: a long lineage, and rings of buffers */
#define MAPS_USUAL   65530 /* the kernel's own limit on mappings of a process */

/* ------------------------------------------------------------------ the kernel */

static void look_kernel(struct kedge__doctor *d)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	char memory[KEDGE__TEXT_ROOM], cpus[KEDGE__TEXT_ROOM];
	struct kedge__job_settings none = {.threads = 0};
	struct utsname u;

	if (uname(&u) != 0 || pages < 0)
		return;
	kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "system", NULL, "%s %s on %s, %s, %s of memory", u.sysname, u.release,
			  u.machine,
			  kedge__text_count((uint64_t)kedge__tool_threads(&none), "processor", "processors", cpus),
			  kedge__text_bytes((uint64_t)pages * (uint64_t)page, memory));
}

static bool is_wanted(const struct kedge__doctor *d, const char *kind)
{
	static const struct {
		int mode;
		const char *kind;
	} kinds[] = {
	    {KEDGE__TRACK_UFFD, "uffd"}, {KEDGE__TRACK_MPROTECT, "mprotect"}, {KEDGE__TRACK_SOFTDIRTY, "softdirty"}};

	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++)
		if (d->settings.track == kinds[i].mode && strcmp(kind, kinds[i].kind) == 0)
			return true;
	return false;
}

static void look_trackers(struct kedge__doctor *d)
{
	static const struct {
		const char *kind, *subject, *what, *todo;
	} known[] = {
	    {"uffd", "tracker uffd", "written pages are found by userfaultfd and PAGEMAP_SCAN",
	     "use Linux 6.7 or later; until then every checkpoint reads all of the memory (track = none)"},
	    {"softdirty", "tracker softdirty", "written pages are found by soft-dirty bits",
	     "nothing, unless you want it: it needs a kernel with CONFIG_MEM_SOFT_DIRTY"},
	    {"mprotect", "tracker mprotect", "written pages are found by SIGSEGV", NULL},
	};
	char device[300];

	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		int rc = kedge__tracker_probe(known[i].kind, &err);
		bool wanted = is_wanted(d, known[i].kind);
		enum kedge__symptom_level worse = i == 0 ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_NO;

		if (rc)
			kedge__doctor_add(d, wanted ? KEDGE__SYMPTOM_BAD : worse, known[i].subject,
					  wanted ? "set track = auto" : known[i].todo, "%s", kedge__error_text(&err));
		else
			kedge__doctor_add(d, KEDGE__SYMPTOM_OK, known[i].subject, NULL, "%s", known[i].what);
		kedge__error_done(&err);
	}
	if (kedge__device_find("", device, sizeof(device)))
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "tracker auto",
				  "set track = uffd if no device writes to the memory of your regions",
				  "pages are not tracked, because %s could write to memory unseen", device);
}

static void look_cow(struct kedge__doctor *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool wanted = d->settings.capture == KEDGE__CAPTURE_COW || d->settings.capture == KEDGE__CAPTURE_COW_USER;
	enum kedge__symptom_level worse = wanted ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_NO;
	bool kernel_writes = false;

	if (kedge__cow_probe(&kernel_writes, &err))
		kedge__doctor_add(d, worse, "copy-on-write", "use capture = copy, which takes memory for what changed",
				  "%s", kedge__error_text(&err));
	else if (!kernel_writes)
		kedge__doctor_add(
		    d, worse, "copy-on-write",
		    "as root: sysctl vm.unprivileged_userfaultfd=1; or capture = cow-user for programs without "
		    "such calls; until then capture = cow copies",
		    "system calls that write to held memory would fail");
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "copy-on-write", NULL, "capture = cow works");
	kedge__error_done(&err);
}

static void look_uring(struct kedge__doctor *d)
{
	int refused = kedge__fs_queue_probe();

	if (!kedge__fs_queue_built())
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "io_uring",
				  "build with liburing; until then writer = pwrite is used",
				  "this build does not have it");
	else if (refused)
		kedge__doctor_add(
		    d, KEDGE__SYMPTOM_NOTE, "io_uring",
		    "as root: sysctl kernel.io_uring_disabled=0, or allow it in the container; until then writer = "
		    "pwrite is used",
		    "the kernel refuses it: %s", strerror(refused));
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "io_uring", NULL, "writer = uring works");
}

/* ------------------------------------------------------------------ limits */

static const char *limit_text(rlim_t value, bool bytes, char buf[KEDGE__TEXT_ROOM])
{
	if (value == RLIM_INFINITY)
		return "unlimited";
	if (bytes)
		return kedge__text_bytes((uint64_t)value, buf);
	snprintf(buf, KEDGE__TEXT_ROOM, "%llu", (unsigned long long)value);
	return buf;
}

static void look_files(struct kedge__doctor *d)
{
	struct rlimit r;
	char text[KEDGE__TEXT_ROOM];

	if (getrlimit(RLIMIT_NOFILE, &r) == 0)
		kedge__doctor_add(d, r.rlim_cur < FILES_WANTED ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_OK, "open files",
				  r.rlim_cur < FILES_WANTED ? "ulimit -n 4096 in the job script" : NULL,
				  "%s (ulimit -n)", limit_text(r.rlim_cur, false, text));
	if (getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "file size",
				  "ulimit -f unlimited: a segment has all that is new of a rank",
				  "files may have at most %s (ulimit -f)", limit_text(r.rlim_cur, true, text));
}

static void look_memory(struct kedge__doctor *d)
{
	struct rlimit r;
	char text[KEDGE__TEXT_ROOM];
	bool needed = d->settings.stage && d->settings.stage[0], little;

	if (getrlimit(RLIMIT_MEMLOCK, &r) != 0)
		return;
	little = r.rlim_cur != RLIM_INFINITY && r.rlim_cur < (rlim_t)64 << 20;
	kedge__doctor_add(d, little && needed ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_OK, "locked memory",
			  little && needed ? "ulimit -l unlimited, where staging uses RDMA; over tcp it is not needed"
					   : NULL,
			  "%s (ulimit -l)", limit_text(r.rlim_cur, true, text));
}

static uint64_t number_in(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned long long n = 0;

	if (f) {
		if (fscanf(f, "%llu", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

/* Protection splits mappings, in the worst case at every page that is written. */
static void look_maps(struct kedge__doctor *d)
{
	uint64_t maps = number_in("/proc/sys/vm/max_map_count");
	bool splits = d->settings.track == KEDGE__TRACK_MPROTECT, few = maps && maps < MAPS_USUAL;

	if (maps)
		kedge__doctor_add(d, few || splits ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_OK, "mappings",
				  few || splits ? "as root: sysctl vm.max_map_count=1048576" : NULL,
				  "%llu for a process (vm.max_map_count)%s", (unsigned long long)maps,
				  splits ? "; track = mprotect may need one for every written page" : "");
}

void kedge__doctor_system(struct kedge__doctor *d)
{
	look_kernel(d);
	look_trackers(d);
	look_cow(d);
	look_uring(d);
	look_files(d);
	look_memory(d);
	look_maps(d);
}
