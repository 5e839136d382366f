/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: libfabric keeps some memory of each endpoint, which is not ours to report. For one file of a program. */
#ifndef KEDGE_TESTS_LIB_FABRIC_H
#define KEDGE_TESTS_LIB_FABRIC_H

const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so";
}

#endif
