# SPDX-License-Identifier: BSD-3-Clause
# An MPI program that knows nothing of Kedge: its checkpoints are watched, its directory is lost, what was taken is packed, handed on, put back,
# and the program goes on from there to the same result.
. "$KEDGE_SOURCE/tests/cli/lib.sh"
steps=$3
KEDGE_SYNC=no
export KEDGE_SYNC

mkdir run undisturbed
mpirun -n 2 "$steps" undisturbed 40 10 expected >out
kedge watch run -s store -n steps --files 'ck-{}-r*.h5' --count 2 --remove >log 2>&1 &
watch=$!
mpirun -n 2 "$steps" run 20 10 half >out
tries=0
while [ "$(kedge ls -q -s store -n steps 2>/dev/null | wc -l)" -lt 2 ] || [ -n "$(ls run)" ]; do
	tries=$((tries + 1))
	[ $tries -lt 3000 ] || fail "the sets were not taken: $(cat log)"
	sleep 0.1
done
kill $watch
code=0
wait $watch || code=$?
is $code 0 "the exit code of the watch"
grep -q '^set 20: version 2 of steps, 2 files' log || fail "no line for a set: $(cat log)"

# Handed on as one file; the store and the directory are lost.
expect 0 kedge restore -s store -n steps -o elsewhere
(cd elsewhere && kedge pack . -q -o ../newest.kpk)
rm -rf run store
mkdir run
expect 0 kedge unpack newest.kpk -o run
diff -r elsewhere run || fail "the pack has other files than the store had"
mpirun -n 2 "$steps" run 40 10 answer >out
printed 'begins at step 20'
same answer expected
expect 0 kedge watch run -s store -n steps --files 'ck-{}-r*.h5' --count 2 --once
is "$(kedge ls -q -s store -n steps | wc -l)" 3 "versions of the second half, and of what it began with"
