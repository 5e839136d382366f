/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/field_loops_body.h"

const struct kedge__field_loops kedge__field_loops_portable = {
    "portable", take_any,    give_any,         choose_any,    replace_any,
    echo_any,   rebuild_any, rebuild_echo_any, write_symbols, read_symbols};

const struct kedge__field_loops *kedge__field_loops(void)
{
	const struct kedge__field_loops *l = kedge__field_loops_bmi2();

	return l ? l : &kedge__field_loops_portable;
}
