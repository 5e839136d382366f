# SPDX-License-Identifier: BSD-3-Clause
# Damage of all kinds: found, named, and fallen back from.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random f 100 1
random g 100 2
expect 0 kedge save -s store -n job --reduce full --codec none f g
cp -r store good
cp f f1
flip f 10
expect 0 kedge save -s store -n job --reduce full --codec none f g
cp -r store both
newest=$(segments store | tail -n 1)

flip "$newest" 150000
expect 1 kedge verify -s store -n job
printed "version 2"
printed "$newest"
printed "block 1"
printed "region 'g'"
printed "lost: version 2"
printed "kedge restore -v 1"
expect 1 kedge verify -s store -n job --quick
printed "lost: version 2"
printed "only stored bytes were checked"
expect 1 kedge verify -s store -n job --json
is "$(json quick)" false quick
is "$(json intact)" false intact
is "$(json findings.0.region)" g "the region damaged"
is "$(json findings.0.version)" 2 "the version damaged"
is "$(json findings.0.file)" "$newest" "the file damaged"
[ "$(json findings.0.block)" -ge 0 ] || fail "no block"
is "$(json lost.0.version)" 2 "the version lost"
expect 0 kedge verify -s store -n job -v 1

# The newest that is intact; with -v there is no way round.
expect 0 kedge restore -s store -n job -o back
said "skipping version 2"
same back/f f1
expect 0 kedge restore -s store -n job -o back --quiet
silent
expect 0 kedge restore -s store -n job -o back --json
is "$(json version)" 1 "the version restored"
is "$(json passed_over.0.version)" 2 "the version passed over"
expect 6 kedge restore -s store -n job -v 2 -o none
[ ! -e none ] || fail "a directory for a damaged version was left"
# A region that is not damaged can still be had.
expect 0 kedge restore -s store -n job -v 2 -o part f
same part/f f

# A second level has it.
expect 0 kedge restore -s store --l2 both -n job -v 2 -o level
same level/f f
same level/g g
rm -r store/job
expect 0 kedge restore -s store --l2 both -n job -o level2
same level2/g g
expect 0 kedge restore -s nowhere --l2 both -n job -o level3
same level3/g g

# Cut short, emptied, missing, manifest damaged.
rm -rf store && cp -r both store
newest=$(segments store | tail -n 1)
size=$(wc -c <"$newest")
for cut in $((size - 1)) 100 0; do
	cp "$(segments both | tail -n 1)" "$newest"
	truncate -s $cut "$newest"
	expect 1 kedge verify -s store
	printed "$newest"
	# Only a long listing looks at each file.
	expect 0 kedge ls -s store -n job -l
	printed incomplete
	printed "$newest has $cut bytes instead of $size"
	expect 0 kedge ls -s store -n job
	is "$(grep -cw sealed out)" 2 "versions that have files"
	expect 0 kedge restore -s store -n job -o cut
	same cut/f f1
	expect 6 kedge show -s store -n job -v 2
done
rm "$newest"
expect 1 kedge verify -s store
expect 0 kedge ls -s store -n job -l
printed incomplete
expect 6 kedge restore -s store -n job -v 2 -o cut
rm -rf store && cp -r both store
flip "$(find store -name 'set-*2')" 20
expect 1 kedge verify -s store
expect 0 kedge ls -s store -n job
printed damaged
is "$(awk '$NF == "damaged" { $1 = ""; print }' out)" " ? ? ? ? ? ? ? ? ? damaged" "what is known of a version without a manifest"
expect 0 kedge restore -s store -n job -o cut
same cut/f f1
for m in $(find store -name 'set-*'); do
	: >"$m"
done
expect 6 kedge restore -s store -n job -o cut
said "no version is intact"
sed -n 's/.*skipping //p' err >causes
expect 6 kedge restore -q -s store -n job -o no
said "no version is intact"
sed -n 's/^kedge restore: \(version [0-9]*: \)/\1/p' err | cmp - causes || fail "causes with --quiet: $(cat err)"

# The number of a version whose manifest is damaged is taken, and saving goes on.
rm -rf store && cp -r both store
flip "$(find store -name 'set-*2')" 20
expect 2 kedge save -s store -n job -v 2 f
said "job already has versions up to 2"
expect 0 kedge save -s store -n job f
printed "version 3 of job"
expect 0 kedge restore -s store -n job -o went-on
same went-on/f f

# What does not come leaves no directories behind; what was there stays.
rm -rf deep got && mkdir -p tree/a/b tree/c got/tree/c
random tree/a/b/f 100
expect 0 kedge save -s deep -n job tree
flip "$(segments deep)" 50000
expect 6 kedge restore -s deep -n job -o got
is "$(find got | sort | paste -sd ' ')" "got got/tree got/tree/c" "what is left of a restore that failed"

# Every byte of a small store counts.
rm -rf tiny
printf 'a small file, saved twice' >t
expect 0 kedge save -s tiny -n job t
for file in $(find tiny -type f -name '*.seg') $(find tiny -name 'set-*') tiny/kedge-store; do
	size=$(wc -c <"$file")
	at=0
	cp "$file" whole
	while [ $at -lt "$size" ]; do
		flip "$file" $at
		got=0
		kedge verify -s tiny -n job -q >/dev/null 2>&1 || got=$?
		[ $got -ne 0 ] || fail "byte $at of $file was flipped and not noticed"
		cp whole "$file"
		at=$((at + $(every 7 41)))
	done
done
expect 0 kedge verify -s tiny
printed "versions that can be restored: 1, lost: 0"
expect 0 kedge verify -s tiny --quick --json
is "$(json quick)" true quick
is "$(json blocks_unpacked)" 0 "the number of blocks unpacked"

# A file of no version is told, and is no damage.
touch tiny/job/left
expect 0 kedge verify -s tiny
printed "stray: tiny/job/left"
expect 0 kedge verify -s tiny --json
is "$(json strays.0.file)" tiny/job/left "the stray file"
is "$(json findings)" 0 "the number of findings"
