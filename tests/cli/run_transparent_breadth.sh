# SPDX-License-Identifier: BSD-3-Clause
# `kedge run --transparent`: what cannot be captured is named, and runs on; MPI is refused before anything starts; which files are kept;
# the end of the allocation, back to the queue, and halt; other ids; a program that has changed.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

programs=$BUILD_DIR/tests/process/programs
[ -x "$programs/sequential" ] || exit 77

await() { # CONDITION...
	while ! eval "$@" 2>/dev/null; do
		sleep 0.02
	done
}

# ---- what cannot be captured

# Each is named, and ends as if nothing had been.
refuses() { # WHAT THE PROGRAM HAS
	mkdir "refused.$1"
	(
		cd "refused.$1"
		echo 5 >limit
		(
			code=0
			REFUSED=$2 "$KEDGE_BIN" run --backoff 0 --retries 0 --transparent --interval 0.01 --set sync=no -s store -n job -- "$programs/refused" 20 >out 2>err || code=$?
			echo $code >code
		) &
		run=$!
		await '[ -s code ] || grep -q "cannot be captured now, and runs on" err'
		echo 1000000 >limit.new
		mv limit.new limit
		wait $run
		code=$(cat code)
		[ "$code" -ne 77 ] || exit 0 # not to be had here
		[ "$code" -eq 0 ] || die "$2: it ended with $code"
		wants err "cannot be captured now, and runs on: .*$3"
		cmp answer ../whole.answer || die "$2: it has another answer"
	) || exit 1
}

mkdir whole.refused
(cd whole.refused && REFUSED=memfd "$programs/refused" 20) || exit 77
mv whole.refused/answer whole.answer
pids=
n=0
for what in child:child connection:connection timer:timer_create device:device removed:removed \
	memfd:memfd inotify:inotify io_uring:io_uring; do
	n=$((n + 1))
	refuses "$n" "${what%:*}" "${what#*:}" &
	pids="$pids $!"
done
wrong=
for pid in $pids; do
	wait "$pid" || wrong=yes
done
[ -z "$wrong" ] || exit 1

# ---- timers and signals behind descriptors: killed after a version, they go on where they were

mkdir clocks
(
	cd clocks
	echo 5 >limit
	"$KEDGE_BIN" run --backoff 0 --transparent --interval 1000000 --set sync=no -s store -n job -- "$programs/clocks" 20 >out 2>err &
	run=$!
	await '[ $(wc -c <progress) -ge 5 ]'
	"$KEDGE_BIN" checkpoint-now --wait 600 -s store -n job >said 2>&1 || die "not captured: $(cat said err)"
	kill -KILL "$(cut -d ' ' -f 2 store/job/running)"
	await 'grep -q "restarted from version 1" err'
	echo 1000000 >limit.new
	mv limit.new limit
	code=0
	wait $run || code=$?
	wants_code 0
	cmp answer ../whole.answer || die "another answer"
) || exit 1

# ---- MPI

run --transparent -s mpi -- mpirun -n 2 true
wants_code 2
wants err 'mpirun starts the processes of an MPI program.*with the library'
code=0
OMPI_COMM_WORLD_SIZE=2 "$KEDGE_BIN" run --transparent -s mpi -- sleep 1 >out 2>err || code=$?
wants_code 2
wants err 'one of 2 processes of an MPI program'
if [ -x "$BUILD_DIR/examples/heat2d" ] && readelf -d "$BUILD_DIR/examples/heat2d" 2>/dev/null | grep -q libmpi; then
	run --transparent -s mpi -- "$BUILD_DIR/examples/heat2d" --steps 1
	wants_code 2
	wants err 'is an MPI program (libmpi'
	wants err 'with the library'
fi
[ ! -e mpi ] || die "a store was made for a program that is refused"

# ---- a program with files

