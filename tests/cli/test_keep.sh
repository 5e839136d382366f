# SPDX-License-Identifier: BSD-3-Clause
# What a job keeps is what is listed; gc does what keep says, and a rehearsal says why.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

cat >conf <<'CONF'
keep = 2 daily:3   # two, and one of each day
CONF
KEDGE_CONFIG=$PWD/conf
export KEDGE_CONFIG
for i in 1 2 3 4 5; do
	random f$i 40 $i
	expect 0 kedge save -s store -n job f*
	expect 0 kedge ls -s store -n job -q
	[ "$(wc -l <out)" -le 2 ] || fail "more than two versions are listed after version $i: $(cat out)"
done
is "$(tr '\n' ' ' <out)" "4 5 " "versions"
expect 0 kedge ls -s store
printed "2 versions of job"
printed "3 older ones stay for what these need of them (--all lists them)"
expect 0 kedge ls -s store -n job -a
is "$(grep -c needed out)" 3 "versions that others need"
expect 0 kedge ls -s store -n job --json
is "$(json needed)" 3 "versions that others need, in JSON"
is "$(json versions.1.version)" 5 "the second version that is listed"
expect 0 kedge log -s store -n job
is "$(grep -c '^version' out)" 2 "versions in the log"
expect 0 kedge restore -s store -n job -v newest~1 -o before
[ -e before/f4 ] && [ ! -e before/f5 ] || fail "newest~1 is not version 4"
expect 3 kedge restore -s store -n job -v newest~2 -o before
expect 0 kedge restore -s store -n job -v 2 -o two # as long as it is there
expect 0 kedge verify -s store -n job

# A rehearsal changes nothing, and says why.
expect 0 kedge gc -s store -n job --dry-run
is "$(sed -n 's/^ *1 .*\(goes\|stays\) *//p' out)" "nothing asks for it; version 2, which needs it, is rewritten" "why version 1 goes"
is "$(sed -n 's/^ *5 .*\(goes\|stays\) *//p' out)" "last, daily" "why version 5 stays"
expect 0 kedge gc -s store -n job --dry-run --no-rewrite --json
is "$(json versions.0.stays)" true "version 1 stays without rewriting"
is "$(json versions.0.why)" "nothing asks for it; version 2 needs it" "why version 1 stays"
is "$(json keep)" "2 daily:3" "what is kept"
expect 0 kedge ls -s store -n job -a -q
is "$(wc -l <out)" 5 "versions after rehearsals"

# Without a setting, what the job was told counts; what is wrong is said.
cp -r store other
expect 0 env KEDGE_CONFIG= kedge gc -s other -n job
expect 0 kedge ls -s other -n job -a -q
is "$(tr '\n' ' ' <out)" "4 5 " "versions after gc"
expect 2 kedge gc -s store -n job --keep 'daily:x'
said "'daily:x' does not say which versions to keep"
expect 2 kedge gc -s store -n job --keep 0
expect 2 kedge save -s store -n job --set keep=sometimes f1
said "'sometimes' does not say which versions to keep"

# Bytes, and a label that is stronger.
expect 0 kedge tag -s store -n job -v 1 first
expect 0 kedge gc -s store -n job --keep 'bytes:150k' --dry-run
expect 0 kedge gc -s store -n job --keep 'bytes:150k'
expect 0 kedge ls -s store -n job -a -q
is "$(tr '\n' ' ' <out)" "1 5 " "versions that fit"
expect 0 kedge gc -s store -n job --keep 1 --dry-run
printed "label"
expect 0 kedge restore -s store -n job -o back
same back/f5 f5
expect 0 kedge verify -s store -n job

# What a version with a label needs stays when newer versions are coalesced.
cp -r "$KEDGE_SOURCE/tests/golden/v1/batched" labelled
expect 0 kedge tag -s labelled -v 20 good
expect 0 kedge coalesce -s labelled --self-contained
expect 0 kedge verify -s labelled
expect 0 kedge restore -s labelled -v good -o good
