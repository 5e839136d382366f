# SPDX-License-Identifier: BSD-3-Clause
# A staging server as a process: jobs go to L2 through it, it says who may, and what a killed job had sealed is drained.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

expect 0 kedge info --json
[ "$(json staging)" != no ] || exit 77

server=
munged=
# Each writes to this directory until it has ended.
end()
{
	for pid in $server $munged; do
		kill "$pid" 2>/dev/null && wait "$pid" || :
	done
}
trap end EXIT

# start OPTION...: its address is in ./address.
start()
{
	rm -f address
	mkfifo address.pipe
	kedge serve -s l2 --listen tcp://127.0.0.1:0 "$@" >address.pipe 2>server.log &
	server=$!
	read -r address <address.pipe || fail "the server does not begin: $(cat server.log)"
	rm address.pipe
	KEDGE_STAGE=$address
}

stop()
{
	kill "$server"
	wait "$server" || fail "the server ends with $?: $(cat server.log)"
	server=
}

# ---- what cannot work is said
expect 2 kedge serve
said "-s STORE is missing"
expect 2 kedge serve -s l2 --listen nowhere
said "it has no port"
expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --writers 0
said "--writers"
expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:missing
said "missing"
head -c 32 /dev/urandom >key
chmod 644 key
expect 5 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key
said "chmod 600"
chmod 600 key
expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key --memory 1k
said "less than one of them needs"
# libfabric is opened when it is needed: an empty file in its place hurts nothing else.
mkdir broken
: >broken/libfabric.so.1
expect 0 env LD_LIBRARY_PATH="$PWD/broken" kedge info
expect 2 env LD_LIBRARY_PATH="$PWD/broken" kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key
said "staging needs libfabric"

# ---- a job's versions go through it
start --auth key:key
KEDGE_STAGE_AUTH=key:$PWD/key
export KEDGE_STAGE KEDGE_STAGE_AUTH
head -c 300000 /dev/urandom >data
expect 0 kedge save -s l1 -n demo --set l2=l2 data
expect 0 kedge save -s l1 -n demo --set l2=l2 data
is "$(grep -c 'demo: version' server.log)" 2 "segments that the server wrote"
expect 0 kedge verify -s l2 -n demo
stop

# ---- without a server L1 has it, and it is told
expect 5 kedge save -s l1 -n demo --set l2=l2 --set stage_retry=0 data
said "did not reach L2"
expect 0 kedge ls -s l1 -n demo --quiet
is "$(wc -l <out)" 3 "versions on L1"
is "$(kedge ls -s l2 -n demo --quiet | wc -l)" 2 "versions on L2"

# ---- drain brings it there: by the server of the settings, to the L2 that L1 remembers
expect 5 kedge drain -s l1 --set l2=l2 --set stage_retry=0
said "cannot reach"
start --auth key:key
expect 0 kedge drain -s l1 --set l2=l2 --json
is "$(json versions)" 1 "versions drained"
is "$(grep -c 'demo: version' server.log)" 1 "segments that the server wrote"
expect 0 kedge verify -s l2 -n demo
is "$(kedge ls -s l2 -n demo --quiet | wc -l)" 3 "versions on L2"
expect 0 kedge drain -s l1 -n demo --set l2=l2 --json
is "$(json versions)" 0 "versions drained again"
stop
unset KEDGE_STAGE KEDGE_STAGE_AUTH
expect 0 kedge drain -s l1 --after 4194303
printed "0 versions"
expect 3 kedge drain -s l1 --to elsewhere
said "is it mounted?"
mkdir other && expect 0 kedge save -s other/l2 -n demo data
expect 2 kedge drain -s l1 --to other/l2
said "is not the L2 that this L1 belongs to"
expect 3 kedge drain -s nothing

# ---- a run that is given up leaves nothing on L1 alone
cat >dies.sh <<'END'
KEDGE_STAGE=127.0.0.1:1 KEDGE_STAGE_AUTH=key:$PWD/key KEDGE_STAGE_RETRY=0 kedge save -s l1 -n demo --set l2=l2 data
kill -9 $$
END
expect 137 kedge run --retries 0 -- sh dies.sh
said "did not reach L2"
printed "1 version brought to L2"
is "$(kedge ls -s l2 -n demo --quiet | wc -l)" 4 "versions on L2"
expect 0 kedge verify -s l2 -n demo

# ---- by MUNGE, with a daemon of our own
command -v munged >/dev/null || PATH=$PATH:/usr/sbin
if command -v munged >/dev/null && kedge info --json | grep -q MUNGE; then
	mkdir -m 700 m && head -c 1024 /dev/urandom >m/key && chmod 600 m/key
	# It wants directories that nobody else may write to, up to the root.
	munged --foreground --force --key-file="$PWD/m/key" --socket="$PWD/m/socket" --log-file="$PWD/m/log" \
		--pid-file="$PWD/m/pid" --seed-file="$PWD/m/seed" >m/out 2>&1 &
	munged=$!
	while [ ! -S m/socket ] && kill -0 "$munged" 2>/dev/null; do :; done
	if [ -S m/socket ]; then
		start --auth "munge:$PWD/m/socket"
		expect 0 kedge save -s l1 -n demo --set l2=l2 --set stage="$address" --set stage_auth="munge:$PWD/m/socket" data
		is "$(grep -c 'demo: version' server.log)" 1 "segments that the server wrote"
		# A client with a key instead is refused.
		expect 5 kedge save -s l1 -n demo --set l2=l2 --set stage="$address" --set stage_auth="key:$PWD/key" data
		stop
	fi
fi
