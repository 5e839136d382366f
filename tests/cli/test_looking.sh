# SPDX-License-Identifier: BSD-3-Clause
# A person looks at a store: what is there, what changed, what was said about it; names versions, and removes some.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# What is no store is said to be none.
mkdir empty other
echo x >other/file
for command in ls verify show log "tag x" gc "diff" "rm 1"; do
	for dir in empty other nothing; do
		expect 3 kedge $command -s $dir
	done
	said "no store at nothing"
done
expect 3 kedge ls -s empty
said "empty is not a store, but an empty directory"
expect 3 kedge ls -s other
said "other is a directory, but not a store; -s names a store"

# Five versions with notes.
random big 256 1
for v in 1 2 3 4 5; do
	cp big big.$v
	expect 0 kedge save -s store -n job -m "step $v" big
	random part 4 "$((v + 10))"
	dd if=part of=big bs=4096 seek=$((v * 7)) conv=notrunc 2>dd.log
done
expect 0 kedge save -s store -n other part
expect 0 kedge ls -s store
grep -q '^job  *5  *5 ' out || fail "no line of job: $(cat out)"
grep -q '^other  *1  *1 ' out || fail "no line of other: $(cat out)"
expect 0 kedge ls -s store -q
is "$(cat out)" "job
other" "the names"
expect 0 kedge ls -s store --json
is "$(json jobs.0.versions)" 5 "versions of job"
is "$(json jobs.0.stored_bytes)" "$(find store/job -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')" "every byte of job"
expect 0 kedge ls -s store -n job --json
is "$(json total_bytes)" "$(find store/job -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')" "every byte of job"
expect 0 kedge ls -s store -n job
printed FORM
printed "5 versions of job, "
is "$(awk '$1 == 1 { print $11, $12 }' out)" "- 1" "PARENT and LINEAGE of the first"
is "$(awk '$1 == 3 { print $11, $12 }' out)" "2 3" "PARENT and LINEAGE of the third"
# All of it changes: it refers to nothing, and has no parent.
random new 256 99
expect 0 kedge save -s store2 -n job --reduce basic big
expect 0 kedge save -s store2 -n job --reduce basic --set chunk=64 new
cp new big2
expect 0 kedge ls -s store2
printed "2 versions of job, " # the only job: its versions

# Notes, labels, names.
expect 0 kedge log -s store -n job
is "$(sed -n '1s/   .*//p;2p' out)" "version 5 (newest)
    step 5" "the newest in the log"
is "$(grep -c '^version' out)" 5 "versions in the log"
expect 0 kedge log -s store -n job -c 1 --json
is "$(json versions.0.note)" "step 5" "the note"
expect 0 kedge tag -s store -n job -v newest~3 good
printed "version 2 of job: label good"
expect 2 kedge tag -s store -n job good
said "version 2 already has the label 'good'; --move gives it to version 5"
expect 2 kedge tag -s store -n job 12
said "'12' cannot be a label"
expect 2 kedge tag -s store -n job newest
expect 0 kedge tag -s store -n job -v good best
expect 0 kedge tag -s store -n job
is "$(cat out)" "good 2
best 2" "the labels"
expect 0 kedge tag -s store -n job -v 2 -m "step two, looked at"
expect 0 kedge log -s store -n job
printed "version 2 (good best)"
printed "    step two, looked at"
expect 0 kedge show -s store -n job -v good --why
printed "version   2 of job"
printed "note      step two, looked at"
printed "lineage   all versions that a restore of this one reads"
for v in 2 newest~3 good 5~3 best~0; do
	expect 0 kedge restore -s store -n job -v "$v" -o back
	printed "version 2 of job"
	same back/big big.2
done
expect 0 kedge verify -s store -n job -v good
expect 3 kedge restore -s store -n job -v bad -o back
said "job has no version with the label 'bad'; 'kedge log' shows what there is"
expect 3 kedge restore -s store -n job -v 17 -o back
said "job has no version 17; it has versions 1 to 5"
expect 3 kedge show -s store -n job -v newest~5
said "job has no version newest~5: there are 4 before version 5"
expect 2 kedge show -s store -n job -v 'a b'
said "newest~2 (two before it), or a label"
expect 2 kedge save -s store -n job -m "$(printf 'two\nlines')" big
said "a note is one line of text"

