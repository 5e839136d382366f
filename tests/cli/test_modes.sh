# SPDX-License-Identifier: BSD-3-Clause
# Whatever the umask allows: what is stored, and what is restored from it, is its owner's alone.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

umask 0
random in 100
chmod 600 in
expect 0 kedge save -s deep/store -n job --set l2=second in
expect 0 kedge save -s deep/store -n job --set l2=second in
open=$(find deep second -perm /077)
[ -z "$open" ] || fail "others may use: $open"

expect 0 kedge restore -s deep/store -n job -o back
is "$(stat -c %a back/in)" 600 "the mode of a restored file"
is "$(stat -c %a back)" 700 "the mode of the directory of restored files"

# A file gets the mode that it was saved with.
chmod 644 back/in
printf x >>back/in
expect 0 kedge restore -s deep/store -n job -o back
same in back/in
is "$(stat -c %a back/in)" 600 "the mode of a replaced file"

# Where nobody knows it, as for regions of a program, a file that is replaced has settled who may read it.
"$CRAFT" crafted job region good
expect 0 kedge restore -s crafted -n job -o program
is "$(stat -c %a program/good)" 600 "the mode of a region"
chmod 644 program/good
expect 0 kedge restore -s crafted -n job -o program
is "$(stat -c %a program/good)" 644 "the mode of a replaced region"

# A picture is no secret.
umask 022
expect 0 kedge diff -s deep/store -n job 1 2 --svg picture.svg
is "$(stat -c %a picture.svg)" 644 "the mode of a drawing"

# A store with other modes is used as it is.
chmod -R u=rwX,go=rX deep
expect 0 kedge save -s deep/store -n job in
expect 0 kedge verify -s deep/store -n job
