#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A guide must work as written: this follows it in the present directory, which should be empty, with an installed Kedge in the
# environment, and compares what is printed with what the guide says.
#   ```sh       is run; all such blocks together are one shell session that ends at the first failure
#   ```text     is what the ```sh block before it prints; a line `...` stands for any number of lines, and blanks count as one
#   ```c, ...   whose first line is a comment with a file's name is that file; other blocks, ```console among them, are for reading
#   <!-- varies: PATTERN... -->   before a ```text block: the words time, size, date, or /REGULAR EXPRESSION/: what may differ
# Usage: check-guide.sh GUIDE
set -eu

guide=$1
# A make that called us is none of the reader's.
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$(mktemp -d "${TMPDIR:-/tmp}/kedge-guide.XXXXXX")
trap 'rm -rf "$work"' EXIT

# $work/steps is the session; $work/said.N what block N should print, and $work/varies.N what may differ there.
awk -v work="$work" '
	/^<!-- varies: .* -->$/ { varies = $0; sub(/^<!-- varies: /, "", varies); sub(/ -->$/, "", varies); next }
	/^```sh$/ { kind = "sh"; n++; printf "exec >\"%s/printed.%d\" 2>&1\n", work, n > steps; next }
	/^```text$/ {
		kind = "text"
		if (!n || said[n]++) {
			print "line " NR ": output of no command, or a second one of the same" > "/dev/stderr"
			exit 1
		}
		printf "" > (work "/said." n)
		print varies > (work "/varies." n)
		next
	}
	/^```[a-z]+$/ { kind = "file"; file = ""; first = 1; next }
	/^```/ { if (kind == "file" && file != "") print "KEDGE_END_OF_FILE" > steps; kind = ""; varies = ""; next }
	kind == "sh" { print > steps }
	kind == "text" { print > (work "/said." n) }
	kind == "file" && first {
		first = 0
		if (match($0, /^(\/\*|#) [A-Za-z0-9_]+\.(c|cfg|conf|ini|txt)/)) {
			file = substr($0, index($0, " ") + 1, RLENGTH - index($0, " "))
			printf "cat >%s <<\\KEDGE_END_OF_FILE\n", file > steps
		}
	}
	kind == "file" && file != "" { print > steps }
	BEGIN { steps = work "/steps" }' "$guide"
[ -s "$work/steps" ] || { echo "$guide: nothing to run" >&2; exit 1; }

status=0
sh -eu "$work/steps" </dev/null || status=$?
if [ $status -ne 0 ]; then
	last=$(find "$work" -name 'printed.*' | sed 's/.*\.//' | sort -n | tail -n 1)
	cat "$work/printed.$last" >&2
	echo "$guide: block $last ended with $status" >&2
	exit 1
fi

matches() { # SAID PRINTED VARIES: does PRINTED match SAID, in which `...` is any number of lines?
	awk -v varies="$(cat "$3")" '
		function plain(line) {
			for (i = 1; i <= patterns; i++)
				gsub(pattern[i], "#", line)
			gsub(/[ \t]+/, " ", line)
			gsub(/^ | $/, "", line)
			return line
		}
		BEGIN {
			named["time"] = "[0-9.]+ (s|ms|us|µs)"
			named["size"] = "[0-9.]+ (B|KiB|MiB|GiB)"
			named["date"] = "[0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+"
			while (varies != "") {
				if (match(varies, /^\/[^\/]*\//))
					pattern[++patterns] = substr(varies, 2, RLENGTH - 2)
				else if (match(varies, /^[a-z]+/) && substr(varies, 1, RLENGTH) in named)
					pattern[++patterns] = named[substr(varies, 1, RLENGTH)]
				else {
					print "varies: what is " varies "?" > "/dev/stderr"
					exit 2
				}
				varies = substr(varies, RLENGTH + 1)
				sub(/^ +/, "", varies)
			}
		}
		NR == FNR { said[++s] = plain($0); next }
		{ printed[++p] = plain($0) }
		END {
			at = from = 1 # where the last `...` was, and what it has swallowed so far
			for (j = 1; j <= p;) {
				if (said[at] == "...") {
					star = at++
					from = j
				} else if (at <= s && said[at] == printed[j]) {
					at++
					j++
				} else if (star) {
					at = star + 1
					j = ++from
				} else
					exit 1
			}
			while (at <= s && said[at] == "...")
				at++
			exit at <= s
		}' "$1" "$2"
}

for said in "$work"/said.*; do
	[ -e "$said" ] || continue
	n=${said##*.}
	if ! matches "$said" "$work/printed.$n" "$work/varies.$n"; then
		echo "$guide: block $n should print" >&2
		cat "$said" >&2
		echo "but it printed" >&2
		cat "$work/printed.$n" >&2
		status=1
	fi
done
exit $status
