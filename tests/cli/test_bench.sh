# SPDX-License-Identifier: BSD-3-Clause
# The benchmarks that move data: all of what they promise is there and consistent. How fast anything is, is not asked.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# near A B WHAT: equal, but for rounding.
near()
{
	awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-9 + 1e-6 * (b < 0 ? -b : b)) }' ||
		fail "$3 is $1, not $2"
}

expect 0 kedge-bench pipeline --size 256k --buffer 4k --buffer 64k --workers 2 --rate 0 --rate 64M --collect-rate 64M \
	--repeat 2 --json
is "$(json size)" 262144 size
is "$(json codec)" zstd:1 codec
# Two buffers, three pairs of rates, and in each: uncompressed, serial, and pipelined with one and with two workers.
is "$(json results)" 24 "the number of rows"
for i in 0 1 3 14 23; do
	row=results.$i
	case $(json $row.mode) in
	uncompressed) sum="$(json $row.collect_alone) + $(json $row.store_alone)" ;;
	serial) sum="$(json $row.collect_alone) + $(json $row.compress_alone) + $(json $row.store_alone)" ;;
	pipelined) sum= ;;
	*) fail "a mode $(json $row.mode)" ;;
	esac
	longest=$(printf '%s\n' "$(json $row.collect_alone)" "$(json $row.compress_alone)" "$(json $row.store_alone)" | sort -g | tail -n 1)
	[ -n "$sum" ] || sum=$longest
	near "$(json $row.predicted)" "$(awk "BEGIN { printf \"%.12g\", $sum }")" "what the model predicts of row $i"
	near "$(json $row.error)" "$(awk "BEGIN { printf \"%.12g\", $(json $row.predicted) / $(json $row.seconds) - 1 }")" "the error of row $i"
	near "$(json $row.over_slowest)" "$(awk "BEGIN { printf \"%.12g\", $(json $row.seconds) / $longest - 1 }")" "what row $i is over"
	for stage in collect compress store; do
		is "$(json $row.stages.$stage)" 4 "the number of figures of stage $stage"
	done
	json $row.model.saturation >/dev/null
	case $(json $row.bottleneck) in collect | compress | store) ;; *) fail "a bottleneck $(json $row.bottleneck)" ;; esac
done
is "$(json results.0.mode)" uncompressed "the first mode"
is "$(json results.2.workers)" 1 workers
is "$(json results.3.workers)" 2 workers
near "$(json results.0.ratio)" 1 "the ratio without compression"
# What is stored does not depend on who compresses it.
near "$(json results.3.ratio)" "$(json results.1.ratio)" "the ratio of the pipeline"
awk "BEGIN { exit !($(json results.1.ratio) < 0.9) }" || fail "nothing was compressed"
expect 0 kedge-bench pipeline --size 64k --buffer 4k --workers 1 --rate 0 --collect-rate 0 --repeat 1 --dir .
printed pipelined
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"

expect 0 kedge-bench pipeline --writers --dir . --size 256k --buffer 64k --repeat 2 --json
rows=$(json writers)
[ "$rows" -eq 8 ] || [ "$rows" -eq 4 ] || fail "$rows rows of writers"
for i in $(seq 0 $((rows - 1))); do
	row=writers.$i
	awk "BEGIN { exit !($(json $row.ratio_lowest) <= $(json $row.ratio) && $(json $row.ratio) <= $(json $row.ratio_highest)) }" ||
		fail "the ratio of row $i is not within its spread"
	awk "BEGIN { exit !($(json $row.seconds) > 0) }" || fail "row $i took no time"
done
is "$(json writers.0.writer)" pwrite "the first writer"
near "$(json writers.0.ratio)" 1 "the ratio of pwrite to itself"
is "$(json writers.$((rows - 1)).segment)" 65536 "the small segment"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
expect 2 kedge-bench pipeline --writers
said --dir

