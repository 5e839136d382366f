#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs on four nodes, protected on L1, with a staging server; nodes and the server are killed at random for MINUTES. What is left of
# a job that went wrong is kept in BUILD/soak-failed; the seed is printed with it.
# Usage: soak.sh BUILD SEED MINUTES
set -eu
cd "$(dirname "$0")/.."
KEDGE_SOURCE=$PWD
BUILD_DIR=$(cd "$1" && pwd)
KEDGE_BIN=$BUILD_DIR/bin/kedge
# Ranks share the cores, wait without spinning, and may belong to root: as in cmake/KedgeTests.cmake.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export KEDGE_SOURCE BUILD_DIR KEDGE_BIN OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
export OMPI_MCA_mpi_yield_when_idle OMPI_MCA_btl_vader_single_copy_mechanism PRTE_MCA_rmaps_default_mapping_policy
code=0
sh tests/with-env.sh "$PWD/tests/cli/run_soak.sh" --seed "$2" --minutes "$3" --keep "$BUILD_DIR/soak-failed" || code=$?
[ "$code" -ne 77 ] || { echo 'no soak of nodes: it needs MPI, libfabric and libsodium'; code=0; }
exit "$code"
