/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe: whether pages can be tracked here, tried out on a page of this process. Some kernels up to 6.12 leave a page
 * protected that is moved elsewhere, where it was never copied.
 */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many pages of the mapping AT, of one page, count as written; -1: cannot be asked. */
static int count_written(struct kedge__process_tracker *k, void *at)
{
	struct kedge__process_mapping m = {.start = (uint64_t)(uintptr_t)at,
					   .end = (uint64_t)(uintptr_t)at + KEDGE__PAGE_BYTES,
					   .kind = KEDGE__MAPPING_ANONYMOUS,
					   .name = (char *)""};
	struct kedge__process_image image = {.mappings = {&m, 1, 1}};
	struct kedge__target self = {.pid = getpid()};
	struct kedge__survey s = {0};
	int n = -1;

	if (kedge__tracker_watch(k, &image, NULL) == 0 && k->watched.count == 1 &&
	    kedge__target_survey(&self, &image, k, false, &s, NULL) == 0)
		n = (int)kedge__range_pages(&s.dirty);
	k->all = false;
	kedge__survey_done(&s);
	return n;
}

static const char *try_out(struct kedge__process_tracker *k, volatile uint8_t *page, void *elsewhere)
{
	page[0] = 1;
	if (count_written(k, (void *)page) != 1 || count_written(k, (void *)page) != 0)
		return "this kernel does not say which pages were written (it is older than Linux 6.7)";
	page[0] = 2;
	if (count_written(k, (void *)page) != 1)
		return "this kernel does not say rightly which pages were written";
	if (mremap((void *)page, KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) !=
	    elsewhere)
		return "memory cannot be moved";
	if (count_written(k, elsewhere) != 1)
		return "this kernel does not say which pages were moved (it is older than Linux 6.13)";
	return NULL;
}

const char *kedge__tracker_probe_kernel(void)
{
	struct kedge__process_tracker k = {.userfault = -1, .all = true, .least = 1};
	void *page = kedge__map_alloc(KEDGE__PAGE_BYTES), *elsewhere = kedge__map_alloc(KEDGE__PAGE_BYTES);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | KEDGE__USER_MODE_ONLY);
	const char *why = NULL;

	if (!page || !elsewhere)
		why = "there is no memory";
	else if (fd < 0)
		why = "userfaultfd is not allowed, or this kernel has none";
	else if (!kedge__tracker_set_up(&k, fd))
		why = "this kernel cannot protect pages without stopping the program (it is older than Linux 6.7)";
	else
		why = try_out(&k, page, elsewhere);
	kedge__map_free(page, KEDGE__PAGE_BYTES);
	kedge__map_free(elsewhere, KEDGE__PAGE_BYTES);
	kedge__tracker_end(&k);
	kedge__array_done(&k.watched);
	kedge__array_done(&k.missed);
	return why;
}
