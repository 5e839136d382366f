# SPDX-License-Identifier: BSD-3-Clause
# Nodes that are down are left out, spares take their place, and below --min-nodes nothing is launched.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
unset SLURM_JOB_NODELIST PBS_NODEFILE LSB_DJOB_HOSTFILE || :

cat >hosts <<'END'
# a name for each processor, as PBS writes them
a slots=2
a
b
c
d
END
mkdir down
job job <<'END'
open_job
took "$KEDGE_RUN_LAUNCH"
echo "$KEDGE_RUN_LAUNCH: $1 $2 $KEDGE_RUN_NODES $KEDGE_RUN_NODE_COUNT $(tr '\n' , <"$3") $(tr '\n' , <"$KEDGE_RUN_HOSTFILE")"
case $KEDGE_RUN_LAUNCH in
1) touch down/b ;;
2) touch down/a; rm down/b ;; # b comes back, but is not trusted again
*) exit "${END:-0}" ;;
esac
exit 1
END
check='test ! -e down/$KEDGE_NODE'

# One spare is taken; then three are wanted, and two are enough.
run --hosts hosts --spares 1 --min-nodes 2 --check-node "$check" -- ./job {nodes} n={count} {hostfile}
wants_code 0
cat >wanted <<'END'
1: a,b,c n=3 a,b,c 3 a,b,c, a,b,c,
2: a,c,d n=3 a,c,d 3 a,c,d, a,c,d,
3: c,d n=2 c,d 2 c,d, c,d,
END
cmp out wanted || die "the launches were on other nodes"
wants err 'node b is left out (check: exit code 1)'
wants err 'launching on 3 of 4 nodes: a,c,d'
wants err 'launching on 2 of 4 nodes: c,d'
no_journal_left

# Without spares, fewer nodes than at first are too few.
rm -f down/*
run --hosts hosts --check-node "$check" --json -- ./job {nodes} {count} {hostfile}
wants_code 75
wants err 'not finished: 3 nodes are left, and --min-nodes is 4'
wants out '"outcome": "too_few_nodes"'
rm -f down/*
touch down/a down/b down/c down/d
run --hosts hosts --check-node "$check" -- ./job
wants_code 75
wants err 'not finished: 0 nodes are left'
[ ! -s out ] || die "something was launched"

# PBS's and LSF's files are found; mistakes are said before anything runs.
rm -f down/*
touch down/b
PBS_NODEFILE=hosts run --spares 1 --check-node "$check" -- echo {nodes}
wants out '^a,c,d$'
LSB_DJOB_HOSTFILE=hosts run --min-nodes 4 -- echo {count}
wants out '^4$'
run --spares 1 -- ./job
wants_code 2
wants err 'not a job of Slurm, PBS or LSF; name a file of their names with --hosts'
run --hosts hosts --spares 4 -- ./job
wants err '4 nodes, and 4 of them spares'
run --hosts hosts --spares 2 --min-nodes 3 -- ./job
wants err 'min-nodes 3 is more than the 2 nodes of a launch'
run --hosts none -- ./job
wants err 'none'
no_journal_left
