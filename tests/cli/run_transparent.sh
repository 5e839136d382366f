# SPDX-License-Identifier: BSD-3-Clause
# A program that knows nothing of checkpoints: captured on request, restarted after its death, after that of its run, and
# refused where it would do harm.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

programs=$BUILD_DIR/tests/process/programs
[ -x "$programs/sequential" ] || exit 77
rounds=1200

await() { # CONDITION...
	while ! eval "$@" 2>/dev/null; do
		sleep 0.02
	done
}

limit() { # ROUNDS
	echo "$1" >limit.new
	mv limit.new limit
}

progress() { wc -c <progress; }
reached() { await "[ \$(progress) -ge $1 ]"; }
versions() { ls store/job | grep -c '^set-[0-9]*$'; }
pid_of_program() { cut -d ' ' -f 2 store/job/running; }

start() { # ARG...
	"$KEDGE_BIN" run --backoff 0 --transparent --interval 1000000 -s store -n job "$@" -- ./sequential $rounds >>printed 2>err &
	run=$!
}

end() {
	code=0
	wait $run || code=$?
}

mkdir whole
cp "$programs/sequential" whole
cp "$programs/sequential" .
(cd whole && ./sequential $rounds >printed)

# It dies, and goes on from where it was captured; then it is asked to end.
limit 300
start
reached 300
"$KEDGE_BIN" checkpoint-now -s store -n job >said || die "it was not asked"
await '[ $(versions) -eq 1 ]'
limit 600
reached 600
limit 500
kill -KILL $(pid_of_program)
await 'grep -q "restarted from version 1" err'
reached 500
kill -TERM $run
end
wants_code 75
wants err 'asking the job to save its state and to end: signal TERM'
[ "$(versions)" -eq 2 ] || die "no version was taken before the end"
"$KEDGE_BIN" verify -s store -n job >verified || die "a version is not intact"
"$KEDGE_BIN" show --process -s store -n job >shown || die "show"
wants shown "process  ./sequential $rounds"
wants shown "file.*$PWD/more"
wants shown "\[stack\]"
"$KEDGE_BIN" show -s store -n job >shown || die "show"
wants shown 'note .*stop [0-9.]* ms, full: [0-9]* pages in the stop'

# The same command goes on.
limit 1000000
start
end
wants_code 0
wants err 'restarted from version 2'
for file in answer log more table printed; do
	cmp whole/$file $file || die "$file is not what it is without a failure"
done
[ "$(versions)" -eq 0 ] || die "a program that has ended needs no versions"

# Its run is killed: it lives on, and is not started a second time.
rm -f progress answer
limit 100
start
reached 100
"$KEDGE_BIN" checkpoint-now -s store -n job >said || die "it was not asked"
await '[ $(versions) -eq 1 ]'
program=$(pid_of_program)
kill -KILL $run
end
kill -0 "$program" || die "the program died with its run"
start
end
[ "$code" -ne 0 ] || die "two of them run"
wants err "still runs as process $program"
kill -KILL "$program"
await "! kill -0 $program"

# Another command, a file that is gone, a version that is damaged: refused, and nothing is started.
code=0
"$KEDGE_BIN" run --transparent -s store -n job -- ./sequential 7 >out 2>err || code=$?
[ "$code" -ne 0 ] || die "another command went on"
wants err 'another command'
mv more more.away
start
end
[ "$code" -ne 0 ] || die "a file is missing"
wants err 'missing.*/more'
mv more.away more
for segment in store/job/v*/*.seg; do
	chmod u+w "$segment"
	printf 'XXXXXXXXXXXXXXXX' | dd of="$segment" bs=1 seek=4000 conv=notrunc 2>/dev/null
done
start
end
[ "$code" -ne 0 ] || die "a damaged version was used"
[ "$(progress)" -eq 100 ] || die "it was started"

# Whether it can be captured, without a store.
limit 100
run --transparent --check -- ./sequential $rounds
wants_code 0
wants err 'can be captured'
run --transparent --check -- sh -c 'sleep 60; :'
wants_code 1
wants err 'it has a child'
run --transparent --files some -- true
wants_code 2

# What was written is captured, and -v says how.
mkdir memory
cd memory
limit 50
"$KEDGE_BIN" run --backoff 0 --transparent -v --interval 1000000 -s ../store -n memory -- "$programs/memory" 400 >out 2>err &
run=$!
reached 50
for n in 1 2; do
	"$KEDGE_BIN" checkpoint-now -s ../store -n memory >said || die "it was not asked"
	await "[ \$(grep -c captured: err) -eq $n ]"
	limit $((50 + 50 * n))
	reached $((50 + 50 * n))
done
grep -q 'all memory of the program is read' err || wants err 'captured: stop .* ms, increment: [0-9]* pages in the stop, [0-9]* before it'
limit 120
kill -KILL $(cut -d ' ' -f 2 ../store/memory/running)
await 'grep -q "restarted from version 2" err'
limit 1000000
end
wants_code 0
mkdir whole
(cd whole && "$programs/memory" 400)
cmp whole/answer answer || die "the answer is not what it is without a failure"
cd ..
run --interval 3 -- true
wants_code 2
wants err 'need --transparent'
