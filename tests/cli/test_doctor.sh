# SPDX-License-Identifier: BSD-3-Clause
# `kedge doctor`: as this user and as an ordinary one, on stores that work, that cannot be written, and that are full.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# found LEVEL SUBJECT TEXT: a line of the last output.
found()
{
	awk -v level="$1" -v subject="$2" -v text="$3" 'substr($0, 1, 4) ~ "^" level " *$" && index(substr($0, 7), subject) == 1 && index($0, text) { n++ }
		END { exit !n }' out || fail "no '$1 $2 ... $3' in: $(cat out)"
}

# ---- mistakes
expect 2 kedge doctor --jsn
said "--json"
expect 1 kedge doctor --set no_such=1
found bad settings "no_such"
expect 1 kedge doctor --set l1=
found bad settings "l1 is empty"

# ---- nothing is there yet, and nothing is left behind
expect 0 kedge doctor -s new/store
silent
found ok settings "l1 = new/store"
found ok L1 "writes and syncs 16 MiB"
found no L2 "not configured"
printed "0 problems"
[ ! -e new ] || fail "a directory was made"
[ -z "$(find . -name 'kedge-doctor*')" ] || fail "a file was left behind"
expect 0 kedge doctor -s new/store -q
[ ! -s out ] || fail "--quiet is not quiet"

# ---- a store with a version, beside an L2 on the same file system
random f 60 1
expect 0 kedge save -s store -n job f
expect 0 kedge doctor -s store --set l2=l2
found ok L1 "free; a whole version of job takes up to"
found note L2 "it is on the file system of L1"
expect 0 kedge doctor -s store --json
is "$(json problems)" 0 "problems"
is "$(json symptoms.0.level) $(json symptoms.0.subject)" "ok settings" "the first"
expect 0 kedge doctor -s store --set sync=no
found note L1 "sync = no"
LD_PRELOAD='' expect 0 kedge doctor -s store --set metrics=/no/such/dir/file
found note metrics "/no/such/dir cannot be written to"

# ---- what is no store
mkdir other
echo x >other/file
expect 1 kedge doctor -s other
found bad L1 "other is no store"
expect 0 kedge doctor -s other --set init=yes
expect 1 kedge doctor -s other/file
found bad L1 "other/file"

# ---- a staging server that does not answer
expect 0 kedge info --json
if [ "$(json staging)" != no ]; then
	expect 1 kedge doctor -s store --set l2=l2 --set stage=127.0.0.1:1
	found bad staging "127.0.0.1:1"
fi

# ---- full: every write fails
KEDGE_FAULT=enospc@3+ expect 1 kedge doctor -s store
found bad L1 "No space left"

# ---- a directory that an ordinary user may not write to; root asks as nobody
mkdir -m 555 closed
if [ "$(id -u)" != 0 ]; then
	expect 1 kedge doctor -s closed/store
	found bad L1 "Permission denied"
elif command -v setpriv >/dev/null; then
	chmod 755 .
	got=0
	bin=$(command -v kedge) && setpriv --reuid=65534 --regid=65534 --clear-groups -- "$bin" doctor -s "$PWD/closed/store" >out 2>err || got=$?
	case $got in
	126 | 127) echo "skipped: as an ordinary user (the command or the directory is not nobody's to see)" ;;
	*)
		is "$got" 1 "the exit code for nobody"
		found bad L1 "Permission denied"
		;;
	esac
else
	echo "skipped: as an ordinary user (there is no setpriv)"
fi

# ---- a file system that really is full
if command -v unshare >/dev/null && unshare -rm true 2>/dev/null; then
	mkdir small
	cat >full.sh <<'END'
mount -t tmpfs -o size=4m tmpfs small || exit 99
kedge doctor -s small/store
END
	got=0
	unshare -rm sh full.sh >out 2>err || got=$?
	if [ $got -ne 99 ]; then
		is "$got" 1 "the exit code on a full file system"
		found note L1 "small is in memory (tmpfs)"
		found bad L1 "No space left"
	fi
else
	echo "skipped: a full file system (no user namespaces)"
fi
