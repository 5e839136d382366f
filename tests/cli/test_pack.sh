# SPDX-License-Identifier: BSD-3-Clause
# kedge pack and unpack: one file to hand around, and what becomes of it when it is damaged, cut short, hostile, or when a disk is full.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

KEDGE_SYNC=no # whoever else writes to the disk would be waited for
export KEDGE_SYNC
mkdir -p d/e/empty
random d/a 60 1
random d/e/b 1200 2 # one that is mapped when it is written
seq 300 >d/e/c
: >d/nothing
ln -s a d/link
ln d/a d/second
chmod 640 d/e/c
touch -d '2020-01-02 03:04:05.123456789' d/e/c

# clean DIR WHEN: nothing temporary is left.
clean()
{
	[ -z "$(find "$1" -name '*kedge-*')" ] || fail "left behind $2: $(find "$1" -name '*kedge-*')"
}

# There and back.
expect 0 kedge pack d -o x.kpk
printed 'x.kpk: 4 files'
clean . "by pack"
is "$(stat -c %a x.kpk)" 644 "the mode of a pack"
expect 0 kedge unpack x.kpk -o back
diff -r d back/d || fail "unpacked files differ"
is "$(stat -c '%a %y' back/d/e/c)" "$(stat -c '%a %y' d/e/c)" "mode and time"
is "$(readlink back/d/link)" a "the link"
is "$(stat -c %i back/d/a)" "$(stat -c %i back/d/second)" "the second name"
clean back "by unpack"
expect 0 kedge unpack x.kpk -o some 'd/e' 'noth*'
is "$(cd some && find . -type f | sort | tr '\n' ' ')" "./d/e/b ./d/e/c ./d/nothing " "what was asked for"
expect 3 kedge unpack x.kpk -o none/of/them nosuchfile
said "x.kpk has no file 'nosuchfile'; 'kedge ls x.kpk' lists them"
[ ! -e none ] || fail "a directory for no files"
expect 3 kedge cat x.kpk nosuchfile
said "x.kpk has no file 'nosuchfile'; 'kedge ls x.kpk' lists them"

# What looks into stores looks into packs.
expect 0 kedge ls x.kpk
printed 'd/second link to d/a'
expect 0 kedge ls -q x.kpk
printed d/e/b
expect 0 kedge ls --json x.kpk
expect 0 kedge ls -s x.kpk -n x
printed 'self-contained'
expect 0 kedge show x.kpk
printed 'segment   x.kpk'
expect 0 kedge verify x.kpk
printed 'can be restored: 1, lost: 0'
expect 0 kedge cat x.kpk d/e/c
same out d/e/c
expect 0 kedge restore -s x.kpk -o again
diff -r d again/d || fail "restored files differ"
expect 3 kedge ls -s x.kpk -n y
expect 3 kedge ls no.kpk
expect 2 kedge ls d
expect 2 kedge ls -s d x.kpk
expect 6 kedge ls d/a
said 'd/a is not a pack: it does not begin as one'
expect 6 kedge unpack d/nothing -o none
said 'd/nothing is not a pack: it does not begin as one'
expect 6 kedge verify -s d/a
said 'd/a is neither a store nor a pack'

# It is only read.
expect 5 kedge gc -s x.kpk -n x --keep 1
said 'is a pack'
expect 5 kedge tag -s x.kpk -v 1 good
said 'is a pack'
expect 5 kedge save -s x.kpk -n x d
said 'x.kpk is a pack'
expect 5 kedge save -s d/a -n x d
said 'd/a is a file, not a directory'

# What an option has wrong is said of the option.
for command in 'kedge pack -o no.kpk' 'kedge save -s no.store -n x'; do
	expect 2 $command --codec zst d
	said "--codec zst: 'zst' is not one of the codecs none, lz4, zstd"
	expect 2 $command --block 3 d
	said '--block 3: "3" is not a size'
	expect 2 $command --type f33 d
	said '--type f33: not one of bytes, i8, u8'
done
[ ! -e no.kpk ] && [ ! -e no.store ] || fail "a mistake in an option left something"

# Standard output and input, names that are taken, and a pack in what is packed.
kedge pack -o - d | cat >y.kpk
expect 0 kedge verify y.kpk
seq 9 | expect 0 kedge pack -o s.kpk - --stdin-name nine
expect 0 kedge cat s.kpk nine
is "$(tail -1 out)" 9 "standard input"
cp x.kpk before
expect 2 kedge pack d -o x.kpk
said 'x.kpk is there already; --force replaces it'
same x.kpk before
expect 0 kedge pack d -o x.kpk --force
expect 1 kedge unpack x.kpk -o back
said 'd/e/b was left out: it is there already; --force replaces it'
expect 0 kedge unpack x.kpk -o back --force
(cd d && expect 0 kedge pack . -o inside.kpk && expect 0 kedge ls -q inside.kpk && ! grep kedge-pack out)
rm d/inside.kpk d/out d/err
expect 2 kedge pack -o z.kpk
expect 5 kedge pack -o nowhere/z.kpk d
expect 5 kedge pack -o z.kpk nosuchfile
[ ! -e z.kpk ] || fail "a pack of nothing"
clean . "by packs that failed"
KEDGE_L2=$PWD/l2 expect 0 kedge pack d -o z.kpk
[ ! -e l2 ] || fail "a pack goes to no second level"