for pattern in runs scattered; do
	flag=
	[ $pattern = runs ] || flag=--scattered
	expect 0 kedge-bench restore --size 2M --versions 4 --percent 10 --repeat 3 --dir . $flag --json
	is "$(json pattern)" $pattern pattern
	is "$(json size)" 2097152 size
	[ "$(json bytes_read)" -ge 2097152 ] || fail "fewer bytes were read than there are"
	# Two threads may read the same page of a version, where what one fills ends and the other's begins.
	[ "$(json record_bytes)" -ge $(($(json bytes_read) * 9 / 10)) ] || fail "more was read than is stored"
	awk "BEGIN { exit !($(json ratio_lowest) <= $(json ratio) && $(json ratio) <= $(json ratio_highest)) }" ||
		fail "the ratio is not within its spread"
	awk "BEGIN { exit !($(json first_ratio_lowest) <= $(json first_ratio) && $(json first_ratio) <= $(json first_ratio_highest)) }" ||
		fail "the ratio to the first version is not within its spread"
done
expect 0 kedge-bench restore --size 1M --versions 3 --repeat 1 --dir . --codec zstd
printed "restore / read"
printed "of version 1"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"

for flag in "" --fresh; do
	expect 0 kedge-bench regions --count 3000 --bytes 24 --repeat 3 --dir . $flag --json
	is "$(json regions)" 3000 "the number of regions"
	for key in protect checkpoint checkpoint_first checkpoint_last write restart read; do
		json ${key}_seconds >/dev/null
	done
done
expect 0 kedge-bench regions --count 3000 --repeat 3 --changed 0 --dir . --json
[ "$(json metadata_bytes)" -lt 1000 ] || fail "regions that did not change take $(json metadata_bytes) bytes"
expect 0 kedge-bench regions --count 100 --repeat 1 --dir .
printed "100 regions of 64 B"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
expect 2 kedge-bench regions --count 0

expect 0 env TMPDIR=. kedge-bench capture --size 1MiB --repeat 1 --pages base --jobs --reducer rex --json
is "$(json reducer)" rex reducer
is "$(json results.0.who)" memcpy "the first row"
is "$(json results.1.who)" "job, sync" "the second row"
awk "BEGIN { exit !($(json results.1.seconds) > 0) }" || fail "a checkpoint took no time"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
expect 2 kedge-bench capture --reducer none
said '--reducer is full, basic, list, tree, rex or auto'

# The installed command has what users decide by, and says where the rest is.
for name in $(kedge-bench --help | sed -n '/^benchmarks:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
	expect 2 kedge bench "$name"
	said "$name is a developers' benchmark: build the source tree and run build/plain/bin/kedge-bench $name"
	grep -q "^## $name\$" "$KEDGE_SOURCE/docs/BENCHMARKS.md" || fail "docs/BENCHMARKS.md does not describe $name"
	expect 0 kedge-bench "$name" --help
	printed "usage: kedge-bench $name"
	# Every option is described, there or in a page of the manual.
	page=$KEDGE_SOURCE/docs/man/kedge-bench-$name.1
	sed -n "/^## $name\$/,/^## /p" "$KEDGE_SOURCE/docs/BENCHMARKS.md" >section
	[ ! -e "$page" ] || sed 's/\\-/-/g; s/\(--[a-z0-9-]*\)/`\1`/g' "$page" >>section
	for option in $(sed -n '/^options:/,/^example:/s/^ \{2,6\}\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' out); do
		[ "$option" = --help ] || grep -qF -- "\`$option\`" section || fail "docs/BENCHMARKS.md does not describe $option of $name"
	done
done
# Files of one's own, by all schemes. Other programs may not be there.
mkdir ranks
for r in 0 1 2 3 4 5 6 7 8 9; do
	cp "$KEDGE_SOURCE/tests/aggregate/files/one.nc" ranks/one.$r.nc
done
expect 0 kedge bench pack --quick --json --ranks 'one.{}.nc' --group 8 --dir . ranks
is "$(json rows.3.name)" off "the first scheme"
is "$(json rows.6.name)" aware "a scheme"
is "$(json rows.6.group)" 8 "its group"
[ "$(json rows.6.bytes)" -gt 0 ] || fail "nothing was stored"
json rows.6.unpack_one_seconds >/dev/null
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
expect 0 kedge bench pack --quick --dir . "$KEDGE_SOURCE/tests/aggregate/files/one.nc"
printed "OVER GZIP"
expect 2 kedge bench pack
expect 2 kedge bench pack --ranks 'one.{}.nc' --group none ranks
expect 2 kedge bench pack --group 1 ranks
said "--group needs --ranks"
expect 2 kedge bench pack --ranks 'two.{}' ranks
expect 5 kedge bench pack nowhere
mkdir empty
expect 3 kedge bench pack empty

# Whole processes. With a sanitizer in it, the program that is captured has terabytes of mappings.
expect 2 kedge bench process --dirty 0
said '--dirty takes a percentage'
expect 2 kedge bench process --size 5000
if [ -z "${SANITIZERS:-}" ] && [ "$(uname -m)" = x86_64 ]; then
	expect 0 kedge bench process --size 1MiB --repeat 1 --dirty 10 --writes --json --dir .
	is "$(json captures.0.dirty_bytes)" 102400 "pages that were changed"
	json captures.0.stop_over_memcpy >/dev/null
	[ "$(json captures.0.stored_bytes)" -lt "$(json first.stored_bytes)" ] || fail "nothing was stored again"
	is "$(json peers.1.name)" criu "a peer"
	json starts.0.restart_seconds >/dev/null
	[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
fi

expect 0 kedge bench --help
printed kedge-bench
printed levels
expect 2 kedge bench
expect 2 kedge bench codc
said "did you mean 'codec'"
expect 2 kedge-bench redcue
said "did you mean 'reduce'"
expect 2 kedge-bench

# The user's directories.
mkdir one two
expect 0 kedge bench levels one two --size 1M --changed 20 --repeat 2 --json
silent
is "$(json size)" 1048576 size
[ "$(json stored_bytes)" -lt 1000000 ] || fail "a version with a fifth changed takes $(json stored_bytes) bytes"
for name in plain_l1 checkpoint plain_l2 checkpoint_l2 plain_read restart; do
	awk "BEGIN { exit !($(json $name.seconds) > 0 && $(json $name.ratio_lowest) <= $(json $name.ratio_to_plain) &&
		$(json $name.ratio_to_plain) <= $(json $name.ratio_highest)) }" || fail "$name is not within its spread"
