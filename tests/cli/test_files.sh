# SPDX-License-Identifier: BSD-3-Clause
# Directories and many files: what is kept of them, what is read again, what is left out, and what comes back.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

nl='
'
KEDGE_SYNC=no # except at the end: others may be writing to the same disk
export KEDGE_SYNC
# what DIR: all that a directory is, but for the times of links to one file and what only root can give.
what()
{
	(cd "$1" && find . -mindepth 1 -printf '%p|%y|%m|%T@|%l|%n|%s\n' | sed 's/|d|\([0-9]*\)|\(.*\)|[0-9]*$/|d|\1|\2/' | sort)
}

mkdir -p in/sub/deep in/empty in/many
printf a >in/a
printf b >in/sub/b
: >in/sub/nothing
printf c >"in/sub/deep/new${nl}line"
printf d >in/-dash
printf e >"in/$(printf 'bytes\377')" 2>/dev/null || :
random in/big 300
ln in/big in/sub/second
ln in/big in/third
ln -s a in/link
ln -s nowhere/at/all in/dangling
ln -s /etc in/outside
chmod 4755 in/a
chmod 500 in/sub/b
chmod 1770 in/empty
touch -d '2001-02-03 04:05:06.123456789' in/a in/sub/b
touch -h -d '1969-12-31 23:59:59.5' in/link
touch -d '1999-09-09' in/sub/deep in/empty
(cd in/many && seq 1 200 | split -l 1 -a 4 - f)
if command -v setfattr >/dev/null && setfattr -n user.note -v hello in/a 2>/dev/null; then attributes=yes; else attributes=; fi

# With few files open.
(ulimit -n 64 && kedge save -s store -n job in) >out 2>err || fail "cannot save: $(cat err)"
silent
expect 0 kedge restore -s store -n job -o back
silent
what in >in.what
what back/in >back.what
cmp in.what back.what || fail "not all came back: $(diff in.what back.what)"
diff -r --no-dereference in back/in >/dev/null || fail "files differ"
[ back/in/big -ef back/in/sub/second ] && [ back/in/big -ef back/in/third ] || fail "links are copies"
[ -z "$attributes" ] || is "$(getfattr --only-values -n user.note back/in/a)" hello "an attribute"
expect 0 kedge show -s store -n job --files
printed "-rwsr-xr-x"
printed "in/link -> a"
printed "in/third link to in/big"
expect 0 kedge show -s store -n job --files --json
json 0.mode >/dev/null

# Again: what nobody touched is not read, and takes next to no room. A file that changed just before it was saved is looked
# at once more, which takes as many saves as it takes time.
turns=0
expect 0 kedge save -s store -n job --json in
while [ "$(json unchanged)" != "$(json files)" ]; do
	turns=$((turns + 1))
	[ $turns -lt 50 ] || fail "only $(json unchanged) of $(json files) files are unchanged"
	expect 0 kedge save -s store -n job --json in
done
expect 0 kedge save -s store -n job --json in
files=$(json files)
is "$(json literal_bytes)" 0 "the new bytes of no change"
[ "$(json stored_bytes)" -le $((50 * files)) ] || fail "$(json stored_bytes) bytes for $files unchanged files"
expect 0 kedge save -s store -n job --json --force in
is "$(json unchanged)" 0 "the files that are not read with --force"
is "$(json literal_bytes)" 0 "the new bytes of no change, read again"
expect 0 kedge save -s store -n job in

# One file changes, with the same size; one comes, one goes. Little is new, and each version is what it was.
old=$(kedge ls -s store -n job --quiet | tail -n 1)
printf A >in/a
printf new >in/new
rm in/many/faaaa
chmod 711 in/sub
expect 0 kedge save -s store -n job --json in
is "$(json unchanged)" $((files - 2)) "the files that are unchanged"
[ "$(json literal_bytes)" -lt 3000 ] || fail "$(json literal_bytes) new bytes"
what in >in.what
rm -r back
expect 0 kedge restore -s store -n job -o back
what back/in >back.what
cmp in.what back.what || fail "not all came back: $(diff in.what back.what)"
expect 0 kedge restore -s store -n job -v "$old" -o older in/a in/many/faaaa
is "$(cat older/in/a)" a "the file before it changed"
is "$(cat older/in/many/faaaa)" 1 "the file that is gone"
expect 0 kedge diff -s store -n job "$old" $((old + 1))
printed "region 'in/a': changed, 1 of 1 byte"
printed "'in/sub': mode"
grep -q tree out && fail "the tree of files is shown as a region: $(cat out)"
expect 0 kedge verify -s store
expect 0 kedge gc -s store -n job --keep 1
expect 0 kedge restore -s store -n job -o kept
what kept/in >back.what
cmp in.what back.what || fail "gc changed something: $(diff in.what back.what)"

