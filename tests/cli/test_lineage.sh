# SPDX-License-Identifier: BSD-3-Clause
# What coalesce and gc do to versions that need each other, and what two levels look like.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random f 100
for v in 1 2 3 4 5; do
	flip f $((v * 5000))
	cp f f$v
	expect 0 kedge save -s store -n job --reduce basic f
done

# lineage VERSION: the versions that it needs, by number.
lineage()
{
	expect 0 kedge show -s store -n job -v "$1" --json
	n=$(json lineage)
	i=0
	while [ $i -lt "$n" ]; do
		json lineage.$i
		i=$((i + 1))
	done | tr '\n' ' '
}

all_same()
{
	for v in "$@"; do
		expect 0 kedge restore -s store -n job -v "$v" -o back
		same back/f f"$v"
	done
	expect 0 kedge verify -s store
}

is "$(lineage 5)" "1 2 3 4 5 " "the lineage of version 5"
expect 2 kedge coalesce -s store -n job -v 3..2
expect 0 kedge gc -s store -n job --keep 2 --no-rewrite --json
is "$(json removed)" 0 "what gc can remove of one long lineage"
is "$(json kept_for_lineage)" 3 kept_for_lineage

# A batch in the middle.
expect 0 kedge coalesce -s store -n job -v 2..4 --json
is "$(json versions_removed)" 2 "the versions taken in"
is "$(lineage 5)" "1 4 5 " "the lineage after a batch"
all_same 1 4 5

# All but the base, then the base too.
expect 0 kedge coalesce -s store -n job
is "$(lineage 5)" "1 5 " "the lineage after coalescing the newest"
all_same 1 5
expect 0 kedge coalesce -s store -n job --self-contained --keep-old
is "$(lineage 5)" "5 " "the lineage of a self-contained version"
all_same 1 5
expect 0 kedge gc -s store -n job --keep 1 --no-rewrite --json
is "$(json removed)" 1 "what gc removes then"
is "$(json removed_versions.0)" 1 "the version removed"
all_same 5

# A batch goes to L2 as one delta, and ls tells what, where and why.
cp f f0
for v in 1 2 3 4; do
	flip f $((v * 3000))
	cp f g$v
	expect 0 kedge save -s b1 -n job --reduce basic --set l2=b2 --set l2_every=2 f
done
expect 0 kedge ls -s b1 --l2 b2 -n job -l
printed "L1 L2:self-contained"
printed "L1 L2:delta"
printed "L2: every 2 (as configured), 2 versions as a delta to 2; a delta: "
expect 0 kedge ls -s b1 --l2 b2 -n job --json
is "$(json versions.3.coalesced)" 1 "the levels where version 4 is coalesced"
is "$(json versions.3.coalesced.0)" 2 "the level where version 4 is coalesced"
expect 0 kedge ls -s b2 -n job --json
is "$(json versions)" 2 "the versions on L2"
for v in 2 4; do
	expect 0 kedge restore -s b2 -n job -v $v -o back
	same back/f g$v
done
expect 0 kedge verify -s b2
cp f0 f

# Two levels.
expect 0 kedge save -s l1 -n job --set l2=l2 f1
expect 0 kedge save -s l1 -n job --set l2=l2 f1
# A second level is a store like any other: it may be looked at though it is configured as such.
expect 0 env KEDGE_L1=l1 KEDGE_L2=l2 kedge verify -s l2
expect 0 env KEDGE_L1=l1 KEDGE_L2=l2 kedge ls -s l2 -n job --json
[ "$(json versions.0.levels.0)" = 1 ] || fail "the store given is the first level"
expect 0 kedge ls -s l1 --l2 l2 -n job --json
is "$(json versions.1.levels)" 2 "the number of levels"
expect 0 kedge ls -s l1 --l2 l2 -n job
printed "L1 L2"
rm -r l1/job/v00000000000000000002
expect 0 kedge ls -s l1 -n job
printed incomplete
expect 0 kedge ls -s l1 -n job --json
printed "l1/job/v00000000000000000002: No such file"
expect 0 kedge ls -s l1 --l2 l2 -n job
is "$(grep -cw sealed out)" 2 "versions that are sealed on some level"
expect 0 env KEDGE_L1=l1 KEDGE_L2=l2 kedge restore -n job -v 2 -o from2
same from2/f1 f1
rm -r l1
expect 0 env KEDGE_L1=l1 KEDGE_L2=l2 kedge restore -n job -o from2
said "ignoring level L1"
same from2/f1 f1
