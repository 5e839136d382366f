# SPDX-License-Identifier: BSD-3-Clause
# Save, look, compare, restore, merge, remove: what everybody does.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random a.bin 300 1
random b.bin 50 2
expect 0 kedge save -s store -n job --json a.bin b.bin
silent
for key in version reducer raw_bytes stored_bytes literal_bytes metadata_bytes seconds hash_seconds write_seconds; do
	json $key >/dev/null
done
is "$(json version)" 1 "the first version"
is "$(json raw_bytes)" 358400 raw_bytes
[ "$(json stored_bytes)" -ge 358400 ] || fail "random bytes were made smaller"
mkdir was && cp a.bin b.bin was

flip a.bin 100000
echo more >>b.bin
expect 0 kedge save -s store -n job --reduce tree --json a.bin b.bin
is "$(json version)" 2 "the second version"
is "$(json reducer)" tree reducer
[ "$(json literal_bytes)" -lt 2000 ] || fail "one changed byte made $(json literal_bytes) literal bytes"

expect 0 kedge ls -s store -q
is "$(cat out)" job "the list of names"
expect 0 kedge ls -s store -n job
printed sealed
expect 0 kedge ls -s store -n job -l
expect 0 kedge ls -s store -n job --quiet
is "$(tr '\n' ' ' <out)" "1 2 " "the list of versions"
expect 0 kedge ls -s store -n job --json
is "$(json versions)" 2 "the number of versions"
is "$(json versions.0.status)" sealed "the status of version 1"
is "$(json total_bytes)" "$(find store/job -type f -exec cat {} + | wc -c)" "the bytes of all files"
expect 0 kedge ls -s store -n job --json
raw=$(json versions.1.raw_bytes)
expect 0 kedge show -s store -n job --json
tree=$(json regions.$(($(json regions) - 1)).bytes)
is "$raw" $((358405 + tree)) "the raw bytes of version 2, with the tree of files"

expect 0 kedge show -s store -n job -v 2 --extents --blocks
printed a.bin
printed literal
expect 0 kedge show -s store -n job --json --extents --blocks
is "$(json version)" 2 "the version shown"
is "$(json regions)" 3 "the number of regions, with the tree of files"
is "$(json regions.1.bytes)" 51205 "the bytes of b.bin"
[ "$(json extent_list)" -gt 0 ] && [ "$(json block_list)" -gt 0 ] || fail "no extents or blocks"

expect 0 kedge diff -s store -n job 1 2 --json
is "$(json regions.0.ranges.0.offset)" 100000 "where a.bin changed"
is "$(json regions.0.ranges.0.bytes)" 1 "how much of a.bin changed"
is "$(json regions.1.ranges.0.offset)" 51200 "where b.bin grew"
is "$(json changed_bytes)" 6 "the total change"
expect 0 kedge diff -s store -n job 1 2
printed "100000..100000 (1 byte)"
expect 1 kedge diff -s store -n job 1 2 --exit-code --quiet
is "$(cat out)" "" "the output of diff --quiet"
expect 0 kedge diff -s store -n job 2 2 --exit-code

expect 0 kedge verify -s store -n job --json
is "$(json intact)" true intact
is "$(json versions_intact)" 2 versions_intact
expect 0 kedge verify -s store
printed "no damage"

expect 0 kedge restore -s store -n job -v 1 -o one --json
is "$(json bytes)" 358400 "the bytes restored"
same one/a.bin was/a.bin
same one/b.bin was/b.bin
expect 0 kedge restore -s store -o two
same two/a.bin a.bin
same two/b.bin b.bin
expect 0 kedge restore -s store -n job -v 1 -o two b.bin
same two/b.bin was/b.bin
same two/a.bin a.bin
[ -z "$(find one two -name '*.tmp')" ] || fail "temporary files were left"

flip a.bin 5
expect 0 kedge save -s store -n job --reduce tree a.bin b.bin
expect 0 kedge gc -s store -n job --keep 1 --dry-run --json
expect 0 kedge ls -s store -n job --quiet
is "$(wc -l <out)" 3 "the number of versions after a dry run"
expect 0 kedge coalesce -s store -n job --self-contained --json
is "$(json version)" 3 "the version coalesced"
is "$(json self_contained)" true self_contained
expect 0 kedge show -s store -n job --json
is "$(json lineage)" 1 "the lineage after coalescing"
expect 0 kedge gc -s store -n job --keep 1
expect 0 kedge ls -s store -n job --quiet
is "$(cat out)" 3 "what gc left"
expect 0 kedge restore -s store -n job -o three
same three/a.bin a.bin
same three/b.bin b.bin
expect 0 kedge verify -s store

expect 0 kedge info
printed zstd
expect 0 kedge info --json
json digest_kernel >/dev/null
expect 0 kedge help
expect 0 kedge help save
printed --reduce