# A part: a directory, a pattern, another name of a file, standard output.
expect 0 kedge restore -s store -n job -o part in/sub 'f*z' in/third
[ -f part/in/sub/b ] && [ -f part/in/many/faaaz ] && [ ! -e part/in/many/faaab ] && [ ! -e part/in/a ] ||
	fail "another part was restored: $(find part)"
same in/big part/in/third
is "$(stat -c %a part/in/sub)" 711 "the mode of a directory"
is "$(stat -c %h part/in/third)" 2 "the names of a file of which another one was not wanted"
expect 0 kedge restore -s store -n job -o all .
what all/in >back.what
cmp in.what back.what || fail "'.' is not all of it"
expect 0 kedge restore -s store -n job -o - in/sub/second
same in/big out
expect 0 kedge restore -s store -n job -o - 'in/sub/[b]'
is "$(cat out)" b "a file on standard output"
expect 2 kedge restore -s store -n job -o -
expect 3 kedge restore -s store -n job -o part in/nothing
said "it has no file or region 'in/nothing'"
expect 3 kedge restore -s store -n job -o part '*.none'

# A link that is in the way is not followed, and nothing else is.
mkdir trap elsewhere
ln -s ../elsewhere trap/in
expect 7 kedge restore -s store -n job -o trap
said "symbolic link"
[ -z "$(ls -A elsewhere)" ] || fail "written elsewhere: $(ls -A elsewhere)"

# Patterns.
mkdir -p tree/keep/cache tree/cache tree/src
for f in tree/a.o tree/a.c tree/src/b.o tree/src/b.c tree/keep/cache/x tree/cache/y tree/src/cache; do
	echo $f >$f
done
printf '# objects\n*.o\n\n' >patterns
expect 0 kedge save -s patterns.store -n job --exclude cache/ --exclude /tree/src/b.c --exclude-from patterns tree
expect 0 kedge restore -s patterns.store -n job -o left
is "$(cd left && find . -type f | sort | tr '\n' ' ')" "./tree/a.c ./tree/src/cache " "the files that are left"
expect 0 kedge save -s patterns.store -n job --exclude 'tree/**/x' tree
expect 0 kedge restore -s patterns.store -n job -o left2
[ ! -e left2/tree/keep/cache/x ] && [ -e left2/tree/cache/y ] || fail "** fits something else"

# Lists of names, whatever is in them; what is not there is named, and the rest is saved.
(cd in && find . -type f -newer a -print0) >names
expect 0 sh -c 'find in/sub -print0 | kedge save -s lists -n job --null --files-from -'
expect 0 kedge restore -s lists -n job -o listed
what in/sub | sed 's/|3|/|1|/' >in.what
what listed/in/sub >back.what
cmp in.what back.what || fail "not all names of the list: $(diff in.what back.what)"
printf 'in/a\nmissing\nin/sub\n' >names
expect 1 kedge save -s lists -n job --files-from names
said "missing was left out: No such file or directory"
expect 0 kedge restore -s lists -n job -o short
is "$(cd short && find . -type f)" ./in/a "the files of a list; directories are without what is in them"
expect 5 kedge save -s lists -n job --files-from no-list
printf 'in/a\0in/b\0' >names
expect 2 kedge save -s lists -n job --files-from names
said "--null"

# A list that is split would be a version of each part.
find in/many -type f >names
got=0
xargs -n 150 kedge save -s split -n job <names >out 2>err || got=$?
is $got 123 "the exit code of xargs"
said "nothing was saved: version 1 of job is of the same xargs"
said "kedge save --null --files-from -"
expect 0 kedge ls -s split -n job --quiet
is "$(cat out)" 1 "the versions of a list that was split"
expect 0 sh -c 'xargs kedge save -s split -n job <names && xargs kedge save -s split -n job <names'

# Standard input.
expect 0 sh -c 'kedge save -s input -n job --stdin-name dumps/db - in/a <in/big'
expect 0 kedge restore -s input -n job -o - dumps/db
same in/big out
expect 0 sh -c ': | kedge save -s input -n job -'
expect 0 kedge restore -s input -n job -o inputs
[ -e inputs/stdin ] && [ ! -s inputs/stdin ] || fail "an empty standard input is not a file"

# The store is not saved into itself, and neither is a file twice.
mkdir self
echo x >self/x
expect 0 kedge save -s self/store -n job self self/x ./self
expect 0 kedge save -s self/store -n job self
expect 0 kedge restore -s self/store -n job -o self.back
is "$(cd self.back && find . -type f)" ./self/x "the files of a directory with the store"
(cd self && expect 0 kedge save -s store -n here . && expect 0 kedge restore -s store -n here -o ../here)
is "$(cat here/x)" x "a file of '.'"

