/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled with -mbmi2 and what comes with it, where the compiler is for such a processor. */
#ifdef __BMI2__

#include "codec/field_loops_body.h"

static const struct kedge__field_loops loops = {"bmi2",   take_any,    give_any,         choose_any,    replace_any,
						echo_any, rebuild_any, rebuild_echo_any, write_symbols, read_symbols};

/* Every processor that has the two has the other instructions too. */
const struct kedge__field_loops *kedge__field_loops_bmi2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? &loops : NULL;
}

#else

#include "codec/field_loops.h"

const struct kedge__field_loops *kedge__field_loops_bmi2(void)
{
	return NULL;
}

#endif
