/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_levels: checkpoints on the user's own directories. */
#ifndef KEDGE_TOOLS_BENCH_LEVELS_H
#define KEDGE_TOOLS_BENCH_LEVELS_H

int kedge__bench_levels(int argc, char **argv);

#endif
