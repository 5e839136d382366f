/*
 * kedge_mpi.h: the job handle of kedge.h, opened on an MPI communicator (link with -lkedge-mpi).
 *
 * A version is then a set: complete only when every rank has sealed its part, and restart picks
 * the newest set that is complete and intact on all ranks. kedge_checkpoint(), kedge_wait(),
 * kedge_restart() and kedge_close() become collective over COMM. COMM is duplicated; the
 * application's own messages never meet the library's. With MPI_THREAD_MULTIPLE a background
 * checkpoint completes by itself; with less, in the next collective call on the handle.
 */
#ifndef KEDGE_KEDGE_MPI_H
#define KEDGE_KEDGE_MPI_H

#include <kedge/kedge.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * kedge_open() over COMM. Collective; call after MPI_Init and close before MPI_Finalize (KEDGE_E_STATE otherwise).
 * KEDGE_E_GROUP without a cause in kedge_last_error(): COMM cannot be duplicated. *OUT is NULL after a failure.
 */
KEDGE_API int kedge_mpi_open(MPI_Comm comm, const char *name, const char *config, const char *const *settings,
			     kedge_t **out);

#ifdef __cplusplus
}
#endif
#endif
