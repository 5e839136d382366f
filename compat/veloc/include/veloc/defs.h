/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants of VELOC's C interface. */
#ifndef VELOC_DEFS_H
#define VELOC_DEFS_H

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)
#define VELOC_IGNORED (-2) /* VELOC_Restart_test(): there is nothing to restart from */

#define VELOC_MAX_NAME (1024) /* bytes that VELOC_Route_file() may write */

#define VELOC_CKPT_ALL  (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)

#define VELOC_RECOVER_ALL  (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

#define VELOC_OBSERVE_CKPT_END (0)

#endif
