# SPDX-License-Identifier: BSD-3-Clause
# Sets of several ranks.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

"$CRAFT" store job ranks 3 2
expect 0 kedge ls -s store -n job --json
is "$(json versions)" 2 "the number of versions"
is "$(json versions.0.ranks)" 3 "the number of ranks"
expect 0 kedge restore -s store -n job -o all
for rank in 0 1 2; do
	is "$(wc -c <all/rank-$rank/data)" 4096 "the size of rank $rank"
done
is "$(head -c 4 all/rank-2/data)" cAAc "the bytes of rank 2"
expect 0 kedge restore -s store -n job --rank 1 -v 1 -o one
is "$(head -c 4 one/data)" bAbb "the bytes of rank 1"
expect 0 kedge restore -s store -n job --rank 1 -v 1 -o slow --rate 50M
is "$(head -c 4 slow/data)" bAbb "the bytes of rank 1, read at a rate"
expect 2 kedge restore -s store -n job -o slow --rate fast
said "a size such as"
expect 3 kedge restore -s store -n job --rank 3 -o one
expect 0 kedge show -s store -n job --rank 2
printed "rank 2 of 3"
expect 0 kedge diff -s store -n job 1 2 --json
is "$(json changed_bytes)" 3 "the bytes changed on all ranks"
expect 0 kedge diff -s store -n job 1 2 --rank 1
printed "2..2 (1 byte)"
expect 0 kedge verify -s store
expect 0 kedge coalesce -s store -n job --self-contained
expect 0 kedge gc -s store -n job --keep 1
expect 0 kedge restore -s store -n job -o after
diff -r all after >/dev/null || fail "coalescing changed the files"

# A damaged rank takes the whole version with it.
"$CRAFT" store2 job ranks 2 2
flip "$(find store2 -path '*2/r0000001*')" 70
expect 0 kedge restore -s store2 -n job -o fallback
said "skipping version"
is "$(head -c 3 fallback/rank-0/data)" aAa "rank 0 of the version before"

# Ranks that share files, as with group_size on L2: three ranks, two of them in one file.
cp -r "$KEDGE_SOURCE/tests/golden/v1/bundles" bundles
is "$(find bundles -name '*.bdl' | wc -l)" 6 "the number of files"
expect 0 kedge verify -s bundles
expect 0 kedge ls -s bundles --long
printed "3 versions"
expect 0 kedge show -s bundles --rank 1
printed "ranks 0 to 1 (group_size 2), this one from byte 4096 on"
expect 0 kedge show -s bundles --rank 2 --json
is "$(json group_size)" 2 "the ranks per file"
is "$(json start)" 0 "the place of rank 2"
expect 0 kedge restore -s bundles -o shared
expect 0 kedge restore -s bundles --rank 1 -o lone
same shared/rank-1/part lone/part
expect 0 kedge tag -s bundles -v 2 good
expect 0 kedge coalesce -s bundles --self-contained
expect 0 kedge gc -s bundles --keep 1
is "$(find bundles -name '*.bdl' | wc -l)" 4 "the number of files of the newest version and of the one with a label"
expect 0 kedge verify -s bundles
expect 0 kedge restore -s bundles -o rewritten
diff -r shared rewritten >/dev/null || fail "coalescing changed what is in bundles"
flip "$(find bundles -path '*3/r0000000-*.bdl')" 4300
expect 1 kedge verify -s bundles
printed "rank 1"
expect 0 kedge restore -s bundles --rank 0 -o spared
same shared/rank-0/part spared/part
