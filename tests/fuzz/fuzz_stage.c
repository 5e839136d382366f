/* SPDX-License-Identifier: BSD-3-Clause */
/* A message of the staging protocol: what is decoded is within its limits, and is encoded as it came. */
#include "format/format.h"
#include "fuzz.h"

static void check(const struct kedge__stage_message *m)
{
	switch (m->type) {
	case KEDGE__STAGE_HELLO:
		FUZZ_REQUIRE(kedge__job_name_check(m->u.hello.name, NULL) == 0);
		FUZZ_REQUIRE(m->u.hello.port_bytes <= KEDGE__STAGE_PORT);
		FUZZ_REQUIRE(m->u.hello.credential_bytes <= KEDGE__STAGE_CREDENTIAL);
		break;
	case KEDGE__STAGE_BEGIN:
		FUZZ_REQUIRE(m->u.begin.file < KEDGE__STAGE_FILES && m->u.begin.version < KEDGE_VERSION_LIMIT);
		break;
	case KEDGE__STAGE_PIECE:
		FUZZ_REQUIRE(m->u.piece.file < KEDGE__STAGE_FILES && m->u.piece.slot < KEDGE__STAGE_SLOTS);
		FUZZ_REQUIRE(m->u.piece.bytes && m->u.piece.bytes <= KEDGE__STAGE_PIECE_MAX);
		break;
	case KEDGE__STAGE_ANSWER:
	case KEDGE__STAGE_REFUSED:
		FUZZ_REQUIRE(m->u.answer.code <= 0 && strlen(m->u.answer.text) < KEDGE__STAGE_TEXT);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kedge__stage_message m;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes out = {0};
	int rc = kedge__stage_decode(data, size, &m, &err);

	if (rc) {
		fuzz_require_cause(rc, &err);
		return 0;
	}
	check(&m);
	FUZZ_REQUIRE(kedge__stage_encode(&m, &out, NULL) == 0);
	FUZZ_REQUIRE(out.count == size && memcmp(out.at, data, size) == 0);
	kedge__bytes_done(&out);
	return 0;
}
