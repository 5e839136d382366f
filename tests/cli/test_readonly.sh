# SPDX-License-Identifier: BSD-3-Clause
# A store that one may read and not write: looking works, changing is refused.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# Root may write anything: become somebody else for the tests of it.
as_other=
if [ "$(id -u)" -eq 0 ]; then
	command -v setpriv >/dev/null || exit 77
	as_other="setpriv --reuid 65534 --regid 65534 --clear-groups"
	chmod 755 .
fi
mkdir bin home
cp "$KEDGE_BIN" bin/kedge
chmod 777 home
$as_other "$PWD/bin/kedge" --version >/dev/null 2>&1 || exit 77

random f 50
expect 0 kedge save -s store -n job f
expect 0 kedge save -s store -n job f
chmod -R a+rX,a-w store
run()
{
	code=$1
	shift
	expect "$code" $as_other "$PWD/bin/kedge" "$@"
}
run 0 ls -s store -n job
run 0 show -s store -n job
run 0 verify -s store
run 0 diff -s store -n job 1 2
run 0 restore -s store -n job -o home/back
same home/back/f f
run 5 save -s store -n job f
said "kedge save: nothing was saved: "
run 5 gc -s store -n job --keep 1
run 5 coalesce -s store -n job --self-contained

# One that somebody else may not even look into is not "no store".
if [ -n "$as_other" ]; then
	chmod u+w,go-rwx store
	run 5 ls -s store -n job
	said "cannot read store store: Permission denied"
	chmod a+rX,a-w store
fi
mkdir locked
chmod 555 locked
run 5 save -s locked/store -n job f
run 5 restore -s store -n job -o locked/back
expect 0 kedge verify -s store
