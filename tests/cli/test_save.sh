# SPDX-License-Identifier: BSD-3-Clause
# Corners of saving: sizes, chunks, numbers, files that change, interruptions.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random big 200
: >empty
printf abc >small
for how in full basic list tree auto; do
	for chunk in 32 64k; do
		expect 0 kedge save -s store -n $how-$chunk --reduce $how --chunk $chunk --codec none big empty small
		expect 0 kedge save -s store -n $how-$chunk --reduce $how --chunk $chunk --codec zstd:5 big empty small
		expect 0 kedge restore -s store -n $how-$chunk -o back
		for f in big empty small; do
			same $f back/$f
		done
		rm -r back
	done
done

# Twice the same: the second costs next to nothing.
expect 0 kedge save -s store -n twice --reduce tree big
expect 0 kedge save -s store -n twice --reduce tree --json big
is "$(json literal_bytes)" 0 "the literal bytes of no change"
[ "$(json stored_bytes)" -lt 1000 ] || fail "no change took $(json stored_bytes) bytes"

# Only an empty file.
expect 0 kedge save -s store -n nothing empty
expect 0 kedge restore -s store -n nothing -o back
same empty back/empty

# Types: whole elements, and files that are not.
expect 0 kedge save -s store -n typed --type f64 big small
expect 0 kedge show -s store -n typed --json
is "$(json regions.0.type)" f64 "the type of big"
is "$(json regions.1.type)" bytes "the type of small"

# Numbers: gaps are fine, going back needs --replace.
expect 0 kedge save -s store -n number -v 0 small
expect 0 kedge save -s store -n number -v 10 small
expect 0 kedge save -s store -n number --json small
is "$(json version)" 11 "the default number"
expect 2 kedge save -s store -n number -v 10 small
expect 0 kedge save -s store -n number -v 10 --replace small
expect 0 kedge ls -s store -n number --quiet
is "$(tr '\n' ' ' <out)" "0 10 " "the versions after --replace"

expect 0 kedge save -s store -n para --paranoid big
expect 0 kedge save -s store -n para --paranoid --set threads=1 --set sync=no big
expect 0 kedge restore -s store -n para -o back
same big back/big

# Settings from the environment and a file.
KEDGE_L1=envstore kedge save -n env small >/dev/null
expect 0 env KEDGE_L1=envstore kedge ls -q
is "$(cat out)" env "the name in the store of KEDGE_L1"
echo "l1 = confstore" >kedge.conf
expect 0 env KEDGE_CONFIG=kedge.conf kedge save -n conf small
expect 0 kedge ls -s confstore -n conf

# Killed at any of its first calls: the store stays good, and the next save cleans up.
expect 0 kedge save -s killed -n job small
n=1
while [ $n -le 12 ]; do
	KEDGE_FAULT=kill@$n kedge save -s killed -n job big small >/dev/null 2>&1 || :
	expect 0 kedge restore -s killed -n job -o back
	same small back/small
	n=$((n + 1))
done
expect 0 kedge save -s killed -n job small
[ -z "$(find killed -name '*.tmp')" ] || fail "leftovers: $(find killed -name '*.tmp')"
expect 0 kedge verify -s killed

# Ended by a signal, early or late: nothing half done. (A shell lets its background jobs ignore SIGINT.)
random slow 4000
for signal in TERM HUP; do
	kedge save -s killed -n job slow >/dev/null 2>&1 &
	saver=$!
	kill -$signal $saver 2>/dev/null || :
	wait $saver || :
	expect 0 kedge verify -s killed
	expect 0 kedge save -s killed -n job small
	expect 0 kedge verify -s killed
	[ -z "$(find killed -name '*.tmp')" ] || fail "leftovers after SIG$signal"
done

# A restore that is ended leaves no temporary files; one that was faster leaves the file.
expect 0 kedge save -s killed -n job slow
kedge restore -s killed -n job -o ended >/dev/null 2>&1 &
restorer=$!
until [ -n "$(find ended -type f 2>/dev/null)" ]; do
	kill -0 $restorer 2>/dev/null || break
done
kill -TERM $restorer 2>/dev/null || :
got=0
wait $restorer || got=$?
case $got in
0) same slow ended/slow ;;
7) [ -z "$(find ended -type f)" ] || fail "an interrupted restore left $(find ended -type f)" ;;
*) fail "exit code $got of an interrupted restore" ;;
esac

# A file that is written to meanwhile is named, and the version has it as it was read. L2 is slow enough to be in time: the
# version is complete on L1 when its manifest is there, and save waits for L2.
random changing 2000
cp changing before
expect 0 kedge save -s moved -n job small
kedge save -s moved -n job --set l2=moved2 --set l2_rate=500k changing small >out 2>err &
saver=$!
until [ -e moved/job/set-00000000000000000002 ]; do
	kill -0 $saver 2>/dev/null || fail "save ended early: $(cat out err)"
done
echo more >>changing
got=0
wait $saver || got=$?
is $got 1 "the exit code of a save of a changing file"
said "kedge save: changing changed while it was read: the version has it as it was read"
printed "version 2 of job"
expect 0 kedge restore -s moved -n job -v 2 -o back
same before back/changing
same small back/small
expect 0 kedge save -s moved -n job changing
expect 0 kedge restore -s moved -n job -o back
same changing back/changing
expect 0 kedge verify -s moved

# ---- without -n it is called what the file or directory is called
mkdir -p default/project
echo x >default/project/file
expect 0 kedge save -s named default/project/
printed "version 1 of project: 1 file"
(cd default/project && kedge save -s ../../named .) >out
printed "version 2 of project"
expect 2 kedge save -s named default/project/file default
said "-n NAME is missing"
expect 2 kedge save -s named - </dev/null
said "-n NAME is missing"
expect 2 kedge save -s named /
said "-n NAME is missing"

# ---- L1 has it, L2 has not: that is said, and what to do
expect 0 kedge save -s half -n job --set l2=far default
mv far away
echo y >default/project/file
expect 5 kedge save -s half -n job --set l2=far default
said "version 2 of job is on L1, but not on L2"
said "'kedge drain -s half -n job' brings it to L2, but not after a later version has reached L2"
is "$(grep -c 'mount that one' err)" 1 "how often the cause is said"
mv away far
expect 0 kedge drain -s half -n job
expect 0 kedge restore -s far -n job -v 2 -o half.back
is "$(cat half.back/default/project/file)" y "what was brought to L2"
mv far away && : >far
echo z >default/project/file
expect 5 kedge save -q -s half -n job --set l2=far default
is "$(grep -c 'Not a directory' err)" 1 "how often the cause is said"
rm far && mv away far
expect 0 kedge save -s half -n job --set l2=far default
expect 0 kedge drain -s half -n job
is "$(kedge ls -q -s far -n job | tr '\n' ' ')" "1 2 4 " "what is on L2 after a later version has reached it"

# ---- drain: where each rank has a directory, those of all ranks
for rank in 0 3; do
	expect 0 kedge save -s node/$rank.l1 -n job$rank --set l2=far default
done
mv far away
for rank in 0 3; do
	expect 5 kedge save -s node/$rank.l1 -n job$rank -f --set l2=far default
done
mv away far
mkdir node/other node/x4.l1
expect 0 kedge drain --set l1='node/%r.l1'
printed "2 versions brought to L2"
is "$(kedge ls -s far -n job3 -q | tr '\n' ' ')" "1 2 " "versions of rank 3 on L2"
expect 3 kedge drain --set l1='node/x/%r'
expect 3 kedge drain --set l1='node/y%r'
said "no rank has a store here"
