# SPDX-License-Identifier: BSD-3-Clause
# Two hosts, which are network namespaces joined by a pair of interfaces: the network is cut in the middle of a segment, and
# mended. Skipped where namespaces may not be made.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

expect 0 kedge info --json
[ "$(json staging)" != no ] || exit 77
PATH=$PATH:/usr/sbin:/sbin
one=kedge-a-$$ two=kedge-b-$$
ip netns add "$one" 2>/dev/null || exit 77
server=
job=
end()
{
	for pid in $server $job; do
		kill "$pid" 2>/dev/null && wait "$pid" || :
	done
	ip netns del "$one" 2>/dev/null || :
	ip netns del "$two" 2>/dev/null || :
}
trap end EXIT
ip netns add "$two" || exit 77
ip -n "$one" link add veth0 type veth peer name veth0 netns "$two" 2>/dev/null || exit 77
for at in "$one 10.77.0.1" "$two 10.77.0.2"; do
	# shellcheck disable=SC2086
	set -- $at
	ip -n "$1" addr add "$2/24" dev veth0
	ip -n "$1" link set veth0 up
	ip -n "$1" link set lo up
done

head -c 32 /dev/urandom >key
chmod 600 key
head -c 6000000 /dev/urandom >data
mkfifo address
ip netns exec "$one" kedge serve -s l2 --listen tcp://10.77.0.1:0 --auth key:key --timeout 3 --buffer 64k \
	--client-rate 3M >address 2>server.log &
server=$!
read -r there <address || fail "the server does not begin: $(cat server.log)"

# A host that is not in the server's network does not reach it; a job there takes its checkpoint all the same.
expect 5 kedge save -s other -n demo --set l2=l2 --set stage="$there" --set stage_auth=key:key --set stage_timeout=1 \
	--set stage_retry=0 data
said "did not reach L2"

ip netns exec "$two" kedge save -s l1 -n demo --set l2=l2 --set stage="$there" --set stage_auth=key:key \
	--set stage_timeout=3 --set stage_retry=60 data >save.out 2>&1 &
job=$!
while ! ls l2/demo/v*/*.tmp >/dev/null 2>&1; do
	kill -0 $job 2>/dev/null || fail "the job ended before its segment began: $(cat save.out)"
	sleep 0.02
done
ip -n "$one" link set veth0 down
while ! grep -q "is gone" server.log; do sleep 0.02; done
ip -n "$one" link set veth0 up
wait $job || fail "the job: $(cat save.out) $(cat server.log)"
job=
grep -q 'demo: version' server.log || fail "the server did not write it: $(cat server.log)"
expect 0 kedge verify -s l2 -n demo
rm -rf l1
expect 0 kedge restore -s l2 -n demo -o back
same data back/data
