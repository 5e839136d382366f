# SPDX-License-Identifier: BSD-3-Clause
# Nothing that is stored gives orders to the terminal that it is listed on.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

esc=$(printf '\033')
title="$esc]0;owned$(printf '\007')"
store="st$esc[2Jore"

# clean: neither output nor messages of the last command have control characters, but for newlines.
clean()
{
	for file in out err; do
		[ "$(tr -d '\n' <$file | tr -cd '\000-\037\177' | wc -c)" -eq 0 ] || fail "$1: $(od -c $file)"
	done
}

"$CRAFT" "$store" job region "red$esc[31m$(printf '\302\2332J')"
"$CRAFT" "$store" job why 1 "because$title of\\this"
expect 0 kedge ls -s "$store" -n job -l
printed 'because\x1b]0;owned\x07 of\this'
clean ls
expect 0 kedge ls -s "$store" -n job -l --json
is "$(json versions.0.why)" "because$title of\\this" "the reason in JSON"
expect 0 kedge show -s "$store" -n job
printed 'red\x1b[31m\xc2\x9b2J'
printed 'st\x1b[2Jore'
clean show
for list in --extents --blocks; do
	expect 0 kedge show -s "$store" -n job $list
	clean "show $list"
done
expect 0 kedge diff -s "$store" -n job 1 1
clean diff
expect 0 kedge verify -s "$store"
clean verify

# What went wrong, and where.
expect 3 kedge ls -s "no$esc[31m"
said 'no\x1b[31m'
clean "ls of no store"
expect 2 kedge ls -s "$store" -n "no$title"
clean "ls of no name"
expect 3 kedge restore -s "$store" -n job -o back "none$title"
said 'none\x1b]0;owned\x07'
clean "restore of no region"
expect 2 kedge ls -s "$store" "operand$title"
clean usage
segment=$(find "$store" -name '*.seg')
printf '\377\376' | dd of="$segment" bs=1 seek=66 conv=notrunc 2>/dev/null
expect 1 kedge verify -s "$store"
printed 'st\x1b[2Jore'
clean "verify of damage"
expect 6 kedge restore -s "$store" -n job -o back
clean "restore of damage"
