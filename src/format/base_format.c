/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "BASE: what blocks were packed against". */
#include "format/wire.h"

int kedge__base_encode(uint64_t version, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);

	kedge__wire_put_varint(&w, version);
	return kedge__wire_out_finish(&w, err);
}

int kedge__base_decode(const void *data, size_t bytes, uint64_t *version, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint64_t got = kedge__wire_get_varint_max(&in, KEDGE_VERSION_LIMIT - 1);

	if (in.failed || in.left != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BASE: does not hold exactly one version");
	*version = got;
	return 0;
}
