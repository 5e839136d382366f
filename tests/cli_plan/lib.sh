# SPDX-License-Identifier: BSD-3-Clause
# What these scripts share. The current directory is empty, and removed after the test.
set -eu
LC_ALL=C
export LC_ALL
MACHINES=$KEDGE_SOURCE/share/machines

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

# expect CODE COMMAND...: output in ./out, messages in ./err.
expect()
{
	want=$1
	shift
	got=0
	"$@" >out 2>err || got=$?
	[ "$got" -eq "$want" ] || fail "exit code $got instead of $want: $* $(cat out err)"
}

said()
{
	grep -qxF -- "$1" err || fail "the message is not '$1': $(cat err)"
}

printed()
{
	grep -qF -- "$1" out || fail "'$1' is not in the output: $(cat out)"
}

# value KEY: the first number of that key in the JSON of the last command.
value()
{
	tr -d ' \n' <out | sed -n 's/^[^~]*/&/p' | sed 's/"'"$1"'":/~/' | sed -n 's/^[^~]*~\([^],}]*\).*/\1/p' | tr -d '['
}

# near KEY EXPECTED TOLERANCE (absolute)
near()
{
	v=$(value "$1")
	awk -v a="$v" -v b="$2" -v t="$3" 'BEGIN { d = a - b; exit !(a != "" && d <= t && -d <= t) }' ||
		fail "$1 is '$v', not $2 within $3"
}

equal()
{
	v=$(value "$1")
	[ "$v" = "$2" ] || fail "$1 is '$v', not '$2'"
}
