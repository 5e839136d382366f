# SPDX-License-Identifier: BSD-3-Clause
# kedge-bench rex: every way gives back what it kept; figures that can be known beforehand; messages.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# Three moments of eight pages: two pages change each time, one comes in the second.
mkdir -p dumps/one dumps/two
image dumps/one/a 0x1000:1 0x2000:2 0x3000:3 0x4000:4 0x5000:5 0x6000:6 0x7000:7
image dumps/one/b 0x1000:11 0x2000:2 0x3000:3 0x4000:14 0x5000:5 0x6000:6 0x7000:7 0x9000:9
image dumps/one/c 0x1000:21 0x2000:2 0x3000:3 0x4000:24 0x5000:5 0x6000:6 0x7000:7 0x9000:9
image dumps/two/a 0x1000:1 0x2000:2
image dumps/two/b 0x1000:3 0x2000:4

expect 0 kedge-bench rex --images dumps --repeat 1 --dir . --json
silent
is "$(json images.0.name)" one "the first series"
is "$(json images.0.moments)" 3 "its moments"
is "$(json images.0.pages)" 8 "its pages"
is "$(json images.0.base_bytes)" $((7 * 4096)) "the bytes of its base"
is "$(json images.0.increment_bytes)" $((5 * 4096)) "the bytes of its increments"
is "$(json images.0.restored_increments)" 8 "the increments of the chain"
is "$(json images.0.back_and_forth)" true "whether the series is gone through again"
is "$(json images.1.name)" two "the second series"
# Forth and back: 7 + 3 + 2, then 2 back to b, 2 to a (its page 9 goes), 3 to b, 2 to c, 2 to b, 2 to a.
is "$(json images.0.chain_bytes)" $(((7 + 3 + 2 + 2 + 2 + 3 + 2 + 2 + 2) * 4096)) "the bytes of the chain"
is "$(json images.0.live_bytes)" $((7 * 4096)) "the bytes of the last moment"
is "$(json images.0.methods.0.method)" plain "the first way"
is "$(json images.0.methods.0.stored_base_bytes)" $((8 + 7 * 4104)) "what plain stores of the base"
is "$(json images.0.methods.0.stored_bytes)" $((8 + 3 * 4104 + 8 + 2 * 4104)) "what plain stores of the increments"
is "$(json images.0.methods.0.read_bytes | cut -d. -f1)" $((9 * 8 + 25 * 4104)) "what plain reads"
is "$(json images.0.methods.1.method)" checked "the second way"
is "$(json images.0.methods.1.stored_base_bytes)" $((8 + 7 * 4112)) "what checked stores of the base"
is "$(json images.0.methods.2.stored_base_bytes)" $((7 * 16 * 276)) "what libhash stores of the base"
is "$(json images.0.methods.8.method)" rex "the ninth way"
is "$(json images.0.methods.9.method)" rex+codec "the tenth way"
[ "$(json images.0.methods.8.read_bytes | cut -d. -f1)" -lt $((8 * 4096 + 20000)) ] ||
	fail "rex reads $(json images.0.methods.8.read_bytes) bytes for 7 pages"
json aims.0.met >/dev/null
json means.0.ratio >/dev/null
for place in storage 141 47 page_cache; do
	is "$(json images.0.methods.8.turns.$place)" 1 "turns from $place"
	json "images.0.methods.8.gain_lowest.$place" >/dev/null
	json "means.0.restore_seconds.$place" >/dev/null
done
# The bucket is empty at first and gives no more than its rate: that much the clock may be asked.
awk "BEGIN { exit !($(json images.0.methods.0.restore_seconds.47) > (25 * 4104 + 72) / 47e6) }" ||
	fail "plain reads at 47 MB/s in $(json images.0.methods.0.restore_seconds.47) s"
is "$(ls | tr '\n' ' ')" "dumps err one-page out " "what is left in the directory"

# In words, a few ways, one directory.
expect 0 kedge-bench rex --images dumps/two --only rex --repeat 1 --dir . --block 64k --codec zstd
printed "two: 2 moments, 2 pages; an increment has 100.0 % of them; all 8.00 KiB, the base 8.00 KiB"
printed "restored: base and 8 increments, the series back and forth"
printed "plain "
printed "rex+codec "
printed "rex: decompression, MB/s a thread"
grep -q bzip2 out && fail "a way that was not asked for"
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' out)" -le 100 ] || fail "lines are too long: $(cat out)"

# What is wrong is named.
mkdir empty single
expect 2 kedge-bench rex --images empty --dir .
said "empty has no page images (NAME.idx and NAME.pages)"
image single/a 0x1000:1
expect 2 kedge-bench rex --images single --dir .
said "single has 1 page images: it takes two at least"
image single/b 0x1001:1
expect 2 kedge-bench rex --images single --dir .
said "single/b.idx: entry 0: address 0x1001 is not a multiple of 4096"
expect 2 kedge-bench rex --images missing --dir .
said "there is no directory missing"
expect 2 kedge-bench rex --only rax
said "there is no way 'rax'"
expect 2 kedge-bench rex --change wards --dir .
said "there is no change 'wards'"
expect 2 kedge-bench rex --repeat 0
said "1 to 32 turns"
expect 0 kedge-bench rex --help
printed "kedge-bench rex --images dumps --repeat 5 --json"
[ -z "$(find . -name 'kedge-bench-*')" ] || fail "leftovers: $(find . -name 'kedge-bench-*')"
