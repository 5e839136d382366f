# SPDX-License-Identifier: BSD-3-Clause
# kedge-bench versions: every figure is there at every count, with and without L2, for one rank and several. How long
# anything takes is not asked.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

expect 0 kedge-bench versions --versions 2,5 --size 1k --ranks 1 --ranks 2 --checkpoints 2 --repeat 2 --dir . --json
silent
is "$(json size_per_rank)" 1024 "the size of the state"
is "$(json changed_percent)" 100 "what changes"
is "$(json sync)" true "whether files are synced"
is "$(json results)" 8 "the number of results"
i=0
for ranks in 1 2; do
	for l2 in false true; do
		for count in 2 5; do
			row=results.$i
			is "$(json $row.ranks)" $ranks "the ranks of row $i"
			is "$(json $row.l2)" $l2 "the L2 of row $i"
			is "$(json $row.versions)" $count "the versions of row $i"
			for name in bare checkpoint checkpoint_complete open close versions_call ls restart_newest restart_oldest gc; do
				awk "BEGIN { exit !(0 < $(json $row.$name.lowest) && $(json $row.$name.lowest) <= $(json $row.$name.seconds) &&
					$(json $row.$name.seconds) <= $(json $row.$name.highest)) }" || fail "$name of row $i is not within its spread"
				[ $count -ne 2 ] || is "$(json $row.$name.ratio_to_first)" 1.0 "the ratio of $name to itself"
				json $row.$name.cpu_seconds >/dev/null
				json $row.$name.cpu_ratio_to_first >/dev/null
			done
			for name in open versions_call ls; do
				awk "BEGIN { d = $(json $row.$name.microseconds_per_version) * $count / 1e6 / $(json $row.$name.seconds) - 1
					exit !(-1e-6 < d && d < 1e-6) }" || fail "$name per version of row $i is not its time over $count"
			done
			awk "BEGIN { exit !($(json $row.checkpoint_complete.seconds) >= $(json $row.checkpoint.lowest)) }" ||
				fail "kedge_wait() returned before kedge_checkpoint() in row $i"
			json $row.checkpoint_to_bare >/dev/null
			i=$((i + 1))
		done
	done
done
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"

# In words; versions that refer to others; a setting.
expect 0 kedge-bench versions --versions 1,6 --size 4k --changed 10 --ranks 1 --levels 2 --checkpoints 1 --repeat 1 --no-sync \
	--dir . --set reducer=tree
printed "4.00 KiB per rank, 10 % of it new in each version"
printed "1 rank, L1 and L2"
printed "kedge_restart() of the oldest"
printed "us per version"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"

# A rank that fails ends the run with its message, and leaves nothing behind.
expect 5 kedge-bench versions --versions 2 --ranks 2 --levels 1 --checkpoints 1 --repeat 1 --dir . --set reducer=none
said "cannot go on"
[ -z "$(find . -name 'kedge-bench*')" ] || fail "files were left"

for wrong in "--versions 10,5" "--versions 0" "--versions 1.5" "--versions x" "--size 4" "--changed 0" "--changed 101" "--ranks 0" \
	"--ranks 65" "--levels 3" "--checkpoints 0" "--repeat 65"; do
	# shellcheck disable=SC2086
	expect 2 kedge-bench versions $wrong
	said "${wrong%% *}"
done
