# SPDX-License-Identifier: BSD-3-Clause
# --equal: what files keep packed is unpacked, and packed again. Whoever reads them sees no difference; where the libraries are the same,
# not even in bytes; and what cannot be treated this way comes back as it was.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

KEDGE_SYNC=no
TMPDIR=$PWD/tmp
export KEDGE_SYNC TMPDIR
mkdir tmp
files=$KEDGE_SOURCE/tests/aggregate/files
equal() { "$BUILD_DIR/tests/equal/test_equal" "$@"; }
kedge info | grep -q '^filters .*deflate' || exit 77

# clean DIR WHEN: nothing temporary is left.
clean()
{
	[ -z "$(find "$1" tmp -name '*kedge-*')" ] || fail "left behind $2: $(find "$1" tmp -name '*kedge-*')"
}

# What was packed before this build.
expect 0 kedge unpack "$KEDGE_SOURCE/tests/equal/golden.kpk" -o golden
same golden/old.h5 "$files/old.h5"
expect 0 kedge show "$KEDGE_SOURCE/tests/equal/golden.kpk" --files
printed 'old.h5 (equal)'

# Files that are kept: the same bytes.
mkdir in
cp "$files"/* in/
random in/noise 100
: >in/nothing
head -c 20000 "$files/new.h5" >in/short.h5
ln in/new.h5 in/second
expect 0 kedge pack --equal in -o x.kpk
printed ' equal)'
expect 0 kedge pack in -o exact.kpk
expect 0 kedge unpack x.kpk -o back
diff -r in back/in || fail "not what it was"
clean . "by pack and unpack"

# What looks into it.
expect 0 kedge ls x.kpk
printed 'in/old.h5 (equal)'
is "$(grep -c '(equal)' out)" 2 "the number of files that were unpacked"
grep 'in/old.h5' out | grep -q " $(stat -c %s in/old.h5) " || fail "the size of a file is not that of the file: $(cat out)"
expect 0 kedge ls --json x.kpk
expect 0 kedge show x.kpk
printed 'fixed_packed_f64_Array1D'
expect 0 kedge verify x.kpk
expect 0 kedge cat x.kpk in/new.h5
same out in/new.h5
expect 0 kedge unpack x.kpk -o one in/second # another name of a file that is not asked for
same one/in/second in/new.h5
expect 0 kedge unpack --json x.kpk -o json
is "$(json bytes)" "$(find in -type f ! -name second -exec stat -c %s {} + | awk '{n += $1} END {print n}')" "bytes that were restored"

# In a store: files that are as they were stay in the form that they have, but never where the very bytes are asked for.
expect 0 kedge save --equal -s store -n job in
printed ' equal)'
turns=0 unchanged=0
while [ "$unchanged" -lt "$(find in -type f ! -name second | wc -l)" ]; do # as soon as their times can be relied on
	expect 0 kedge save --equal -s store -n job --json in
	is "$(json equal)" 2 "files that stay unpacked"
	unchanged=$(json unchanged) turns=$((turns + 1))
	[ $turns -lt 50 ] || fail "only $unchanged files are unchanged"
done
newest=$(json version)
expect 0 kedge restore -s store -n job -o again
diff -r in again/in || fail "an unchanged version differs"
expect 0 kedge save -s store -n job --json in
is "$(json unchanged)" $((unchanged - 2)) "files that are not read again without --equal"
expect 0 kedge restore -s store -n job -o exact
diff -r in exact/in || fail "saved as it is, a file differs"
expect 0 kedge show -s store -n job --files
grep -q '(equal)' out && fail "without --equal a file is unpacked"
expect 0 kedge diff -s store -n job "$newest" $((newest + 1))
printed 'saved with --equal, now as it is: not compared'
! grep '^region' out || fail "forms were compared"
printed ': 0 regions changed, 0 bytes'
expect 1 kedge diff -q --exit-code -s store -n job "$newest" $((newest + 1))
expect 0 kedge diff --json -s store -n job "$newest" $((newest + 1))
is "$(json same) $(json changed_regions)" "false 0" "what is not compared"
expect 0 kedge restore -s store -n job -v 1 -o - in/old.h5
same out in/old.h5
expect 0 kedge verify -s store -n job
expect 0 kedge coalesce -s store -n job -v "$newest"
expect 0 kedge restore -s store -n job -v "$newest" -o coalesced
diff -r in coalesced/in || fail "coalesced, it differs"
kedge save -q --equal -s store -n pipe --stdin-name a.h5 - <in/new.h5
expect 0 kedge restore -s store -n pipe -o piped
same piped/a.h5 in/new.h5

# Watched.
mkdir watched
cp in/old.h5 watched/step1.h5
expect 0 kedge watch watched -s store -n watched --files 'step{}.h5' --count 1 --equal --once
expect 0 kedge show -s store -n watched --files
printed 'step1.h5 (equal)'

# A byte of the pack that changed: a file that it is in is missing, and the others are right. The same if what says which
# form files have is lost.
bytes=$(stat -c %s x.kpk)
at=70
while [ $at -lt "$bytes" ]; do
	cp x.kpk bad.kpk
	flip bad.kpk $at
	rm -rf got && mkdir got
	kedge unpack bad.kpk -o got >out 2>err && fail "no word of byte $at, which changed"
	(cd got && find . -type f) | while read -r file; do
		cmp -s "got/$file" "$file" || fail "$file is wrong with byte $at changed"
	done
	clean got "with byte $at changed"
	at=$((at + bytes / $(every 12 4)))
done

# A full disk and a kill at each call: no file that is not right.
mkdir small
cp in/old.h5 in/new.h5 small/
kedge pack -q --equal small -o s.kpk
for action in enospc kill; do
	n=1
	while :; do
		rm -rf got && mkdir got
		code=0
		KEDGE_FAULT=$action@$n kedge unpack s.kpk -o got >out 2>err || code=$?
		find got -name '*.h5' | while read -r file; do
			cmp -s "$file" "${file#got/}" || fail "$file is wrong after $action@$n"
		done
		[ $code -eq 0 ] && break
		[ $action = kill ] || clean got "after $action@$n"
		n=$((n + $(every 17 43)))
		[ $n -lt 1000 ] || fail "unpack never succeeds"
	done
	same got/small/new.h5 small/new.h5
	n=1
	while :; do
		rm -f p.kpk
		code=0
		KEDGE_FAULT=$action@$n kedge pack --equal small -o p.kpk >out 2>err || code=$?
		[ ! -e p.kpk ] || kedge unpack -qf p.kpk -o got || fail "a broken pack after $action@$n"
		[ ! -e p.kpk ] || diff -r small got/small || fail "a wrong pack after $action@$n"
		[ $code -eq 0 ] && ! grep -q 'stays as it is' err && break
		n=$((n + $(every 29 67)))
		[ $n -lt 1000 ] || fail "pack never succeeds"
	done
	rm -rf .kedge-pack* tmp/*
done

# No room for copies: the file is taken as it is.
chmod 500 tmp
if [ "$(id -u)" -ne 0 ]; then
	expect 0 kedge pack --equal small -o p.kpk --force
	said 'stays as it is'
	expect 0 kedge unpack -f p.kpk -o got
	diff -r small got/small || fail "without room for copies, something else comes back"
fi
chmod 700 tmp

if ! /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null || ! h5diff --version >/dev/null 2>&1; then
	echo "without python3-h5py and hdf5-tools, only files that are kept are tried" >&2
	exit 0
fi
maker() { /usr/bin/python3 "$KEDGE_SOURCE/tests/cli/equal_files.py" "$@"; }

# alike A B: to h5diff, and to h5dump but for the sizes of chunks. What h5py sees of them is compared later, all at once.
pairs=
alike()
{
	(cd "$(dirname "$1")" && h5diff "$(basename "$1")" "$2") >out 2>err || fail "$1: h5diff sees $(cat out err)"
	h5dump -p -H -A "$1" | sed '1d; s/SIZE .*//' >dump.a
	h5dump -p -H -A "$2" | sed '1d; s/SIZE .*//' >dump.b
	same dump.a dump.b
	pairs="$pairs $1 $2"
}

