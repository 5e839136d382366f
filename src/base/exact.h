/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exact: included first where results must be the same on every machine. Fused multiply-add would round once where
 * others round twice. gcc leaves it out by itself with -std=c11; clang has to be told.
 */
#ifndef KEDGE_BASE_EXACT_H
#define KEDGE_BASE_EXACT_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#endif
