# SPDX-License-Identifier: BSD-3-Clause
# Page images kept by rex: L1 lost, an increment damaged in the middle of a batch. The newest version that is whole is the
# answer, and what is damaged is named.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# Five moments. Page 2 is another in the third moment and stays so; page 3 is another in the third and in the fifth.
for v in 1 2 3 4 5; do
	image m$v 0x1000:$v 0x2000:$((v < 3 ? 20 : 21)) 0x3000:$((v < 3 ? 30 : v < 5 ? 31 : 32)) 0x4000:40 0x5000:50
done

save()
{
	for v in 1 2 3 4 5; do
		expect 0 kedge save -s "$1" -n job --reduce rex --set sync=no --set block=4096 ${2:+--set "l2=$2"} --pages m$v.idx
	done
}

# restored VERSION ARGUMENT...: without -v it is VERSION that comes back, byte for byte.
restored()
{
	number=$1
	shift
	expect 0 kedge restore -n job -o back --json "$@"
	is "$(json version)" "$number" "the version restored"
	same "m$number.idx" back/pages.idx
	same "m$number.pages" back/pages.pages
	rm -r back
}

# damage STORE VERSION BLOCK: a byte in a block of 4096 of its segment, which begin behind the header of 64.
damage()
{
	flip "$(segments "$1" | sed -n "$2p")" $((64 + $3 * 4096 + 100))
}

save first second
[ "$(segments second | wc -l)" -eq 5 ] || fail "L2 has $(segments second)"

# L1 lost: all that is there, from the other directory, as the second level or by itself.
mv first gone
restored 5 -s second
mkdir first
restored 5 -s first --l2 second
for v in 1 2 3 4 5; do
	restored $v -s first --l2 second -v $v
done

# A part of L1 lost: the rest of the chain is taken from L2.
rm -r first
cp -r gone first
rm "$(segments first | sed -n 3p)"
restored 5 -s first --l2 second
restored 2 -s first
said "skipping version 5"
rm -r first
cp -r gone first

# Damage in the third: page 1 of it is dead in all that follow, page 2 is needed to the end.
damage first 3 0
restored 5 -s first
expect 6 kedge restore -s first -n job -v 3 -o back
said "segment $(segments first | sed -n 3p) (version 3, rank 0): block 0 (region pages)"
rm -rf back
restored 3 -s first --l2 second -v 3
damage first 3 1
restored 2 -s first
for v in 3 4 5; do
	said "skipping version $v: segment $(segments first | sed -n 3p) (version 3, rank 0): block"
done
is "$(json passed_over.0.version)" 5 "the first that was passed over"
expect 1 kedge verify -s first -n job --json
is "$(json findings.0.version)" 3 "the version that verify names"
restored 5 -s first --l2 second

# Page 3 of the third is needed by the fourth alone.
rm -r first
cp -r gone first
damage first 3 2
restored 5 -s first
expect 6 kedge restore -s first -n job -v 4 -o back
rm -rf back

# A batch that became one: what was before it stays whole when it is damaged.
rm -r first
cp -r gone first
expect 0 kedge coalesce -s first -n job -v 3..5
restored 5 -s first
restored 2 -s first -v 2
damage first 3 1
restored 2 -s first
said "skipping version 5"
