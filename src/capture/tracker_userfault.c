/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* System calls may write to protected memory only where the kernel lets us take its own faults. */
static int open_descriptor(bool *kernel_writes)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int device;

	*kernel_writes = true;
	if (fd >= 0)
		return fd;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device >= 0) {
		fd = ioctl(device, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
		close(device);
		if (fd >= 0)
			return fd;
	}
	*kernel_writes = false;
	return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | KEDGE__UFFD_USER_MODE_ONLY);
}

int kedge__userfault_open(uint64_t features, int *out, bool *kernel_writes, struct kedge__error *err)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	bool taken;
	int fd = open_descriptor(&taken);
	int saved;

	if (fd < 0 && errno == ENOSYS)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "this kernel does not support userfaultfd");
	if (fd < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "this process may not use userfaultfd");
	if (ioctl(fd, UFFDIO_API, &api) == 0) {
		*out = fd;
		*kernel_writes = taken;
		return 0;
	}
	saved = errno;
	close(fd);
	return kedge__error_set(err, KEDGE_E_STATE, saved,
				"userfaultfd lacks features 0x%llx, which Linux 6.7 and later have",
				(unsigned long long)features);
}

int kedge__userfault_register(int fd, uintptr_t begin, uintptr_t end, struct kedge__error *err)
{
	struct uffdio_register arg = {.range = {begin, end - begin}, .mode = UFFDIO_REGISTER_MODE_WP};

	if (ioctl(fd, UFFDIO_REGISTER, &arg) == 0)
		return 0;
	return kedge__error_set(err, errno == ENOMEM ? KEDGE_E_NOMEM : KEDGE_E_STATE, errno,
				"the kernel cannot watch memory at 0x%zx", (size_t)begin);
}

int kedge__userfault_unregister(int fd, uintptr_t begin, uintptr_t end, struct kedge__error *err)
{
	struct uffdio_range arg = {begin, end - begin};

	if (ioctl(fd, UFFDIO_UNREGISTER, &arg) == 0)
		return 0;
	return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot stop watching memory at 0x%zx", (size_t)begin);
}

int kedge__userfault_protect(int fd, uintptr_t begin, uintptr_t end, bool protect, struct kedge__error *err)
{
	struct uffdio_writeprotect arg = {.range = {begin, end - begin},
					  .mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

	/* EAGAIN: the process's mappings are changing under us, try again. */
	while (ioctl(fd, UFFDIO_WRITEPROTECT, &arg) != 0) {
		if (errno != EAGAIN && errno != EINTR)
			return kedge__error_set(err, errno == ENOENT ? KEDGE_E_NOTFOUND : KEDGE_E_STATE, errno,
						"cannot %s memory at 0x%zx", protect ? "protect" : "unprotect",
						(size_t)begin);
	}
	return 0;
}
