# SPDX-License-Identifier: BSD-3-Clause
# kedge watch: sets are taken when they are complete and nobody writes to them, once each, whatever happens meanwhile.
. "$KEDGE_SOURCE/tests/cli/lib.sh"
KEDGE_SYNC=no # whoever else writes to the disk would be waited for
export KEDGE_SYNC

# numbered DIR SET RANKS: a checkpoint of so many files.
numbered()
{
	mkdir -p "$1"
	for rank in $(seq 0 $(($3 - 1))); do
		echo "step $2, rank $rank" >"$1/ck-$2-r$rank.dat"
	done
}

# taken STORE: the keys of the sets in it, oldest version first.
taken()
{
	kedge log -s "$1" -n sim 2>/dev/null | sed -n 's/^ *set \(.*\) #................$/\1/p' | sed '1!G;h;$!d' | tr '\n' ' '
}

# Complete by number, in the order of numbers; what is not complete waits; nothing is taken twice.
numbered run 9 2
numbered run 10 2
numbered run 11 1
touch -d 2020-01-01 run/*
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once
printed 'set 9: version 1 of sim, 2 files'
is "$(taken st)" "9 10 " "what was taken"
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once
[ ! -s out ] || fail "something was taken again"
numbered run 11 2

# What somebody writes to is left alone, and said.
exec 5>>run/ck-11-r0.dat
expect 1 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once
said 'somebody writes'
is "$(taken st)" "9 10 " "what was taken while a file is open"
exec 5>&-
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once
is "$(taken st)" "9 10 11 " "what was taken once it was closed"

# What will never be complete is said.
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 1 --once
said 'set 9 has 2 files, more than --count 1'
expect 0 kedge watch run -s st -n sim --files 'typo-{}' --count 1 --once
said 'nothing in run fits typo-{}'

# Written again: another state, another version.
echo again >run/ck-10-r0.dat
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once
is "$(taken st)" "9 10 11 10 " "a set that was written again"

# Removed, and only these; restored, they stay, and are not taken again.
cp -rp run kept
echo other >run/log.txt
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once --remove
is "$(ls run)" log.txt "what is left"
expect 0 kedge restore -s st -n sim -v 3 -o run
same run/ck-11-r1.dat kept/ck-11-r1.dat
expect 0 kedge watch run -s st -n sim --files 'ck-{}-r*.dat' --count 2 --once --remove
is "$(ls run | wc -l)" 3 "files after a restore"
is "$(taken st)" "9 10 11 10 " "versions after a restore"
expect 0 kedge verify -s st
! grep stray out || fail "the journal is a stray"

# Complete by a marker; all that is in a directory, and the directory, too.
mkdir -p dirs/step1/sub dirs/step2 dirs/other
echo a >dirs/step1/a && echo b >dirs/step1/sub/b && touch dirs/step1/DONE
echo c >dirs/step2/c
expect 0 kedge watch dirs -s st2 -n sim --files 'step{}' --marker 'step{}/DONE' --remove --once
is "$(taken st2)" "1 " "sets with a marker"
is "$(cd dirs && echo *)" "other step2" "directories that are left"
expect 0 kedge restore -s st2 -n sim -o dirs
is "$(cat dirs/step1/sub/b)" b "a file in a directory of a set"
[ -e dirs/step1/DONE ] || fail "the marker belongs to the set"

# Files stay until the second level has their version. What versions went to keep is known for ever.
numbered two 1 1
expect 0 kedge watch two -s st3 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set l2="$PWD/l2" --set l2_every=2
said 'the files of version 1 of sim stay'
is "$(ls two)" ck-1-r0.dat "files whose version is not on L2"
numbered two 2 1
expect 0 kedge watch two -s st3 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set l2="$PWD/l2" --set l2_every=2
[ ! -e two/ck-2-r0.dat ] || fail "the files of version 2 are still there"
rm -r two
for step in 1 2 3; do
	numbered two $step 1
	expect 0 kedge watch two -s st4 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set keep=1
done
is "$(kedge ls -q -s st4 -n sim | tr '\n' ' ')" "3 " "the versions that are left"

# L2 that was away: what it lacks goes there as soon as it is back, and then the files go, without another set.
numbered away 1 1
expect 0 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set l2="$PWD/far"
mv far gone
numbered away 2 1
for again in first second; do # with files that were taken before, too
	expect 1 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set l2="$PWD/far"
	said 'the files of version 2 of sim stay'
done
is "$(kedge ls -q -s gone -n sim | tr '\n' ' ')" "1 " "what L2 has while it is away"
is "$(ls away)" "$(printf 'ck-1-r0.dat\nck-2-r0.dat')" "files that L2 lacks"
mkdir far # not mounted
expect 0 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set l2="$PWD/far"
is "$(ls far)" "" "what is in a directory that is not L2"
rmdir far && mv gone far
expect 0 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set l2="$PWD/far"
printed 'L2 is back'
is "$(kedge ls -q -s far -n sim | tr '\n' ' ')" "1 2 " "what L2 has when it is back"
is "$(ls away)" "" "files when L2 has their versions"
expect 0 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set l2="$PWD/far"
[ ! -s out ] || fail "something was brought again: $(cat out)"

# A version that is damaged keeps its files, and that is an error.
numbered away 3 1
expect 0 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set l2="$PWD/far"
flip "$(segments far/sim | tail -1)" 200
expect 1 kedge watch away -s st8 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set l2="$PWD/far"
said 'cannot remove the files of version 3 of sim: it is damaged'
is "$(ls away)" ck-3-r0.dat "files whose version is damaged"

# The journal forgets what neither the directory nor a level has, and nothing else: what was removed and restored is not removed again.
for step in $(seq 1 12); do
	numbered many $step 1
done
expect 0 kedge watch many -s st9 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set keep=2
is "$(wc -l <st9/sim/watch)" 12 "lines while all files are there"
rm many/ck-[3-9]-*
expect 0 kedge watch many -s st9 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set keep=2
[ "$(wc -l <st9/sim/watch)" -le 6 ] || fail "the journal is not pruned: $(wc -l <st9/sim/watch)"
expect 0 kedge watch many -s st9 -n sim -f 'ck-{}-r*.dat' -c 1 --once --set keep=2
[ ! -s out ] || fail "something was taken again: $(cat out)"
last=$(kedge ls -q -s st9 -n sim | tail -1)
expect 0 kedge restore -s st9 -n sim -v "$last" -o many
expect 0 kedge watch many -s st9 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove --set keep=2
[ ! -s out ] || fail "what was restored was taken, or removed, again: $(cat out)"
expect 0 kedge verify -s st9
! grep stray out || fail "the journal leaves a stray"

# A disk that is full for a while: the files stay, and the set is taken later.
numbered full 1 1
for n in 6 12; do
	got=0
	KEDGE_FAULT=enospc@$n+ kedge watch full -s st7 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove >out 2>err || got=$?
	[ $got -ne 0 ] && [ -e full/ck-1-r0.dat ] || fail "with enospc@$n+: $got"
done
expect 0 kedge watch full -s st7 -n sim -f 'ck-{}-r*.dat' -c 1 --once --remove
is "$(taken st7)$(ls full)" "1 " "the set when there is room"

# Killed at every call, and started again: every set is in one version, and is right there; its files are gone, and no others.
numbered want 1 2
numbered want 2 2
touch -d 2020-01-01 want/*
n=1
while :; do
	rm -rf st5 run5 && cp -rp want run5 && echo other >run5/other
	code=0
	KEDGE_FAULT=kill@$n kedge watch run5 -s st5 -n sim -f 'ck-{}-r*.dat' -c 2 --once --remove >out 2>err || code=$?
	[ $code -eq 0 ] && [ "$(ls run5)" = other ] && break
	expect 0 kedge watch run5 -s st5 -n sim -f 'ck-{}-r*.dat' -c 2 --once --remove
	is "$(taken st5)" "1 2 " "what was taken after kill@$n"
	is "$(ls run5)" other "the files after kill@$n"
	n=$((n + $(every 5 23)))
	[ $n -lt 400 ] || fail "watch is never done"
done
[ $n -gt 20 ] || fail "only $n calls"
rm -rf got && expect 0 kedge restore -s st5 -n sim -v 1 -o got && expect 0 kedge restore -s st5 -n sim -v 2 -o got
diff -r want got || fail "the sets differ"

# As it happens: sets that come while it runs, a second watch, a kill, and an end in order. until COMMAND...: it will be true.
until_true()
{
	tries=0
	while ! "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || fail "never: $*"
		sleep 0.1
	done
}
has()
{
	[ "$(taken st6)" = "$1" ]
}
mkdir live
kedge watch live -s st6 -n sim -f 'ck-{}-r*.dat' -c 2 >log 2>&1 &
watch=$!
until_true grep -q watching log
numbered live 1 2
until_true has "1 "
expect 4 kedge watch live -s st6 -n sim -f 'ck-{}-r*.dat' -c 2 --once
said 'another kedge watch'
kill -9 $watch
wait $watch 2>/dev/null || :
numbered live 2 2
kedge watch live -s st6 -n sim -f 'ck-{}-r*.dat' -c 2 >log 2>&1 &
watch=$!
until_true has "1 2 "
numbered live 3 2
until_true has "1 2 3 "
kill $watch
code=0
wait $watch || code=$?
is $code 0 "the exit code after SIGTERM"

# What cannot be right is refused.
expect 2 kedge watch
expect 5 kedge watch nosuchdir -n sim -f x -c 1
said 'cannot watch: nosuchdir: No such file or directory'
expect 2 kedge watch live -n sim -c 1
said '--files PATTERN is missing'
expect 2 kedge watch live -n sim -f x
said 'when is a set complete?'
expect 2 kedge watch live -n sim -f x -c 0
said '--count must be at least 1'
expect 2 kedge watch live -n sim -f 'x{}' -m done
expect 2 kedge watch live -n sim -f '../x' -c 1
expect 2 kedge watch live -n sim -f /x -c 1