# What is no pack.
expect 0 kedge save -s store -n job --reduce basic d/a
flip d/a 100
expect 0 kedge save -s store -n job --reduce basic d/a
flip d/a 100
expect 6 kedge ls "$(segments store | tail -1)"
said 'a segment that needs version 1 of its store'
"$CRAFT" ranks job ranks 2 1
expect 6 kedge ls "$(segments ranks | head -1)"
said 'the segment of one of 2 ranks'

# Memory does not grow with what is packed.
if [ -z "${SANITIZERS:-}" ]; then
	random big 131072
	KEDGE_FAULT=room@80000000 expect 0 kedge pack big -o big.kpk --set threads=2
	KEDGE_FAULT=room@80000000 expect 0 kedge unpack big.kpk -o got --set threads=2
	same big got/big
	KEDGE_FAULT=room@80000000 kedge cat big.kpk big --set threads=2 | cmp - big || fail "kedge cat of a large file"
	rm -r big big.kpk got
fi

# A dataset is of one file: what names none is refused before anything is unpacked, and nothing of the others is left.
mkdir copies
for word in :/x .:/x /:/x d/..:/x; do
	TMPDIR=$PWD/copies expect 2 kedge cat x.kpk d/e/c "$word"
	said "'$word' names no file before the dataset: write FILE:/x"
	[ ! -s out ] || fail "something was printed before the usage error"
done
TMPDIR=$PWD/copies expect 2 kedge cat x.kpk d:/x
TMPDIR=$PWD/copies KEDGE_FAULT=enospc@2+ expect 5 kedge cat x.kpk d/a:/x
said "cannot write a temporary copy in $PWD/copies"
is "$(ls copies)" "" "what is left of copies"

# Nor is anything left by a signal, which comes when the pipe is full at the latest.
cp "$KEDGE_SOURCE/tests/aggregate/files/old.h5" .
expect 0 kedge pack old.h5 -o old.kpk
if kedge cat old.kpk old.h5:/800_640_li8_two >out 2>err; then
	words=$(seq 40 | sed 's,.*,old.h5:/800_640_li8_two,')
	mkfifo fifo
	for i in $(seq 10); do
		exec 9<>fifo
		TMPDIR=$PWD/copies kedge cat old.kpk $words >fifo 2>err 9<&- &
		head -c 1 <&9 >out
		kill $!
		wait $! && fail "kedge cat was not interrupted"
		exec 9<&-
		is "$(ls copies)" "" "what is left of copies after a signal"
	done
else
	said 'there is no libhdf5'
fi

# A dataset of an HDF5 file, where there is something that makes one.
if /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
	mkdir hdf5
	echo 'of somebody else' >secret
	/usr/bin/python3 - <<-'END'
		import h5py, os, struct
		with h5py.File("hdf5/a.h5", "w") as f:
		    f.create_dataset("g/x", data=[[i * 10 + k for k in range(3)] for i in range(1000)], dtype="<i4", compression="gzip", chunks=(7, 2))
		    f.create_dataset("one", data=2.5, dtype="<f8")
		    f.create_dataset("none", shape=(0, 4), dtype="<f8")
		    f.create_dataset("text", data=["a", "bc"], dtype=h5py.string_dtype())
		    f.create_dataset("null", data=h5py.Empty("S30"))
		    f.create_dataset("outside", shape=(4,), dtype="S4", external=[(os.path.abspath("secret"), 0, 16)])
		    parts = h5py.VirtualLayout(shape=(3,), dtype="<i4")
		    parts[:] = h5py.VirtualSource("other.h5", "x", shape=(3,))
		    f.create_virtual_dataset("virtual", parts)
		    f["link"] = h5py.ExternalLink(os.path.abspath("other.h5"), "/x")
		with h5py.File("other.h5", "w") as f:
		    f.create_dataset("x", data=[1, 2, 3], dtype="<i4")
		open("x.bin", "wb").write(b"".join(struct.pack("<i", i * 10 + k) for i in range(1000) for k in range(3)))
		open("one.bin", "wb").write(struct.pack("<d", 2.5))
	END
	expect 0 kedge pack hdf5 d/e/c -o h.kpk
	expect 0 kedge cat h.kpk hdf5/a.h5:/g/x
	same out x.bin
	expect 0 kedge cat h.kpk d/e/c hdf5/a.h5:/one hdf5/a.h5:/none d/e/c
	cat d/e/c one.bin d/e/c >both
	same out both
	expect 3 kedge cat h.kpk hdf5/a.h5:/nothing
	expect 7 kedge cat h.kpk hdf5/a.h5:/text
	said 'variable length'
	expect 0 kedge cat h.kpk hdf5/a.h5:/null
	is "$(wc -c <out)" 0 "bytes of nothing"
	# What a file says of others is not read.
	for name in outside virtual; do
		expect 7 kedge cat h.kpk hdf5/a.h5:/$name
		said 'in other files'
		is "$(wc -c <out)" 0 "bytes of other files"
	done
	expect 3 kedge cat h.kpk hdf5/a.h5:/link
	said 'no dataset /link of its own'
	expect 6 kedge cat h.kpk d/e/c:/x
	said 'not an HDF5 file'
	expect 3 kedge cat h.kpk nosuch:/x
	head -c 3000 hdf5/a.h5 >hdf5/b.h5
	expect 0 kedge pack hdf5 -o h.kpk --force
	expect 6 kedge cat h.kpk hdf5/b.h5:/g/x
