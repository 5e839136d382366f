#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Check the shape of the tree: which folder includes which, how long files are, and that there is one binary search.
# How many writers a field has is counted by tests/tree/writers.sh.
#
# The order of folders is read from docs/ARCHITECTURE.md, the line `base < format, pipeline < ...`: a folder may include
# headers of those to its left or in its own group, and of another folder only the header that declares what it offers.
# Usage: check-layers.sh [ROOT]
set -eu

root=${1:-$(dirname "$0")/..}
max_file=900
cd "$root"

order=$(sed -n 's/^`\(base < .*\)`$/\1/p' docs/ARCHITECTURE.md | head -n 1)
if [ -z "$order" ]; then
	echo "docs/ARCHITECTURE.md: the line with the order of folders is missing" >&2
	exit 1
fi

sources() {
	for dir in src tools include examples bench tests; do
		[ -d "$dir" ] && find "$dir" -name '*.[ch]' -type f
	done | LC_ALL=C sort
}

check_includes() {
	sources | grep -E '^(src|tools|bench)/' | xargs -r awk -v order="$order" '
		BEGIN {
			groups = split(order, group, / *< */)
			for (i = 1; i <= groups; i++) {
				n = split(group[i], name, /, */)
				for (j = 1; j <= n; j++)
					rank[name[j]] = i
			}
		}
		FNR == 1 {
			split(FILENAME, path, "/")
			self = path[1] == "src" ? path[2] : "tools"
			if (!(self in rank) && self != "tools" && !(self in reported)) {
				reported[self] = 1
				printf "%s: folder %s has no place in the order of docs/ARCHITECTURE.md\n", FILENAME, self
				bad = 1
			}
		}
		/^[ \t]*#[ \t]*include[ \t]*"[a-z_]+\// {
			header = $0
			sub(/^[^"]*"/, "", header)
			sub(/".*/, "", header)
			split(header, part, "/")
			used = part[1]
			if (used == self || !(used in rank))
				next
			if (self != "tools" && rank[used] > rank[self]) {
				printf "%s:%d: %s may not include %s\n", FILENAME, FNR, self, header
				bad = 1
			} else if (used != "base" && header != used "/" used ".h") {
				printf "%s:%d: %s is private to %s\n", FILENAME, FNR, header, used
				bad = 1
			}
		}
		END { exit bad }'
}

check_lengths() {
	sources | xargs -r awk -v max_file=$max_file '
		function end_file() {
			if (file != "" && lines > max_file) {
				printf "%s: %d lines, more than %d\n", file, lines, max_file
				bad = 1
			}
		}
		FNR == 1 { end_file(); file = FILENAME }
		{ lines = FNR }
		END { end_file(); exit bad }'
}

# The one in src/base/search.h serves them all.
check_searches() {
	! sources | grep -E '^(src|tools)/' | grep -v '^src/base/search\.h$' | xargs -r grep -nE \
		'\b([a-z_]+) \+ \([a-z_]+ - \1\) (/ 2|>> 1)|\((low|lo|left) \+ (high|hi|right)\) (/ 2|>> 1)' /dev/null |
		sed 's/^\([^:]*:[0-9]*\):.*/\1: a binary search by hand: use KEDGE__PARTITION_POINT() of base\/search.h/' | grep .
}

status=0
check_includes >&2 || status=1
check_lengths >&2 || status=1
check_searches >&2 || status=1
exit $status
