/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge_mpi.h: the job handle of kedge.h on an MPI communicator (link with -lkedge-mpi).
 *
 * A version is then a set with one part per rank. It is sealed when every rank has written its part, and a restart
 * takes the newest set that is sealed and intact on all ranks. Calls that kedge.h marks as collective are collective
 * over the communicator. The communicator is duplicated, so that messages of the library never mix with those of the
 * application. With MPI_THREAD_MULTIPLE a background checkpoint finishes on its own; with less, in the next collective
 * call on the handle.
 */
#ifndef KEDGE_KEDGE_MPI_H
#define KEDGE_KEDGE_MPI_H

#include <kedge/kedge.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * kedge_open() over COMM. Collective. Must be called after MPI_Init(), and the handle closed before MPI_Finalize();
 * otherwise KEDGE_E_STATE. If COMM cannot be duplicated, it fails with KEDGE_E_GROUP, and kedge_last_error() does not
 * say why. *OUT is NULL after a failure.
 */
KEDGE_API int kedge_mpi_open(MPI_Comm comm, const char *name, const char *config, const char *const *settings,
			     kedge_t **out);

#ifdef __cplusplus
}
#endif
#endif
