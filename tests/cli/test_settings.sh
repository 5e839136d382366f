# SPDX-License-Identifier: BSD-3-Clause
# Settings as people write them: comments behind values, quotes, ~, variables, a place per host, rank or job; and where
# `kedge info` says that each comes from.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

value() # KEY: its value, and where it is from
{
	kedge info --config | sed -n "s/^$1 = *//p"
}

HOME=$PWD/home
export HOME
mkdir -p home/.config data
cat >kedge.conf <<'END'
[kedge]                    # the only section
l1 = ~/store               # fast
l2 = "${PWD}/data/a # b"   ; and safe
l2_every = 0	# as often as pays
keep=3#4
END
KEDGE_CONFIG=kedge.conf
export KEDGE_CONFIG
expect 2 kedge info -q
said "kedge.conf:5: keep: '3#4' does not say which versions to keep"
sed -i 's/3#4/3 #4/' kedge.conf
is "$(value l1)" "$HOME/store   # kedge.conf:2" "l1 with ~"
is "$(value l2)" "'$PWD/data/a # b'   # kedge.conf:3" "l2 in quotes"
is "$(value l2_every)" "0   # kedge.conf:4" "a number with a comment behind it"
is "$(value keep)" "3   # kedge.conf:5" "keep"
is "$(value chunk)" "256   # default" "what nobody set"
is "$(KEDGE_KEEP=4 value keep)" "4   # KEDGE_KEEP" "from the environment"
is "$(kedge info --config --set keep=5 | sed -n 's/^keep = //p')" "5   # --set" "from the command line"
expect 0 kedge info --json
is "$(json settings.0.from)" kedge.conf:2 "the origin of l1"
expect 0 kedge info
grep -q '^keep  *3  *0  *kedge.conf:5$' out || fail "no origin in kedge info: $(grep keep out)"

# What kedge info --config prints is a file of settings with the same values.
kedge info --config >all.conf
sed 's/ *#.*//' all.conf >was
KEDGE_CONFIG=all.conf kedge info --config | sed 's/ *#.*//' | diff was - >differ || fail "read back: $(cat differ)"

# The store is where ~ says, for programs and for the command alike.
random file 64
expect 0 kedge save -n job file --set l2=
[ -d home/store ] || fail "no store in the home directory"
expect 0 kedge ls -n job -q
is "$(cat out)" 1 "the version in ~/store"

# Per host, job and rank.
host=$(uname -n)
is "$(KEDGE_L1='%h/%%' value l1)" "'${host%%.*}/%'   # KEDGE_L1" "a place per host"
is "$(SLURM_JOB_ID=77 KEDGE_L1='/s/%j' value l1)" "/s/77   # KEDGE_L1" "a place per job"
is "$(KEDGE_L1='/s/%h/%r' value l1)" "/s/%h/%r   # KEDGE_L1" "a place per rank"
export KEDGE_L1='ranks/%r'
expect 0 kedge save -n job file --set l2=
[ -d ranks/0 ] || fail "no store for rank 0"
expect 2 kedge ls
said "KEDGE_L1: l1 = ranks/%r: %r stands for the rank of a process, which this command has not"
expect 0 kedge ls -s ranks/0
unset KEDGE_L1

# What stands for nothing is an error that names it.
wrong() # VALUE MESSAGE
{
	printf 'chunk = 64\nl1 = %s\n' "$1" >wrong.conf
	expect 2 env KEDGE_CONFIG=wrong.conf kedge info -q
	said "$2"
}
unset NOWHERE SLURM_JOB_ID PBS_JOBID LSB_JOBID FLUX_JOB_ID JOB_ID COBALT_JOBID
wrong '$NOWHERE/x' 'wrong.conf:2: l1: the variable NOWHERE is not set'
wrong '${NOWHERE}/x' 'wrong.conf:2: l1: the variable NOWHERE is not set'
wrong '/a/%j' 'wrong.conf:2: l1 = /a/%j: %j stands for the scheduler'
wrong '/a/%q' 'wrong.conf:2: l1 = /a/%q: %q means nothing'
wrong '/a/%' 'means nothing'
wrong '~alice/x' 'wrong.conf:2: l1: only ~ and ~/ stand for a home directory'
wrong '/a$' 'write $$ where the sign itself is meant'
wrong '"/a' 'wrong.conf:2: l1: there is no closing "'
wrong "'/a' b" "wrong.conf:2: l1: there is text behind the closing '"

# So is a value that a setting cannot have, whatever its type: the message says where it is written.
invalid() # KEY VALUE MESSAGE
{
	printf 'l1 = store\n%s = %s\n' "$1" "$2" >wrong.conf
	expect 2 env KEDGE_CONFIG=wrong.conf kedge info -q
	said "wrong.conf:2: $1$3"
	expect 2 kedge info -q --set "$1=$2"
	said "--set: $1$3"
}
invalid interval often ": 'often' is not a number"
invalid mtbf never ": 'never' is not a number"
invalid l2_mtbf 5h " is set, but mtbf is not"
invalid codec zip " = zip: "
invalid protect all " = all: must be single, partner"
invalid journal some " = some: must be yes, no"
invalid metrics here " = here: must be the path"
invalid on_signal KILL " = KILL: must be a list of"
invalid chunk 96 " = 96: must be a power of two"
invalid pattern 24 " = 24: must be a power of two"
invalid gpu_memory much " = much: must be a size"
invalid gpu_turns twice " = twice: must be yes, no"
invalid keep all ": 'all' does not say which versions to keep"
invalid record_memory 1 ': "1" is not a size (bytes, or with k, M, G, T) from 1M to 1024T'
printf '%s\n' "l1 = '~\$a%h' # as it is" 'l2 = ${NOWHERE:-/else}/b$$c' >odd.conf
is "$(KEDGE_CONFIG=odd.conf value l1)" "'~\$a%h'   # odd.conf:1" "single quotes"
is "$(KEDGE_CONFIG=odd.conf value l2)" "'/else/b\$c'   # odd.conf:2" "a variable with a text instead"

# -s is a path and nothing else.
expect 0 kedge save -n job -s 'odd$x%h' file --set l2=
[ -d 'odd$x%h' ] || fail "-s was expanded"
expect 0 kedge ls -n job -s 'odd$x%h' -q

# Without another file, that of the user counts; an empty name means none.
unset KEDGE_CONFIG
unset XDG_CONFIG_HOME
echo 'keep = 7 # mine' >home/.config/kedge.conf
is "$(value keep)" "7   # $HOME/.config/kedge.conf:1" "the user's file"
is "$(KEDGE_CONFIG='' value keep)" "0   # default" "no file at all"
is "$(KEDGE_CONFIG=kedge.conf value keep)" "3   # kedge.conf:5" "another file"
mkdir xdg
echo 'keep = 8' >xdg/kedge.conf
is "$(XDG_CONFIG_HOME=$PWD/xdg value keep)" "8   # $PWD/xdg/kedge.conf:1" "the user's other place"
is "$(HOME= XDG_CONFIG_HOME= value keep)" "0   # default" "no home"