fi

# Numbers and their mirror image: less than one and a half of them, in blocks that are larger, and all come back, or one file of them.
if python3 -c 'import struct' 2>/dev/null; then
	mkdir mirror
	python3 - <<-'END'
		import random, struct
		r = random.Random(1)
		for name in "ab":
		    v, x = 1.0, []
		    for i in range(60000):
		        v += r.uniform(-0.001, 0.001)
		        x.append(v)
		    y = [-v for v in reversed(x)]
		    open("mirror/" + name, "wb").write(struct.pack("<120000d", *x, *y))
		    open("half-" + name, "wb").write(struct.pack("<60000d", *x))
	END
	expect 0 kedge pack half-a half-b -o half.kpk --set aggregate=aware
	expect 0 kedge pack mirror -o mirror.kpk --set aggregate=aware
	[ "$(stat -c %s mirror.kpk)" -lt $(($(stat -c %s half.kpk) * 5 / 4)) ] || fail "the mirror image takes as much as what it is of"
	expect 0 kedge show mirror.kpk
	printed 'echo'
	expect 0 kedge verify mirror.kpk
	expect 0 kedge unpack mirror.kpk -o got
	same mirror/a got/mirror/a
	same mirror/b got/mirror/b
	rm -r got
	expect 0 kedge unpack mirror.kpk mirror/b -o got
	same mirror/b got/mirror/b
	rm -r got
fi

# checked WHEN: each file of ./got is right, or is not there; and no others are.
checked()
{
	(cd got && find . -type f) | while read -r file; do
		cmp -s "got/$file" "$file" || fail "$file is wrong $1"
	done
	clean got "$1"
}

# A byte that changed anywhere: the file that it is in is missing, if it is in a file, and the others are right.
bytes=$(stat -c %s x.kpk)
at=0
while [ $at -lt "$bytes" ]; do
	cp x.kpk bad.kpk
	flip bad.kpk $at
	rm -rf got && mkdir got
	code=0
	kedge unpack bad.kpk -o got >out 2>err || code=$?
	is $code 6 "the exit code with byte $at changed"
	checked "with byte $at changed"
	[ $at -lt 64 ] || [ $at -gt $((bytes - 2000)) ] || [ -e got/d/nothing ] || fail "all is lost with byte $at changed"
	at=$((at < 1000 ? at + $(every 170 400) : at > bytes - 2000 ? at + $(every 211 700) : at + $(every 150000 400000)))
done
for cut in 0 64 $((bytes / 2)) $((bytes - 1)); do
	head -c $cut x.kpk >cut.kpk
	rm -rf got && mkdir got
	expect 6 kedge unpack cut.kpk -o got
	[ -z "$(find got -type f)" ] || fail "files of a pack cut to $cut bytes"
done
expect 6 kedge verify cut.kpk

# A pack has no other version and no other level: the cause is said, also to those who want errors only.
cp x.kpk bad.kpk
flip bad.kpk 70000
for option in --quiet --set=threads=1; do
	expect 6 kedge cat $option bad.kpk d/a d/e/b
	said "cannot unpack bad.kpk: segment bad.kpk: block"
done
expect 1 kedge verify bad.kpk
printed "lost: not all files of bad.kpk can be had; 'kedge unpack' brings the others"
! grep 'another level' out || fail "a pack has no levels"

