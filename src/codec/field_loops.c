#include "codec/field_loops_body.h"

const struct kedge__field_loops kedge__field_loops_portable = {"portable", replace_any, write_any, rebuild_any};
