# SPDX-License-Identifier: BSD-3-Clause
# What the tests of `kedge run` share; sourced. A job here is a script that writes the journal itself.
set -eu
: "${KEDGE_BIN:=kedge}"

die() {
	echo "FAILED: $*" >&2
	for file in out err; do
		[ -e $file ] && { echo "--- $file"; cat $file; } >&2
	done
	exit 1
}

# kedge run OPTIONS..., its output in out and err, its exit code in $code
run() {
	code=0
	"$KEDGE_BIN" run --backoff 0 "$@" >out 2>err || code=$?
}

wants_code() { # CODE
	[ "$code" -eq "$1" ] || die "exit code $code, not $1"
}

wants() { # FILE PATTERN
	grep -q -e "$2" "$1" || die "no '$2' in $1"
}

wants_not() { # FILE PATTERN
	! grep -q -e "$2" "$1" || die "'$2' in $1"
}

# A script named $1 of standard input, which may call: open_job, took VERSION, restarted VERSION
job() { # NAME
	{
		cat <<-'END'
			#!/bin/sh
			set -eu
			event() { echo "{\"time\":$(date +%s.%6N),\"event\":\"$1\",\"name\":\"$name\",$2}" >>"$KEDGE_RUN_JOURNAL"; }
			name=job
			open_job() { name=${1:-job} && event open '"store":"/store"'; }
			took() { event sealed "\"version\":$1,\"raw_bytes\":1000,\"stored_bytes\":100,\"blocked_seconds\":0.5"; }
			restarted() { event restart "\"version\":$1"; }
		END
		cat
	} >"$1"
	chmod +x "$1"
}

no_journal_left() {
	for file in "$TMPDIR"/kedge-run-*; do
		[ ! -e "$file" ] || die "$file was left behind"
	done
}