# What changed, and not what did not.
echo same >same
expect 0 kedge save -s store -n two big same
flip big 5000
expect 0 kedge save -s store -n two big same
expect 0 kedge diff -s store -n two
printed "region 'big': changed"
printed "changed, 1 of 262144 bytes (0.00 %) in 1 range"
printed "  5000..5000 (1 byte)"
printed "versions 1 and 2 of two: 1 region changed"
if grep -q same out; then fail "diff shows what did not change"; fi
expect 0 kedge diff -s store -n two 1 newest --all
printed "region 'same': same"

# One in the middle goes; all others stay whole. A note and a label survive that their version is rewritten.
expect 0 kedge tag -s store -n job -v 4 four
expect 0 kedge rm -s store -n job 3
printed "1 version of job removed; 1 other needed it and was rewritten"
for v in 1 2 4 5; do
	expect 0 kedge restore -s store -n job -v "$v" -o back
	same back/big big.$v
done
expect 0 kedge log -s store -n job
printed "(four)"
printed "    step 4"
expect 3 kedge rm -s store -n job 3
KEDGE_FAULT=enospc@1+ expect 5 kedge rm -s store -n job --force 2
said "it needs a few KiB to begin; 'kedge gc' needs none"
expect 2 kedge rm -s store -n job
said "which versions?"
expect 0 kedge verify -s store -n job

# gc does what keep says, exactly; labels keep a version.
expect 2 kedge gc -s store -n job
said "Give --keep K, or set keep"
cp -r store copy
expect 0 kedge gc -s store -n job --keep 2 --dry-run
printed "until these are rewritten"
expect 0 env KEDGE_KEEP=2 kedge gc -s store -n job
printed "1 version removed: 1; 3 kept"
expect 0 kedge ls -s store -n job -q
is "$(cat out)" "2
4
5" "what is left: the newest two, and those with labels"
for v in good four newest; do
	expect 0 kedge restore -s store -n job -v $v -o back
done
same back/big big.5
expect 0 kedge tag -s store -n job -d good
printed "label good removed; its version stays"
expect 3 kedge tag -s store -n job -d good
expect 0 kedge tag -s store -n job -d best
expect 0 kedge tag -s store -n job -d four
expect 0 kedge gc -s store -n job -k 1
expect 0 kedge ls -s store -n job -q
is "$(cat out)" 5 "what is left of keep 1"
expect 0 kedge verify -s store
expect 0 kedge gc -s copy -n job -k 1 --no-rewrite
expect 0 kedge ls -s copy -n job -q
[ "$(wc -l <out)" -gt 1 ] || fail "--no-rewrite rewrote"

# A job goes as a whole.
expect 2 kedge rm -s store --all
expect 0 kedge rm -s store -n job --all
printed "job removed, with all its versions"
[ ! -e store/job ] || fail "something is left of job: $(find store/job)"
expect 0 kedge ls -s store -q
is "$(cat out)" "other
two" "the jobs that are left"

# With two levels: labels and notes are on both, and rm removes from both.
export KEDGE_L1=l1 KEDGE_L2=l2
for v in 1 2 3; do
	cp big.$v big
	expect 0 kedge save -n job -m "note $v" big
done
expect 0 kedge ls
printed "L1 L2"
expect 0 kedge log -s l2
printed "    note 2"
expect 0 kedge tag -v 2 mark
expect 0 kedge tag -s l2
is "$(cat out)" "mark 2" "the label on L2"
expect 0 kedge rm -f mark
for dir in l1 l2; do
	expect 0 kedge ls -s $dir -n job -q
	is "$(cat out)" "1
3" "versions on $dir"
	expect 0 kedge restore -s $dir -n job -v 3 -o back
	same back/big big.3
done

# ---- a version with a label goes only if that is what was meant
echo one >kept
kedge save -s labels -n mine -q kept
kedge tag -s labels -n mine -q first
kedge tag -s labels -n mine -q 'best'
echo two >kept
kedge save -s labels -n mine -q kept
expect 2 kedge rm -s labels -n mine 1 2
said "version 1 of mine has the labels first best"
said "--force"
is "$(kedge ls -s labels -n mine -q | tr '\n' ' ')" "1 2 " "versions after a refusal"
expect 0 kedge rm -s labels -n mine --force first
is "$(kedge ls -s labels -n mine -q)" 2 "versions after --force"
