# SPDX-License-Identifier: BSD-3-Clause
# How blocks are packed, against the version before too, and what show tells of it.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random x 700 1
expect 0 kedge save -s store -n job --codec shuffle+zstd:5 --type f64 x
expect 0 kedge show -s store -n job
printed "shuffle+zstd:5"
printed "set explicitly"
expect 0 kedge show -s store -n job --json
is "$(json packing)" 2 "regions that were packed: the file, and the tree of files"
is "$(json packing.0.region)" x "the region"
is "$(json packing.0.codec)" shuffle+zstd:5 "its codec, with the level"
is "$(json packing.0.reason)" given "the reason"
is "$(json packing.0.blocks_as_is)" "$(json packing.0.blocks)" "random blocks that are stored as they are"
is "$(json base)" null "the base of the first version"

# A byte in seven thousand changes: next to nothing against the version before, and all of it without.
i=0
while [ $i -lt 700 ]; do
	flip x $((i * 1024))
	i=$((i + 7))
done
expect 0 kedge save -s store -n job --codec xor+zstd --reduce full --json x
[ "$(json stored_bytes)" -lt 20000 ] || fail "xor left $(json stored_bytes) bytes"
expect 0 kedge show -s store -n job --json
is "$(json base)" 1 "the base"
is "$(json lineage)" 2 "the lineage"
is "$(json packing.0.blocks_with_base)" "$(json packing.0.blocks)" "blocks with a base"
expect 0 kedge show -s store -n job --blocks
printed "base      1"
printed "xor+zstd"
expect 0 kedge restore -s store -n job -o back
cmp x back/x
expect 0 kedge verify -s store -n job
expect 0 kedge gc -s store -n job --keep 1 --no-rewrite
expect 0 kedge ls -s store -n job --quiet
is "$(tr '\n' ' ' <out)" "1 2 " "what gc keeps for the base"
expect 0 kedge coalesce -s store -n job --self-contained
expect 0 kedge show -s store -n job --json
is "$(json base)" null "the base after coalescing"
expect 0 kedge ls -s store -n job --quiet
is "$(tr '\n' ' ' <out)" "2 " "what is left"
rm -rf back
expect 0 kedge restore -s store -n job -o back
cmp x back/x

# What was chosen, and by which figures.
LC_ALL=C awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%07d\n", i * 3 % 5000 }' >table
expect 0 kedge save -s store -n table --codec auto table
expect 0 kedge show -s store -n table
printed "estimated"
printed "storage takes"
expect 0 kedge save -s store -n table --codec auto --codec-rate 1M --replace -v 1 table
expect 0 kedge show -s store -n table --json
is "$(json packing.0.reason)" target "the reason with a rate"
expect 2 kedge save -s store -n table --codec auto --codec-rate fast table
said codec-rate
