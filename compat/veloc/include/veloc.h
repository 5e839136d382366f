/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * veloc.h: VELOC's C interface, with Kedge behind it (docs/guide/from-veloc.md).
 *
 * All functions return VELOC_SUCCESS or VELOC_FAILURE unless said otherwise, and never end the process. Those marked
 * collective are called by all ranks of the communicator, in the same order.
 */
#ifndef VELOC_H
#define VELOC_H

#include <mpi.h>
#include <string.h>

#include "veloc/defs.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VELOC_API __attribute__((visibility("default")))
#else
#define VELOC_API
#endif

/* Collective. CFG_FILE may be NULL or empty: then VELOC_* variables must say everything. A second call changes nothing. */
VELOC_API int VELOC_Init(MPI_Comm comm, const char *cfg_file);
/* One process for itself, known by ID. */
VELOC_API int VELOC_Init_single(unsigned int id, const char *cfg_file);
/* Collective. Waits until everything is where it belongs; tells how that ended unless CLEANUP is 0. */
VELOC_API int VELOC_Finalize(int cleanup);

/* A region of COUNT elements of BASE_SIZE bytes. An ID that is known gets the new place, and VELOC_FAILURE. */
VELOC_API int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
VELOC_API int VELOC_Mem_unprotect(int id);
VELOC_API int VELOC_Mem_clear(void);
/* The same in the group of regions that checkpoints called NAME are made of. */
VELOC_API int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
VELOC_API int VELOC_Region_unprotect(int id, const char *name);
VELOC_API int VELOC_Region_clear(const char *name);

/* Where to write, or after VELOC_Restart_begin() to read, this rank's file; ROUTED has room for VELOC_MAX_NAME bytes. */
VELOC_API int VELOC_Route_file(const char *original, char *routed);
/* Remove what scratch has of NAME, of this job and of no other. */
VELOC_API int VELOC_Cleanup(const char *name);

/* All collective. NAME is made of letters, digits, '_' and '.'; VERSION is not negative. */
VELOC_API int VELOC_Checkpoint(const char *name, int version);
VELOC_API int VELOC_Checkpoint_begin(const char *name, int version);
VELOC_API int VELOC_Checkpoint_mem(void);
VELOC_API int VELOC_Checkpoint_selective(int mode, int *ids, int id_count);
VELOC_API int VELOC_Checkpoint_end(int success);
VELOC_API int VELOC_Checkpoint_wait(void);
/* Not collective. VELOC_SUCCESS: nothing is on its way any more; VELOC_FAILURE: something is. */
VELOC_API int VELOC_Checkpoint_finished(void);

/*
 * Collective. The newest version up to VERSION (0: of all) that is complete on all ranks, and of which nobody has
 * changed anything: files that were changed since they were sealed are read and checked. VELOC_IGNORED: there is none.
 */
VELOC_API int VELOC_Restart_test(const char *name, int version);
/* Collective. Every byte is checked. If it fails because of damage, VELOC_Restart_test() does not return VERSION again. */
VELOC_API int VELOC_Restart(const char *name, int version);
VELOC_API int VELOC_Restart_begin(const char *name, int version);
VELOC_API int VELOC_Restart_end(int success);
/* Bytes stored of region ID; 0: none, INT_MAX: that many or more. */
VELOC_API int VELOC_Recover_size(int id);
VELOC_API int VELOC_Recover_mem(void);
VELOC_API int VELOC_Recover_selective(int mode, int *ids, int id_count);

#ifdef __cplusplus
}
#endif
#endif
