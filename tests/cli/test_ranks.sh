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
