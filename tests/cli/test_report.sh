# SPDX-License-Identifier: BSD-3-Clause
# `kedge report`: every number is the journal's, in a real browser if there is one; and what may be wrong with a journal.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# sealed JOURNAL: version, blocked seconds, raw and stored bytes of each sealed version.
sealed()
{
	sed -n '/^{.*"event":"sealed".*}$/{s/.*"version":\([0-9]*\),"blocked_seconds":\([0-9.]*\),.*"raw_bytes":\([0-9]*\),"stored_bytes":\([0-9]*\).*/\1 \2 \3 \4/p;}' "$1" |
		awk '{ printf "%d %.6f %d %d\n", $1, $2, $3, $4 }'
}

# ---- mistakes
expect 2 kedge report --jsn
expect 3 kedge report -s nowhere
said "there is no store at nowhere"
mkdir empty
expect 3 kedge report -s empty
said "empty is not a store"
printf 'open job /store\ncheckpoint 1 10 10 0.1 7\n' >old
expect 6 kedge report -j old
said "the journal of an older version"
printf '{"time":1}\n[\nnonsense\n' >nonsense
expect 3 kedge report -j nonsense
said "has no events"
[ ! -e report.html ] || fail "a page of nothing"

# ---- a store of its own
random f 60 1
random g 10 2
expect 0 kedge save -s without -n job --set journal=no f
expect 3 kedge report -s without
said "no job of without has a journal"
expect 3 kedge report -s without -n job
said "there is no journal at without/job/record-journal"
expect 0 kedge save -s store -n job --reduce tree f g
flip f 1000
expect 0 kedge save -s store -n job --reduce tree f g
flip g 1
expect 0 kedge save -s store -n job --reduce tree -m 'a </script> note' f g
expect 0 kedge report -s store
printed "report.html: 3 versions of job; open it in a browser"
expect 0 kedge report -s store --json
is "$(json totals.versions) $(json versions.2.version) $(json versions.1.parent)" "3 3 1" "the versions"
is "$(json totals.stored_bytes)" "$(sealed store/job/record-journal | awk '{ s += $4 } END { print s }')" "the bytes"
expect 0 kedge save -s store -n other f
expect 2 kedge report -s store
said "name one with -n"
expect 0 kedge report -s store -n job -o - -q
grep -q '<title>kedge report' out || fail "no page on standard output"
expect 5 kedge report -s store -n job -o no/such/dir/page.html
said "cannot write the report"

# ---- a life with a kill, a failure, a fallback and a restart; the line that was cut is passed over
{
	echo '{"time":1000.000000,"event":"open","name":"</script><b>","schema":1,"store":"/s","l2":"/l","ranks":4,"host":"a","pid":9,"capture":"copy"}'
	v=1
	while [ $v -le 40 ]; do
		echo "{\"time\":$((1000 + v * 10)).000000,\"event\":\"begin\",\"name\":\"</script><b>\",\"version\":$v,\"interval_seconds\":10.500000,\"interval_by\":\"chosen\"}"
		echo "{\"time\":$((1000 + v * 10)).250000,\"event\":\"sealed\",\"name\":\"</script><b>\",\"version\":$v,\"blocked_seconds\":0.$((v + 10))0001,\"seconds\":0.250000,\"raw_bytes\":$((v * 1000003)),\"stored_bytes\":$((v * 1009)),\"reducer\":\"tree\",\"rank0\":{\"bytes\":100,\"new_bytes\":$v,\"regions\":[{\"name\":\"u\",\"bytes\":100,\"changed_bytes\":$v,\"new_bytes\":$v,\"map\":\"0123456789abcdef\"}]}}"
		if [ $v -eq 20 ]; then
			echo '{"time":1205.000000,"event":"l2","name":"</script><b>","version":20,"seconds":4.500000,"bytes":777,"form":"copy","self_contained":true}'
			echo '{"time":1206.000000,"event":"failed","name":"</script><b>","version":21,"step":"seal","error":"e","reason":"the disk is full"}'
			echo '{"time":1207.000000,"event":"beg'
			echo '{"time":1300.000000,"event":"open","name":"</script><b>","schema":1,"store":"/s","ranks":4}'
			echo '{"time":1301.000000,"event":"fallback","name":"</script><b>","what":"version","version":20,"reason":"damaged"}'
			echo '{"time":1302.000000,"event":"restart","name":"</script><b>","version":19,"level":1,"seconds":1.000000,"age_seconds":111.750000}'
		fi
		v=$((v + 1))
	done
	echo '{"time":1500.000000,"event":"close","name":"</script><b>","seconds":200.000000,"versions":20}'
} >made
expect 0 kedge report -j made -o made.html
expect 0 kedge report -j made --json
is "$(json totals.versions) $(json totals.killed) $(json totals.lost_seconds) $(json totals.failed) $(json totals.restarts)" \
	"40 1 111.75 1 1" "the sums"
