/* SPDX-License-Identifier: BSD-3-Clause */
/* cat: the dataset of an HDF5 file, by whichever libhdf5 there is. */
#ifndef KEDGE_TOOLS_CAT_H
#define KEDGE_TOOLS_CAT_H

#include "tool.h"

/*
 * The values of DATASET in the HDF5 file at PATH, called NAME for people, on standard output: in the order and in the type that the file has them, without
 * its chunks and filters. KEDGE_E_CODEC: there is no libhdf5; KEDGE_E_NOTFOUND: no such dataset; KEDGE_E_DAMAGED: it cannot be read.
 * A process of its own reads the file: what a hostile one does to the library is done to that.
 */
int kedge__cat_dataset(const char *path, const char *name, const char *dataset, struct kedge__error *err);

#endif