limit() { # ROUNDS
	echo "$1" >limit.new
	mv limit.new limit
}
versions() { ls store/job | grep -c '^set-[0-9]*$'; }
reached() { await "[ \$(wc -c <progress) -ge $1 ]"; }
start() { # ARG...
	"$KEDGE_BIN" run --backoff 0 --transparent --interval 1000000 --set sync=no -s store -n job "$@" -- ./sequential 1200 >>printed 2>err &
	run=$!
}
end() {
	code=0
	wait $run || code=$?
}
regions() { # of the newest version, whose names begin with files/
	"$KEDGE_BIN" show -s store -n job --json | tr ',' '\n' | sed -n 's/.*"name": *"files.*\/\([a-z]*\)".*/\1/p' | sort | tr '\n' ' '
}

mkdir whole
cp "$programs/sequential" whole
(cd whole && ./sequential 1200 >printed)
# TERM; the end of the allocation; halt: each with another choice of files. The same command goes on and ends right.
mkdir life
cd life
cp "$programs/sequential" .
for files in none written all; do
	rm -rf progress answer log more table printed store
	limit 20
	case $files in
	none)
		start --files none
		reached 20
		"$KEDGE_BIN" halt -s store -n job >out 2>&1
		;;
	written)
		start --deadline 1h --lead 3600
		;;
	all)
		start --files all
		reached 20
		kill -TERM $run
		;;
	esac
	end
	wants_code 75
	wants err 'saved, and ended as it was asked to'
	[ "$(versions)" -eq 1 ] || die "there is no version of $files"
	case $files in
	none) [ -z "$(regions)" ] || die "contents of files: $(regions)" ;;
	written) : ;; # it may have been asked before it had a file
	all) [ "$(regions)" = "log more progress table " ] || die "contents of files: $(regions)" ;;
	esac
	limit 1000000
	start --files $files
	end
	wants_code 0
	wants err 'restarted from version 1'
	for file in answer log more table printed; do
		cmp ../whole/$file $file || die "$files: $file is not what it is without an end"
	done
done

# Back to the queue.
mkdir bin
cat >bin/scontrol <<'END'
#!/bin/sh
echo "scontrol $*" >>asked
[ "$1" != show ] || echo "JobId=7 JobState=RUNNING StartTime=now EndTime=$(date -d "+1 hour" +%Y-%m-%dT%H:%M:%S) Deadline=N/A"
END
chmod +x bin/scontrol
rm -rf progress answer log more table printed store
limit 20
(
	PATH=$PWD/bin:$PATH SLURM_JOB_ID=7
	export PATH SLURM_JOB_ID
	start --requeue --lead 2h
	end
	wants_code 75
	wants asked '^scontrol requeue 7$'
) || exit 1

# Where ids cannot be kept, that is said; --new-ids goes on without them. (Here a namespace in which there may be no further ones.)
forbid() { # COMMAND...
	unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces && exec "$@"' sh "$@"
}
if [ -z "${SANITIZERS:-}" ] && forbid true 2>/dev/null; then
	rm -rf progress answer log more table printed store
	limit 20
	first="$KEDGE_BIN run --backoff 0 --transparent --interval 1000000 --set sync=no -s store -n job"
	forbid $first -- ./sequential 1200 >printed 2>err &
	run=$!
	reached 20
	await '[ -e store/job/running ]'
	"$KEDGE_BIN" halt -s store -n job >out 2>&1
	end
	wants_code 75
	limit 1000000
	code=0
	forbid $first --retries 0 -- ./sequential 1200 >>printed 2>err || code=$?
	[ "$code" -ne 0 ] || die "ids were kept where that cannot be"
	wants err '--new-ids'
	forbid $first --new-ids -- ./sequential 1200 >>printed 2>err || die "new ids"
	for file in answer log more table printed; do
		cmp ../whole/$file $file || die "with new ids, $file is not what it is without an end"
	done
fi

# The program is another one now: refused, and nothing is started.
rm -rf progress answer log more table printed store
limit 20
start
reached 20
kill -TERM $run
end
wants_code 75
cp "$programs/sequential-static" sequential
before=$(wc -c <progress)
start
end
[ "$code" -ne 0 ] || die "another program went on"
wants err "a program or library has changed since: $PWD/sequential"
[ "$(wc -c <progress)" -eq "$before" ] || die "it was started"
