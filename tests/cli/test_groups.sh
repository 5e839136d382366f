# SPDX-License-Identifier: BSD-3-Clause
# Files of many ranks in few segments.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# sums DIR: names and contents of all that is in it.
sums()
{
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

# ranks DIR N: two files of each rank, in directories and by names as programs make them, and files of no rank.
ranks()
{
	mkdir -p "$1/DD0001" "$1/log"
	r=0
	while [ $r -lt "$2" ]; do
		random "$1/DD0001/data0001.cpu$(printf %04d $r)" 12 $((r % 5 + 1))
		echo "rank $r" >"$1/log/out.cpu$(printf %04d $r).txt"
		r=$((r + 1))
	done
	echo parameters >"$1/DD0001/data0001"
	echo notes >"$1/README"
}

count()
{
	segments "$1" | grep -c "/v0*$2/"
}

ranks run 64
sums run >want
for g in 1 8 16 24 63 64 1000; do
	expect 0 kedge save -s st -n g$g --ranks '*.cpu{}*' --group-size $g --json run
	n=$(((64 + g - 1) / g))
	is "$(json segments)" $n "the segments by groups of $g"
	is "$(json files)" 130 "the files by groups of $g"
	is "$(count st/g$g 1)" $n "the files of the store by groups of $g"
	expect 0 kedge restore -s st -n g$g -o back-$g
	sums back-$g/run >got
	same want got
	rm -rf back-$g
done
expect 0 kedge verify -s st
is "$(find st -name '*.tmp')" "" "what is left"

# One rank needs its own segment, and reads of that what it needs.
for g in 1 8 64; do
	cp -r st one
	find one/g$g -name '*.seg' ! -name "r$(printf %07d $((27 / g)))-*" -exec rm {} +
	expect 0 kedge restore -s one -n g$g --rank 27 -o rank --json
	is "$(json regions)" 2 "the files of rank 27"
	is "$(json regions.0.rank)" 27 "the rank of a file"
	is "$(json regions.0.segment)" $((27 / g)) "its segment"
	[ "$(json bytes_read)" -lt 100000 ] || fail "$(json bytes_read) bytes were read for one rank"
	is "$(find rank -type f | wc -l)" 2 "the number of files"
	same rank/run/DD0001/data0001.cpu0027 run/DD0001/data0001.cpu0027
	same rank/run/log/out.cpu0027.txt run/log/out.cpu0027.txt
	rm -rf rank
	expect 0 kedge restore -s one -n g$g -o rank run/DD0001/data0001.cpu0027
	same rank/run/DD0001/data0001.cpu0027 run/DD0001/data0001.cpu0027
	is "$(find rank -type f | wc -l)" 1 "the number of files by name"
	rm -rf rank one
done
cp -r st one # damage in another group is none of its business; in its own it is
flip "$(find one/g8 -name 'r0000002-*')" 5000
expect 0 kedge restore -s one -n g8 --rank 27 -o rank
expect 6 kedge restore -s one -n g8 --rank 16 -v 1 -o rank
said "(version 1, ranks 16 to 23)"
expect 6 kedge restore -s one -n g8 -v 1 -o rank
expect 1 kedge verify -s one
printed "damaged: version 1, segment 2, "
rm -rf one rank

# What belongs to no rank is in the first segment; directories have files of all.
cp -r st one
find one/g8 -name '*.seg' ! -name 'r0000000-*' -exec rm {} +
expect 0 kedge restore -s one -n g8 -o shared run/README run/DD0001/data0001
is "$(find shared -type f | wc -l)" 2 "the files of no rank"
same shared/run/README run/README
rm -rf one shared
expect 0 kedge restore -s st -n g8 -o some run/log
is "$(find some -type f | wc -l)" 64 "the files of a directory"
rm -rf some
expect 0 kedge restore -s st -n g8 -o some '*.cpu006[0-3]*'
is "$(find some -type f | wc -l)" 8 "the files of a pattern"
rm -rf some
expect 0 kedge restore -s st -n g8 -o - run/log/out.cpu0063.txt
is "$(cat out)" "rank 63" "a file on standard output"
expect 3 kedge restore -s st -n g8 --rank 64 -o no
said "it has no files of rank 64"
[ ! -e no ] || fail "a directory for no files"
expect 3 kedge restore -s st -n g8 --rank 27 -o no run/DD0001/data0001.cpu0028
said "run/DD0001/data0001.cpu0028 is not of rank 27"
expect 3 kedge restore -s st -n g8 -o no run/nothing
said "it has no file or region 'run/nothing'"

# What other commands say.
expect 0 kedge show -s st -n g8 --rank 27
printed "segment 3 of 8"
printed "ranks 24 to 31 (group size 8), by names: *.cpu{}*"
expect 0 kedge show -s st -n g8 --rank 27 --json
is "$(json first_rank)" 24 "the first rank of a group"
is "$(json group_size)" 8 "the size of a group"
expect 0 kedge show -s st -n g8 --files -q
is "$(grep -c 'cpu' out)" 128 "the files of all ranks"
is "$(grep -c '^run/DD0001/$' out)" 1 "a directory that all segments have"
expect 0 kedge show -s st -n g8 --files -q --rank 27
is "$(grep -c 'cpu' out)" 16 "the files of a group"
expect 3 kedge show -s st -n g8 --rank 64
expect 0 kedge ls -s st -n g8 --json
is "$(json versions.0.ranks)" 8 "the segments of a version"

# A later version refers to the one before, group by group.
random run/DD0001/data0001.cpu0027 12 99
echo more >>run/log/out.cpu0063.txt
rm run/log/out.cpu0001.txt
sums run >want2
expect 0 kedge save -s st -n g8 --ranks '*.cpu{}*' --group-size 8 --json run
is "$(json version)" 2 "the second version"
[ "$(json unchanged)" -ge 120 ] || fail "only $(json unchanged) files are unchanged"
[ "$(json literal_bytes)" -lt 40000 ] || fail "$(json literal_bytes) bytes are new"
expect 0 kedge diff -s st -n g8 1 2
printed "run/DD0001/data0001.cpu0027"
for v in 1 2; do
	expect 0 kedge restore -s st -n g8 -v $v -o v
	sums v/run >got
	[ $v -eq 1 ] && same want got || same want2 got
	rm -rf v
done

# Other groups, or none: right, and in full where nothing can be referred to.
expect 0 kedge save -s st -n g8 --ranks '*.cpu{}*' --group-size 16 run
is "$(count st/g8 3)" 4 "the segments of larger groups"
expect 0 kedge save -s st -n g8 run
is "$(count st/g8 4)" 1 "the segments without groups"
expect 0 kedge save -s st -n g8 --ranks 'data*.cpu{}' --group-size 8 run
expect 0 kedge save -s st -n g8 --ranks '*.cpu{}*' --group-size 8 run
expect 0 kedge diff -s st -n g8 2 6 --exit-code
for v in 3 4 5 6; do
	expect 0 kedge diff -s st -n g8 2 $v --exit-code
	expect 1 kedge diff -s st -n g8 1 $v --exit-code --json
	is "$(json changed_regions)" 3 "the files that differ from version $v"
	expect 1 kedge diff -s st -n g8 1 $v --exit-code --rank 1
	printed "run/log/out.cpu0001.txt"
done
expect 0 kedge diff -s st -n g8 1 6 --exit-code --rank 2
expect 3 kedge diff -s st -n g8 1 6 --rank 64
for v in 3 4 5 6; do
	expect 0 kedge restore -s st -n g8 -v $v -o v
	sums v/run >got
	same want2 got
	rm -rf v
done
expect 0 kedge verify -s st
expect 0 kedge coalesce -s st -n g8 --self-contained
expect 0 kedge gc -s st -n g8 --keep 1
expect 0 kedge restore -s st -n g8 --rank 27 -o v
same v/run/DD0001/data0001.cpu0027 run/DD0001/data0001.cpu0027
rm -rf v
expect 0 kedge restore -s st -n g8 -o v
sums v/run >got
same want2 got
rm -rf v

# The setting, both levels, a note, and a level that was away.
expect 0 kedge save -s l1 -n sim --set group_size=16 --set l2=l2 --ranks '*.cpu{}*' -m first run
is "$(count l1/sim 1)" 4 "the segments on L1"
is "$(count l2/sim 1)" 4 "the segments on L2"
mv l2 away
expect 5 kedge save -s l1 -n sim --set group_size=16 --set l2=l2 --ranks '*.cpu{}*' run
mv away l2
expect 0 kedge drain -s l1 -n sim --to l2
rm -rf l1
for v in 1 2; do
	expect 0 kedge restore -s l2 -n sim -v $v --rank 40 -o v
	same v/run/DD0001/data0001.cpu0040 run/DD0001/data0001.cpu0040
	rm -rf v
done

# Names of one file, in one group and in two; empty directories; a directory for each rank; numbers with gaps.
mkdir -p links/rank_3/deep links/rank_1000 links/none
echo three >links/rank_3/deep/a
ln links/rank_3/deep/a links/rank_3/b
ln links/rank_3/deep/a links/latest
ln links/rank_3/deep/a links/rank_1000/c
ln -s ../rank_3/b links/rank_1000/d
chmod 500 links/rank_3/deep
expect 0 kedge save -s st -n links --ranks 'rank_{}' --group-size 2 --json links
is "$(json segments)" 2 "the groups that have files"
expect 0 kedge restore -s st -n links -o l
diff -r links l/links || fail "the files are not what they were"
is "$(stat -c %h l/links/latest)" 2 "the names of a file in one group"
is "$(stat -c %h l/links/rank_3/b)" 2 "its names in another"
is "$(stat -c %a l/links/rank_3/deep)" 500 "the mode of a directory"
[ -d l/links/none ] || fail "an empty directory is gone"
expect 0 kedge restore -s st -n links --rank 1000 -o l1000
is "$(find l1000 | sort | tr '\n' ' ')" "l1000 l1000/links l1000/links/rank_1000 l1000/links/rank_1000/c l1000/links/rank_1000/d " "rank 1000"
expect 3 kedge restore -s st -n links --rank 2 -o l2
chmod 700 links/rank_3/deep l/links/rank_3/deep

# What cannot be.
expect 2 kedge save -s st -n bad --ranks 'data*.cpu' run
said "it has no {}"
expect 2 kedge save -s st -n bad --ranks 'node{}' run
said "no file fits --ranks 'node{}': one is called 'run/"
expect 2 kedge save -s st -n bad --ranks '' run
expect 2 kedge save -s st -n bad --group-size 8 run
said "--group-size needs --ranks"
for size in 0 -1 x 10000001; do
	expect 2 kedge save -s st -n bad --ranks '*.cpu{}*' --group-size $size run
	said "--group-size must be from 1 to 10000000, not '$size'"
done
expect 2 kedge save -s st -n bad --ranks '*.cpu{}' --ranks '*.cpu{}*' run
said "--ranks is given twice, as '*.cpu{}' and as '*.cpu{}*'"
expect 2 kedge save -s st -n bad --rank '*.cpu{}*' --groupsize 8 run
said "did you mean '--group-size'"
echo x >run/f.cpu99999999999
expect 2 kedge save -s st -n bad --ranks '*.cpu{}' run
said "too large for a rank"
rm run/f.cpu99999999999
[ ! -e st/bad ] || fail "a save that was refused left something behind"

expect 2 kedge pack -o set.kpk --ranks '*.cpu{}*' --group-size 8 run
said "a pack is one file"
expect 2 kedge pack -o set.kpk --group-size 8 run
[ ! -e set.kpk ] || fail "a pack that was refused is there"

# Killed at every other call: the version before is there, or the new one, with all segments.
ranks few 6
expect 0 kedge save -s base -n job --ranks '*.cpu{}*' --group-size 2 few
sums few >want
random few/DD0001/data0001.cpu0004 12 77
sums few >want2
n=1
while :; do
	rm -rf store && cp -r base store
	got=0
	KEDGE_FAULT=kill@$n kedge save -s store -n job --ranks '*.cpu{}*' --group-size 2 few >out 2>err || got=$?
	rm -rf back
	kedge restore -s store -n job -o back -q || fail "nothing can be restored after kill@$n"
	sums back/few >is
	cmp -s is want2 || { [ $got -ne 0 ] && cmp -s is want; } || fail "neither version is right after kill@$n"
	kedge verify -s store -q || fail "the store is damaged after kill@$n"
	kedge save -s store -n job --ranks '*.cpu{}*' --group-size 2 -q few || fail "no save after kill@$n"
	rm -rf back
	kedge restore -s store -n job -o back -q
	sums back/few >is
	same is want2
	[ -z "$(find store -name '*.tmp')" ] || fail "leftovers after kill@$n"
	[ $got -eq 0 ] && break
	n=$((n + $(every 2 17)))
	[ $n -lt 400 ] || fail "save never succeeds"
done
[ $n -gt 10 ] || fail "only $n calls"
for action in eio enospc; do
	n=2
	while :; do
		rm -rf store && cp -r base store
		got=0
		KEDGE_FAULT=$action@$n+ kedge save -s store -n job --ranks '*.cpu{}*' --group-size 2 few >out 2>err || got=$?
		[ $got -eq 0 ] && break
		is $got 5 "the exit code with $action@$n"
		grep -q '^kedge save: ' err || fail "no message with $action@$n"
		rm -rf back
		kedge restore -s store -n job -v 1 -o back -q
		sums back/few >is
		same is want
		n=$((n + $(every 5 31)))
		[ $n -lt 400 ] || fail "save never succeeds"
	done
done

# Sets that a watch takes, and removes.
mkdir sets
for step in 1 2; do
	for r in 0 1 2 3; do
		random sets/ck-$step-r$r.dat 8 $((step * 10 + r))
	done
done
sums sets >want
expect 0 kedge watch sets -s st -n watched -f 'ck-{}-r*.dat' -c 4 --ranks 'ck-*-r{}.dat' --group-size 2 --once --remove
is "$(ls sets)" "" "what the watch left"
is "$(count st/watched 2)" 2 "the segments of a set"
for v in 1 2; do
	expect 0 kedge restore -s st -n watched -v $v -o sets
done
sums sets >got
same want got
expect 2 kedge watch sets -s st -n watched -f 'ck-{}-r*.dat' -c 4 --ranks 'ck-r.dat' --once
expect 2 kedge watch sets -s st -n watched -f 'ck-{}-r*.dat' -c 4 --group-size 2 --once