done
expect 0 kedge bench levels one --size 64k --repeat 1 --set codec=none --set capture=copy
printed "restart from L1, verified"
grep -q 'until it is on L2' out && fail "an L2 that was not given"
[ -z "$(ls one two | grep -v :)" ] || fail "files were left: $(ls one two)"
expect 2 kedge bench levels
said "one or two directories"
expect 2 kedge bench levels one --size 1000
expect 2 kedge bench levels one --repeat 0
expect 5 kedge bench levels missing --size 64k
said missing
expect 2 kedge bench levels one --size 64k --set codec=gzip
[ -z "$(ls one)" ] || fail "files were left: $(ls one)"

# Teams that protect segments on L1.
expect 0 kedge bench protect --size 1MiB --repeat 1 --protect rs:2+1 --json
silent
is "$(json results.5.what)" rebuild "what comes last"
awk "BEGIN { exit !($(json results.2.ratio) > 0 && $(json results.5.ratio) > 0) }" || fail "there is no ratio"
expect 0 kedge bench protect --size 1MiB --repeat 2 --protect partner
printed "encoding, inner loop alone"
expect 2 kedge bench protect --protect single
said "partner, xor:N or rs:K+M"
expect 2 kedge bench protect --size 1000
expect 2 kedge bench protect --repeat 65

# Every aim has a figure, and is met or not by that figure.
expect 0 kedge-bench aims --size 4MiB --repeat 1 --ranks 2 --memory . --disk . --json
aims=$(json aims)
[ "$aims" -ge 30 ] || fail "only $aims aims"
for i in $(seq 0 $((aims - 1))); do
	row=aims.$i
	value=$(json $row.value)
	case $value in null | '') fail "there is no figure for $(json $row.what)" ;; esac
	sense='<='
	[ "$(json $row.sense)" = 'at most' ] || sense='>='
	met=$(awk "BEGIN { print ($value $sense $(json $row.wanted) ? \"true\" : \"false\") }")
	is "$(json $row.met)" "$met" "whether $(json $row.what) is met"
done
is "$(json runs.scattered.pattern)" scattered "what the run of that name printed"
expect 0 kedge-bench aims --size 4MiB --repeat 1 --memory . --only in-runs
printed 'read of a copy'
expect 2 kedge-bench aims --only nothing
said "'nothing'"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"
