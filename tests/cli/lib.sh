# SPDX-License-Identifier: BSD-3-Clause
# What the command's tests share. Each script begins with: . "$KEDGE_SOURCE/tests/cli/lib.sh"
# The current directory is empty, belongs to the test alone, and is removed after it.
set -eu
LC_ALL=C
export LC_ALL
CHECK=$1 # the program cli_check
CRAFT=$2 # the program cli_craft

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

# expect CODE COMMAND...: run it, output in ./out, messages in ./err; anything but CODE ends the test.
expect()
{
	want=$1
	shift
	got=0
	"$@" >out 2>err || got=$?
	[ "$got" -eq "$want" ] && return
	echo "exit code $got instead of $want: $*" >&2
	sed 's/^/  out: /' out >&2
	sed 's/^/  err: /' err >&2
	exit 1
}

# said TEXT / printed TEXT: the last command said it on standard error / printed it.
said()
{
	grep -qF -- "$1" err || fail "'$1' is not in the messages: $(cat err)"
}

printed()
{
	grep -qF -- "$1" out || fail "'$1' is not in the output: $(cat out)"
}

silent()
{
	[ ! -s err ] || fail "unexpected messages: $(cat err)"
}

# json PATH [FILE]: a value of the JSON in ./out, e.g. versions.0.reducer; the file must be valid.
json()
{
	"$CHECK" json "${2:-out}" "$1" || fail "no '$1' in $(cat "${2:-out}")"
}

# is ACTUAL EXPECTED WHAT
is()
{
	[ "$1" = "$2" ] || fail "$3 is '$1' instead of '$2'"
}

same()
{
	cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# random FILE KIB [SEED]: the same bytes every time.
random()
{
	"$CHECK" random "$1" "$2" "${3:-1}"
}

# flip FILE OFFSET: change one byte.
flip()
{
	"$CHECK" flip "$1" "$2"
}

segments()
{
	find "$1" -name '*.seg' | sort
}

# every N M: how far to step through a series of faults: N, or M in a build with sanitizers, which is many times slower.
every()
{
	if [ -n "${SANITIZERS:-}" ]; then
		echo "$2"
	else
		echo "$1"
	fi
}

# address N: as the index has it, 8 bytes, little-endian.
address()
{
	a=$1
	for _ in 1 2 3 4 5 6 7 8; do
		printf "\\$(printf %03o $((a & 255)))"
		a=$((a >> 8))
	done
}

# image NAME ADDRESS:SEED...: an index, and pages whose bytes follow from the seeds.
image()
{
	name=$1
	shift
	: >"$name.idx"
	: >"$name.pages"
	for page in "$@"; do
		address $((${page%:*})) >>"$name.idx"
		random one-page 4 "${page#*:}"
		cat one-page >>"$name.pages"
	done
}

# varint N: as protobuf has numbers.
varint()
{
	v=$1
	while [ "$v" -gt 127 ]; do
		printf "\\$(printf %03o $((v & 127 | 128)))"
		v=$((v >> 7))
	done
	printf "\\$(printf %03o "$v")"
}

# criu_record FIELD VALUE...: a record of CRIU's: its length, and a message of numbers.
criu_record()
{
	: >one-record
	while [ $# -gt 0 ]; do
		varint $(($1 << 3)) >>one-record
		varint $(($2)) >>one-record
		shift 2
	done
	printf "\\$(printf %03o "$(wc -c <one-record)")\\0\\0\\0"
	cat one-record
}

# criu_images DIR ID RUN...: the images of process 77, as CRIU writes them; a run is ADDRESS:PAGES:SEED, and its seed
# "parent" if the pages are in the images before.
criu_images()
{
	dir=$1
	id=$2
	shift 2
	mkdir -p "$dir"
	printf '\031\103\126\124\045\100\010\126' >"$dir/pagemap-77.img"
	criu_record 1 "$id" >>"$dir/pagemap-77.img"
	: >"$dir/pages-$id.img"
	for run in "$@"; do
		at=${run%%:*}
		seed=${run##*:}
		pages=${run#*:}
		pages=${pages%:*}
		if [ "$seed" = parent ]; then
			criu_record 1 "$at" 2 "$pages" 3 1 4 1 >>"$dir/pagemap-77.img"
			continue
		fi
		criu_record 1 "$at" 2 "$pages" 4 4 >>"$dir/pagemap-77.img"
		random some-pages $((pages * 4)) "$seed"
		cat some-pages >>"$dir/pages-$id.img"
	done
}
