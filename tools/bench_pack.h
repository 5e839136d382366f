/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KEDGE_TOOLS_BENCH_PACK_H
#define KEDGE_TOOLS_BENCH_PACK_H

int kedge__bench_pack(int argc, char **argv);

#endif
