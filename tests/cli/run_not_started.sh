# SPDX-License-Identifier: BSD-3-Clause
# A command that cannot be started is not tried again.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

run -- ./no-such-command
wants_code 127
wants err 'cannot start ./no-such-command: No such file or directory'
wants_not err 'launch 2'

: >plain-file
run -- ./plain-file
wants_code 126
wants err 'cannot start ./plain-file: Permission denied'

run
wants_code 2
run --retries many -- true
wants_code 2
run --backoff -1 -- true
wants_code 2
run --no-such-option -- true
wants_code 2

run --journal no/such/dir/file -- true
[ "$code" -ne 0 ] || die "no error for a journal that cannot be made"
no_journal_left