# All that the libraries can write.
maker make made
expect 0 kedge pack --equal made -o made.kpk
said 'made/lzf.h5 stays as it is: its filters are not known here'
is "$(grep -c 'stays as it is' err)" 1 "the number of notes"
expect 0 kedge pack -q --equal made -o made2.kpk
silent
expect 0 kedge ls made.kpk
for f in made/*; do
	case $f in
	*.raw | */lzf.h5 | */unpacked.h5) form=as-it-is ;;
	*) form=equal ;;
	esac
	grep -q "$f (equal)" out && is equal $form "the form of $f" || is as-it-is $form "the form of $f"
done
expect 0 kedge unpack made.kpk -o back
for f in made/*; do
	[ "$f" = made/foreign.h5 ] || same "$f" "back/$f"
done
cmp -s made/foreign.h5 back/made/foreign.h5 && fail "streams of others are packed in the same way here"
alike made/foreign.h5 "$PWD/back/made/foreign.h5"
expect 0 kedge cat made.kpk made/old.h5:/shuffled
cp out shuffled
expect 0 kedge cat made2.kpk made/new.h5:/shuffled
same out shuffled

# Where libraries pack less well than those that wrote the files: every chunk has another place, by every kind of index.
mkdir moved
for f in old.h5 new.h5 user.h5 foreign.h5 short.h5 four.nc; do
	[ -e made/$f ] || continue
	KEDGE_TEST_EQUAL=$PWD/made/$f KEDGE_TEST_EQUAL_TO=$PWD/moved/$f equal --case test_given_file >out 2>&1 || fail "$f: $(cat out)"
	alike made/$f "$PWD/moved/$f"
done
# shellcheck disable=SC2086
maker compare $pairs >out 2>&1 || fail "$(head -5 out)"
maker compare made/old.h5 made/new.h5 >out 2>&1 && fail "the comparison sees nothing"
[ ! -e made/four.nc ] || /usr/bin/python3 -c '
import netCDF4
d = netCDF4.Dataset("moved/four.nc")
assert d["t"].units == "K" and d["t"][:].shape == (20, 50)' || fail "netCDF does not read it"

# A file that is changed while it is read, if there is time for it: it comes back as it was, or as it is. And memory does not
# grow with a file.
maker large large.h5 $(every 64 16)
cp large.h5 before
kedge pack --equal large.h5 -o large.kpk >out 2>err &
packer=$!
until [ -n "$(find /proc/[0-9]*/fd -lname "$TMPDIR/kedge-*" 2>/dev/null | head -1)" ] || ! kill -0 $packer 2>/dev/null; do :; done
printf more >>large.h5
got=0
wait $packer || got=$?
[ $got -le 1 ] || fail "exit code $got: $(cat err)"
expect 0 kedge unpack large.kpk -o changed
cmp -s changed/large.h5 large.h5 || cmp -s changed/large.h5 before || fail "it is neither what it was nor what it is"
if [ -z "${SANITIZERS:-}" ]; then
	KEDGE_FAULT=room@80000000 expect 0 kedge pack --equal large.h5 -o large.kpk --force --set threads=2
	printed '(1 equal)'
	KEDGE_FAULT=room@80000000 expect 0 kedge unpack large.kpk -o large --set threads=2
	same large.h5 large/large.h5
fi

# Real ones, where they are.
data=$KEDGE_SOURCE/../shared/data
if [ ! -x "$data/unpack" ] || ! command -v zstd >/dev/null; then
	echo "athena_ot and enzo_implosion_64 are not there: not tried" >&2
	exit 0
fi
"$data/unpack" sets athena_ot enzo_implosion_64
mkdir -p real
for f in $(find sets -name '*out2.0000[23].athdf') $(find sets -path '*DD0002*' -name '*.cpu000?'); do
	h5repack -f SHUF -f GZIP=6 "$f" "real/$(basename "$(dirname "$f")")-$(basename "$f")"
done
expect 0 kedge pack --equal --json real -o real.kpk
is "$(json equal)" "$(json files)" "real files that are unpacked"
small=$(json stored_bytes)
expect 0 kedge pack --json real -o as-is.kpk
[ "$small" -lt "$(json stored_bytes)" ] || fail "$small bytes with --equal, $(json stored_bytes) without"
expect 0 kedge unpack real.kpk -o back
diff -r real back/real || fail "real files differ"
