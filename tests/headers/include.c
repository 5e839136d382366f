/* SPDX-License-Identifier: BSD-3-Clause */
/* Each public header must compile by itself, without warnings, as strict C90 and as strict C++98. */
#ifdef INCLUDE_MPI
#include <kedge/kedge_mpi.h>
#endif
#include <kedge/kedge.h>

/* Uses what a C++ compiler would trip over: enums as arguments, the opaque type, both kinds of callback. */
int use(kedge_t *k, double *field, size_t count);

int use(kedge_t *k, double *field, size_t count)
{
	size_t dims[2];
	uint64_t restored;

	dims[0] = count;
	dims[1] = 1;
	kedge_set_log(NULL, NULL);
	kedge_set_progress(k, NULL, NULL);
	if (kedge_protect_array(k, "field", field, KEDGE_F64, 2, dims) != KEDGE_OK)
		return KEDGE_E_ARG;
	return kedge_restart(k, KEDGE_NEWEST, &restored);
}
