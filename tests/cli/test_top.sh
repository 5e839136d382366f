# SPDX-License-Identifier: BSD-3-Clause
# What a staging server says of itself: the line of the log for each version, metrics, the pages, and `kedge top`.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# ---- mistakes are said, and a server that is not there
expect 2 kedge top nowhere
said "it has no port"
expect 2 kedge top tcp://127.0.0.1:7421
said "is not an address of HTTP"
expect 2 kedge top --interval -1
said "--interval"
expect 2 kedge top --interval never
expect 5 kedge top --once --interval 0 127.0.0.1:1 http://127.0.0.1:1/
is "$(grep -c 'no answer: cannot reach' out)" 2 "servers that do not answer"
expect 5 kedge top --json --interval 0 127.0.0.1:1
case $(json 0.error) in *"cannot reach"*) ;; *) fail "the error is $(json 0.error)" ;; esac

# ---- jobs, as their journals have them
expect 5 kedge top -s nowhere
printed "nowhere   cannot be read"
mkdir empty
expect 0 kedge top -s empty
printed "no job has a journal here"
random f 10 1
KEDGE_METRICS=$PWD/ expect 0 kedge save -s jobs -n one f
grep -qx 'kedge_job_version{name="one",store=".*/jobs"} 1' one.prom || fail "no metrics: $(cat one.prom)"
if command -v promtool >/dev/null; then
	promtool check metrics <one.prom >lint 2>&1 || fail "metrics: $(cat lint)"
	[ ! -s lint ] || fail "metrics: $(cat lint)"
fi
expect 0 kedge save -s jobs -n two f
flip f 100
expect 0 kedge save -s jobs -n two f
printf '%s\n' '{"time":1,"event":"open","name":"two","host":"elsewhere","pid":7}' '{"time":2,"event":"failed","name":"two",' \
	>>jobs/two/record-journal
expect 0 kedge top -s jobs
is "$(sed 's/  */ /g; s/^ //' out | cut -d' ' -f1-3)" "store jobs
JOB STATE VERSION
one closed 1
two running 2" "the jobs"
expect 0 kedge top -s jobs --json
is "$(json 1.kind) $(json 1.name) $(json 1.version) $(json 1.state) $(json 1.totals.versions)" "job two 2 running 2" "a job"
is "$(json 1.stored_bytes)" "$(sed -n 's/.*"event":"sealed".*"version":2,.*"stored_bytes":\([0-9]*\).*/\1/p' jobs/two/record-journal)" "its bytes"

expect 0 kedge info --json
[ "$(json staging)" != no ] || exit 77
pages=$(json http)
head -c 32 /dev/urandom >key
chmod 600 key
expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key --http 127.0.0.1
said "--http: "
expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key --http ftp://127.0.0.1:0
said "--http: "
if [ "$pages" = no ]; then
	expect 2 kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key --http 127.0.0.1:0
	said "without libmicrohttpd"
	exit 77
fi

server=
client=
end()
{
	for pid in $server $client; do
		kill "$pid" 2>/dev/null && wait "$pid" || :
	done
}
trap end EXIT