# What is not a file, and what may not be read.
mkdir odd
echo x >odd/x
mkfifo odd/fifo
if [ "$(id -u)" -eq 0 ]; then
	expect 0 kedge save -s odd.store -n job odd
	expect 0 kedge restore -s odd.store -n job -o odd.back
	[ -p odd.back/odd/fifo ] || fail "the FIFO did not come back"
else
	chmod 0 odd/x
	expect 1 kedge save -s odd.store -n job odd in/a
	said "odd/fifo was left out: it is a FIFO"
	said "odd/x was left out: Permission denied"
	expect 5 kedge save -s odd.store -n job odd/x
fi
expect 5 kedge save -s odd.store -n job odd/fifo
said "not a regular file"
expect 0 kedge save -s odd.store -n job in/link
said "saved as one"

# Holes: as large as disks, and little more than nothing.
truncate -s 1G sparse
printf data | dd of=sparse bs=1 seek=700000000 conv=notrunc 2>/dev/null
expect 0 kedge save -s holes -n job --json -q sparse
[ "$(json stored_bytes)" -lt 4096 ] || fail "a hole takes $(json stored_bytes) bytes"
expect 0 kedge restore -s holes -n job -o holes.back
[ "$(stat -c %b holes.back/sparse)" -le 64 ] || fail "the holes were filled: $(stat -c %b holes.back/sparse) blocks"
is "$(stat -c %s holes.back/sparse)" 1073741824 "the size of a file with holes"
is "$(dd if=holes.back/sparse bs=1 skip=700000000 count=4 2>/dev/null)" data "what is between the holes"
expect 0 kedge save -s holes -n job sparse
expect 0 kedge verify -s holes

# So they are where their zeros are stored, because all is, or because too much is new to be looked at.
truncate -s 3M stored
printf data | dd of=stored bs=1 seek=1000000 conv=notrunc 2>/dev/null
truncate -s 32M new
for at in $(seq 0 2 510); do
	dd if=/dev/urandom of=new bs=64k seek=$at count=1 conv=notrunc 2>/dev/null
done
expect 0 kedge save -q -s holes -n stored --reduce full stored
expect 0 kedge save -q -s holes -n new new
for job in stored new; do
	expect 0 kedge restore -q -s holes -n $job -o holes.back
	same $job holes.back/$job
	[ "$(stat -c %b holes.back/$job)" -le $(($(stat -c %b $job) + 64)) ] ||
		fail "the holes of $job were filled: $(stat -c %b holes.back/$job) blocks"
done

# What is between holes may be anywhere, and nothing but that needs room: on a tmpfs, to look at a hole fills it.
truncate -s 3M odd_places
for at in 370001 2267003; do
	seq 1000000 1000999 | dd of=odd_places oflag=seek_bytes bs=64k seek=$at conv=notrunc 2>/dev/null
done
mkdir small
if unshare -m sh -c 'mount -t tmpfs -o size=100k none small' 2>/dev/null; then
	expect 0 kedge save -q -s holes -n odd_places odd_places
	expect 0 unshare -m sh -ec 'mount -t tmpfs -o size=100k none small
		kedge restore -q -s holes -n odd_places -o small/back
		cmp odd_places small/back/odd_places
		stat -c %b small/back/odd_places'
	[ "$(cat out)" -le 64 ] || fail "the holes were filled: $(cat out) blocks"
	# Also where the first copy is damaged, and all is filled again from another one.
	expect 0 kedge save -q --set l1=holes --set l2=holes.l2 -n again odd_places
	flip "$(find holes/again -name '*.seg')" 300
	expect 0 unshare -m sh -ec 'mount -t tmpfs -o size=100k none small
		kedge restore --set l1=holes --set l2=holes.l2 -n again -o small/back >&2
		cmp odd_places small/back/odd_places
		stat -c %b small/back/odd_places'
	said "using the copy on another level"
	[ "$(cat out)" -le 64 ] || fail "the holes were filled again: $(cat out) blocks"
fi

# Mounts, where they can be made.
mkdir -p mounts/other
echo x >mounts/x
if unshare -m true 2>/dev/null && unshare -m sh -c 'mount -t tmpfs none mounts/other' 2>/dev/null; then
	expect 0 unshare -m sh -c 'mount -t tmpfs none mounts/other && echo y >mounts/other/y &&
		kedge save -s mounts.store -n job -x mounts && kedge save -s mounts.store -n all mounts'
	expect 0 kedge restore -s mounts.store -n job -o mounts.back
	is "$(cd mounts.back && find . -type f)" ./mounts/x "the files of one file system"
	expect 0 kedge restore -s mounts.store -n all -o mounts.back mounts/other/y
fi

# Durable.
expect 0 env KEDGE_SYNC=yes kedge restore -s store -n job -o durable in/many
expect 0 env KEDGE_SYNC=yes kedge restore -s store -n job -o durable in/sub
