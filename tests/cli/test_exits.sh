# SPDX-License-Identifier: BSD-3-Clause
# Every exit code, and the form of the message that goes with it.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random f 64
expect 0 kedge save -s store -n job f
expect 0 kedge save -s store -n job f

expect 3 kedge ls -s nowhere
expect 3 kedge restore -s nowhere -n job -o out.d
expect 3 kedge ls -s store -n jub
said job
expect 3 kedge restore -s store -n job -v 7 -o out.d
said "kedge restore: job has no version 7"
expect 3 kedge restore -s store -n job --rank 1 -o out.d
expect 3 kedge restore -s store -n job -o out.d nothing
said "no file or region 'nothing'"
[ -z "$(ls -A out.d)" ] || fail "files were restored in spite of an error"
expect 3 kedge show -s store -n job -v 9
expect 3 kedge show -s store -n job --rank 3
expect 3 kedge diff -s store -n job 1 9
expect 3 kedge verify -s store -n job -v 9
expect 3 kedge gc -s store -n jub --keep 1
expect 3 kedge coalesce -s store -n job -v 9

mkfifo pipe ready
"$CRAFT" store job hold <pipe >ready &
holder=$!
exec 3>pipe
read -r word <ready
is "$word" held "the holder's word"
expect 4 kedge save -s store -n job f
said "in use"
expect 0 kedge ls -s store -n job
expect 0 kedge restore -s store -n job -o beside
same beside/f f
expect 4 kedge rm -s store -n job 1
said "in use"
expect 0 kedge tag -s store -n job mark
expect 0 kedge gc -s store -n job --keep 2
expect 0 kedge coalesce -s store -n job --self-contained --keep-old
expect 0 kedge verify -s store
exec 3>&-
wait $holder
expect 0 kedge save -s store -n job f

expect 5 kedge save -s store -n job missing
said "kedge save: nothing was saved: cannot open missing: No such file or directory"
expect 2 kedge save -s store -n job store
expect 5 kedge save -s store -n job pipe
expect 5 kedge save -s store -n job /dev/null
echo x >file
expect 5 kedge restore -s store -n job -o file
expect 5 kedge save -s file/store -n job f
expect 5 env KEDGE_FAULT=enospc@3+ kedge save -s fresh -n job f
said "kedge save: nothing was saved: cannot"
expect 5 env KEDGE_FAULT=enospc@2+ kedge restore -s store -n job -o full
# What is to be kept needs what is to go, and there is no room to rewrite it.
for i in 1 2; do
	echo $i >>f
	expect 0 kedge save -s chain -n job f
done
expect 5 env KEDGE_FAULT=enospc@3+ kedge gc -s chain -n job --keep 1
said 'older versions stay'
! grep -q 'no error' err || fail "gc does not know why: $(cat err)"
expect 0 kedge restore -s chain -n job -o chained
same chained/f f
expect 0 kedge gc -s chain -n job --keep 1
[ -z "$(find full -type f 2>/dev/null)" ] || fail "files were left on a full disk"
expect 5 kedge diff -s store -n job 1 2 --svg no/such/place.svg

last=$(segments store | tail -n 1)
: >"$last"
expect 6 kedge restore -s store -n job -v 3 -o out.d
expect 1 kedge verify -s store -n job
expect 7 env KEDGE_FAULT=alloc@1 kedge ls -s store