grep -q '</script><b>' made.html && fail "a name ends the script"

# ---- in a browser
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
if [ -z "$browser" ] || [ "$(every 1 2)" = 2 ]; then
	echo "skipped: the page in a browser (there is no chromium, or this build is slow)"
	exit 0
fi
view() # OPTION... PAGE
{
	HOME=$PWD timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/profile" \
		--host-resolver-rules='MAP * ~NOTFOUND' "$@" 2>browser.log
}
# The values of KEY in the table of versions that were sealed.
shown() # KEY
{
	grep 'data-sealed="1"' rows | sed -n "s/.*data-key=\"$1\">\([^<]*\)<.*/\1/p"
}
for page in report made; do
	case $page in
	report) journal=store/job/record-journal ;;
	made) journal=made ;;
	esac
	view --dump-dom "file://$PWD/$page.html" >dom || fail "the browser: $(cat browser.log)"
	grep -q 'data-done="1"' dom || fail "$page.html does not draw itself: $(head -c 2000 dom)"
	sed 's/<tr/\n<tr/g' dom >rows
	for key in version blocked_seconds raw_bytes stored_bytes; do shown $key >"shown.$key"; done
	paste -d' ' shown.version shown.blocked_seconds shown.raw_bytes shown.stored_bytes |
		awk '{ printf "%d %.6f %d %d\n", $1, $2, $3, $4 }' >shown.all
	sealed $journal >wanted.all
	[ -s wanted.all ] || fail "no versions in $journal"
	cmp -s shown.all wanted.all || fail "the table of $page.html differs: $(diff shown.all wanted.all | head)"
	sed 's/<b /\n<b /g' dom | sed -n 's/^<b data-key="\([a-z0-9_]*\)" data-value="\([^"]*\)".*/\1 \2/p' >tiles
	awk '{ n++; b += $2; s += $4 } END { printf "versions %d\nblocked_seconds %.6f\nstored_bytes %d\n", n, b, s }' wanted.all >wanted.tiles
	awk '$1 == "versions" || $1 == "stored_bytes" { print } $1 == "blocked_seconds" { printf "%s %.6f\n", $1, $2 }' tiles >shown.tiles
	cmp -s shown.tiles wanted.tiles || fail "the sums of $page.html differ: $(diff shown.tiles wanted.tiles)"
done
grep -qx 'lost_seconds 111.75' tiles || fail "what was lost: $(cat tiles)"
grep -q 'version 21 failed (seal): the disk is full' dom || fail "the failure is not told"
grep -q 'restart from version 19 on L1' dom || fail "the restart is not told"
grep -q '<h1>&lt;/script&gt;&lt;b&gt;</h1>' dom || fail "the name"
view --screenshot="$PWD/page.png" --window-size=1200,2400 "file://$PWD/made.html" >/dev/null || fail "no picture: $(cat browser.log)"
[ "$(wc -c <page.png)" -gt 20000 ] || fail "an empty picture"
