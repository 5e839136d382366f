/* Between fs.c and what else issues writes: optional/uring.c. */
#ifndef KEDGE_BASE_FS_H
#define KEDGE_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>

bool kedge__fs_is_direct(int fd);
/* A direct write got EINVAL: say so, once, and go on through the page cache. */
void kedge__fs_direct_refused(int fd, const char *path);
/* What a fault lets through of a write of BYTES if it means PART: of a direct write whole blocks, as it takes no others. */
size_t kedge__fs_fault_part(bool direct, size_t bytes, size_t part);

#endif
