# SPDX-License-Identifier: BSD-3-Clause
# Under Slurm: a node dies, srun is told to leave it out and to take the spare, and below --min-nodes nothing is launched.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
. "$KEDGE_SOURCE/tests/cli/slurm_lib.sh"
slurm_start 4

# Each task says where it is. In the first launch n1 dies, and the step with it: once all tasks are there, because an srun that
# is told of it while it launches may wait for ever.
cat >task <<'END'
#!/bin/sh
echo "$KEDGE_RUN_LAUNCH $SLURMD_NODENAME $SLURM_NNODES" >>where
[ "$KEDGE_RUN_LAUNCH" -eq 1 ] || exit 0
[ "$SLURMD_NODENAME" != n1 ] || echo x >dying
exec sleep 1000
END
chmod +x task
mkfifo dying
(
	read -r x <dying
	until [ "$(wc -l <where)" -eq 3 ]; do
		sleep 0.1
	done
	slurm_node_dies n1
) &
code=0
salloc -Q -N4 --no-kill "$KEDGE_BIN" run --backoff 0 --spares 1 -- srun -n3 ./task >out 2>err || code=$?
wants_code 0
sort where >sorted
cat >wanted <<'END'
1 n0 3
1 n1 3
1 n2 3
2 n0 3
2 n2 3
2 n3 3
END
cmp sorted wanted || die "tasks ran elsewhere: $(cat sorted)"
wants err 'launching on 3 of 4 nodes: n0,n1,n2'
wants err 'node n1 is left out (down'
wants err 'launching on 3 of 4 nodes: n0,n2,n3'

# What is left is too little for a run without a spare, and enough for one that is content with three.
code=0
scontrol update nodename=n3 state=drain reason=test
salloc -Q -N2 "$KEDGE_BIN" run --min-nodes 2 -- srun sh -c 'echo $SLURMD_NODENAME' >out 2>err || code=$?
wants_code 0
wants out n0
wants out n2

# A job that loses its node ends right: it goes on elsewhere with its newest version.
scontrol update nodename=n3 state=resume
(
	until "$KEDGE_BIN" ls -n steps -q 2>/dev/null | grep -q .; do
		sleep 0.1
	done
	slurm_node_dies n0
) &
code=0
salloc -Q -N2 --no-kill -w n0,n2 "$KEDGE_BIN" run --backoff 0 --spares 1 -- srun -n1 "$BUILD_DIR/tests/cli/cli_steps" lasting >out 2>err || code=$?
wants_code 0
wants err 'launching on 1 of 2 nodes: n0'
wants err 'node n0 is left out (down'
wants err 'launching on 1 of 2 nodes: n2'
from=$(sed -n 's/.*restarted from version \([0-9]*\).*/\1/p' err | tail -1)
began=$(sed -n 's/began at \([1-9][0-9]*\),.*/\1/p' out | tail -1)
[ "$began" -eq $((from * 10)) ] || die "it began at $began, and version $from is of step $((from * 10))"
wants out "^done at $((began + 25))$"