# Sizes, names and places that lie, with all checksums right: an error, and nothing elsewhere; or it does not matter.
mkdir lie && (cd lie && mkdir t && random t/x 8 3 && seq 100 >t/y && kedge pack -q t -o good.kpk --codec zstd)
for seed in $(seq 1 $(every 16 40)); do
	cp lie/good.kpk bad.kpk
	"$CRAFT" bad.kpk - lie "$seed"
	rm -rf got && mkdir -p got/in
	code=0
	(trap '' XFSZ && ulimit -f 4096 && kedge unpack bad.kpk -o got/in >out 2>err) || code=$?
	[ $code -lt 8 ] || fail "exit code $code with lie $seed: $(cat err)"
	is "$(ls got)" in "what was written with lie $seed"
	clean got "with lie $seed"
	code=0
	(trap '' XFSZ && ulimit -f 4096 && kedge verify bad.kpk >out 2>err) || code=$?
	[ $code -lt 8 ] || fail "exit code $code of verify with lie $seed: $(cat err)"
done

# Names that lead elsewhere, and what the files are, if that is hostile, too.
for name in ../evil /evil a/../../evil ./evil d//evil /tree; do
	rm -rf evil got outside && mkdir got outside
	"$CRAFT" evil job region "$name"
	expect $([ "$name" = /tree ] && echo 6 || echo 1) kedge unpack "$(segments evil)" -o got/in
	is "$(find got -type f)" got/in/good "files with '$name' in a pack"
	is "$(cat got/in/good)" good "the other file"
	[ ! -e evil.txt ] && [ ! -e /evil ] || fail "'$name' was written"
done
ln -s ../outside got/link
rm -rf evil && "$CRAFT" evil job region link/in
expect 1 kedge unpack "$(segments evil)" -o got
said 'is a symbolic link'
[ -z "$(ls outside)" ] || fail "written through a link"

# A full disk, at each write in turn: the file that it hits is missing, and all that is there is right.
n=1 missing=0
while :; do
	rm -rf got && mkdir got
	code=0
	KEDGE_FAULT=enospc@$n kedge unpack x.kpk -o got >out 2>err || code=$?
	[ $code -eq 0 ] && cmp -s got/d/e/b d/e/b && cmp -s got/d/e/c d/e/c && break
	is $code 5 "the exit code with enospc@$n"
	grep -q '^kedge unpack: ' err || fail "no message with enospc@$n"
	checked "with enospc@$n"
	there=$(find got -type f ! -name second | wc -l)
	[ ! -s out ] || grep -q "^x.kpk: $there file" out || fail "$there files are there with enospc@$n, not: $(cat out)"
	! grep 'got/.* was left out' err || fail "a name with the directory with enospc@$n"
	[ -z "$(find got -type f)" ] || missing=$((missing + 1))
	n=$((n + $(every 2 5)))
	[ $n -lt 200 ] || fail "unpack never succeeds"
done
[ $missing -gt $(every 1 0) ] || fail "a full disk always costs all files"

# Killed, or a disk that fails, at each call: there is a whole pack, or none.
mkdir small out.d && echo x >small/x
for action in eio kill; do
	n=$([ $action = kill ] && echo 1 || echo 2)
	while :; do
		rm -rf out.d && mkdir out.d
		code=0
		KEDGE_FAULT=$action@$n kedge pack small -o out.d/p.kpk >out 2>err || code=$?
		[ ! -e out.d/p.kpk ] || kedge verify -q out.d/p.kpk || fail "a broken pack after $action@$n"
		[ $code -eq 0 ] && [ -e out.d/p.kpk ] && break
		# What a killed one leaves is gone after the next.
		[ $action = eio ] || expect 0 kedge pack small -o out.d/next.kpk
		clean out.d "after $action@$n"
		n=$((n + $(every 3 7)))
		[ $n -lt 200 ] || fail "pack never succeeds"
	done
done

# A directory that somebody uses stays, and one of which nothing is known.
boot=$(head -c 8 /proc/sys/kernel/random/boot_id)
mkdir "out.d/.kedge-pack-$boot-used" "out.d/.kedge-pack-$boot-dead" out.d/.kedge-pack-00000000-other
echo x >"out.d/.kedge-pack-$boot-dead/file"
expect 0 flock "out.d/.kedge-pack-$boot-used" kedge pack small -o out.d/used.kpk
[ -d "out.d/.kedge-pack-$boot-used" ] || fail "a directory in use was removed"
[ -d out.d/.kedge-pack-00000000-other ] || fail "a directory of another boot was removed"
[ ! -d "out.d/.kedge-pack-$boot-dead" ] || fail "an abandoned directory is still there"

# The same files make the same pack, whatever else the machine does: even the figures that codecs were chosen by are the same.
for i in 1 2; do
	expect 0 kedge pack -f d "$KEDGE_SOURCE/tests/aggregate/files" -o twice.kpk
	expect 0 kedge show --json twice.kpk
	grep -v '"created"' out >figures.$i
	stat -c %s twice.kpk >>figures.$i
done
cmp figures.1 figures.2 || fail "two packs of the same files differ"