start() # OPTION...
{
	mkfifo lines
	kedge serve -s l2 --listen 127.0.0.1:0 --auth key:key --http 127.0.0.1:0 "$@" >lines 2>server.log &
	server=$!
	{
		read -r KEDGE_STAGE
		read -r http
	} <lines || fail "the server does not begin: $(cat server.log)"
	rm lines
	port=${http##*:}
}

stop()
{
	kill "$server"
	wait "$server" || fail "the server ends with $?: $(cat server.log)"
	server=
}

ask() # REQUEST: its answer in ./answer, without CRs
{
	# shellcheck disable=SC2059
	printf "$1" | "$CHECK" talk "$port" | tr -d '\r' >answer
}

answered() # CODE
{
	head -n 1 answer | grep -q "^HTTP/1.1 $1 " || fail "not $1: $(cat answer)"
}

page() # PATH: its body in ./body
{
	ask "GET $1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	answered 200
	sed '1,/^$/d' answer >body
}

metric() # NAME
{
	sed -n "s/^$1 //p" body
}

KEDGE_STAGE_AUTH=key:$PWD/key
export KEDGE_STAGE KEDGE_STAGE_AUTH

# ---- what was sent is what is counted: by the metrics, by top, and by the files
start --memory 1MiB --buffer 64k
page /metrics
is "$(metric kedge_stage_segments_total)" 0 "segments at first"
"$CHECK" random data 300 1
expect 0 kedge save -s l1 -n demo --set l2=l2 data
"$CHECK" random data 200 2
expect 0 kedge save -s l1 -n demo --set l2=l2 data
expect 0 kedge save -s l1b -n 'other' --set l2=l2 data
sent=$(find l2 -name '*.seg' -exec cat {} + | wc -c)
page /metrics
is "$(metric kedge_stage_read_bytes_total)" "$sent" "bytes read"
is "$(metric kedge_stage_written_bytes_total)" "$sent" "bytes written"
is "$(metric kedge_stage_segments_total)" 3 "segments"
is "$(metric kedge_stage_connections_total)" 3 "clients so far"
is "$(metric kedge_stage_failures_total)" 0 "failures"
is "$(metric kedge_stage_buffer_limit_bytes)" 1048576 "the limit of the buffers"
if command -v promtool >/dev/null; then
	promtool check metrics <body >promtool.out 2>&1 || fail "promtool: $(cat promtool.out)"
	[ ! -s promtool.out ] || fail "promtool: $(cat promtool.out)"
else
	echo "skipped: promtool check metrics (there is no promtool)"
fi
expect 0 kedge top --once --interval 0 "$http"
printed "in 3 segments, 0 not stored"
expect 0 kedge top --json --interval 0 "$http/"
is "$(json 0.bytes_written)" "$sent" "bytes in the JSON"
is "$(json 0.segments)" 3 "segments in the JSON"
is "$(json 0.address)" "$KEDGE_STAGE" "its address"
page /
grep -q '<title>Kedge staging server</title>' body || fail "not the page: $(head -n 5 body)"
! grep -q 'src=\|url(\|@import\|https:' body || fail "the page needs others"

# ---- only GET and HEAD, only these pages, only this host
ask 'HEAD /metrics HTTP/1.0\r\n\r\n'
answered 200
is "$(sed '1,/^$/d' answer | wc -c)" 0 "the body of an answer to HEAD"
for method in POST PUT DELETE OPTIONS; do
	ask "$method / HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
	answered 405
done
for path in /metrics/ /../key /%%2e%%2e/key /l2 //; do
	ask "GET $path HTTP/1.0\r\n\r\n"
	answered 404
done
ask 'GET / HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n'
answered 403
ask 'GET /metrics HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody'
! grep -q kedge_stage answer || fail "a request with a body was answered"
ask '\001\002\003\r\n\r\n'
! grep -q kedge_stage answer || fail "noise was answered"
{
	printf 'GET /metrics HTTP/1.0\r\nX: '
	head -c 100000 /dev/zero | tr '\0' x
	printf '\r\n\r\n'
} | "$CHECK" talk "$port" >answer
! grep -q kedge_stage answer || fail "a request of 100 kB was answered"
page /metrics

# ---- a line for each version
stop
is "$(grep -c 'version [12] of demo: 1 segment, [0-9]* bytes, begun .*Z, on L2 [0-9.]* s later' server.log)" 2 "lines of versions"
grep -q 'version 1 of other: 1 segment' server.log || fail "no line of the other job: $(cat server.log)"

# ---- a client on its way is seen, and its version; and that it is gone
start --memory 1MiB --buffer 64k --client-rate 1k
"$CHECK" random big 1000 3
kedge save -s l1c -n slow --set l2=l2 big >/dev/null 2>&1 &
client=$!
until expect 0 kedge top --json --interval 0 "$http" && grep -q '"waiting": [1-9]' out; do
	kill -0 "$client" || fail "the client ended"
done
is "$(json 0.clients.0.job)" slow "the client's job"
is "$(json 0.clients.0.version)" 1 "its version"
is "$(json 0.versions.0.job)" slow "the job in flight"
is "$(json 0.versions.0.open)" 1 "segments in flight"
expect 0 kedge top --once --interval 0 "$http"
grep -q '^  slow  *127.0.0.1:[0-9]*  *1\.0 ' out || fail "the client is not shown: $(cat out)"
page /metrics
is "$(metric 'kedge_stage_job_segments_open{job="slow"}')" 1 "segments of the job in flight"
is "$(metric kedge_stage_clients)" 1 "clients"
if command -v promtool >/dev/null; then
	promtool check metrics <body >promtool.out 2>&1 || fail "promtool: $(cat promtool.out)"
fi
kill -9 "$client"
wait "$client" 2>/dev/null || :
client=
until page /metrics && [ "$(metric kedge_stage_clients)" -eq 0 ]; do :; done
stop
grep -q 'version 1 of slow: 0 segments, 1 not stored.* given up' server.log || fail "no line of the lost version: $(cat server.log)"
