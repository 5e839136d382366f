# SPDX-License-Identifier: BSD-3-Clause
# A FIFO or a device in the place of any file: each command comes to an end, and says what is wrong where it matters.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random in 100
expect 0 kedge save -s good -n job in
printf y >>in
expect 0 kedge save -s good -n job in
expect 0 kedge verify -s good -n job

# ends COMMAND...: whatever it finds, it does not wait (the limit is there to end the test, not to measure).
ends()
{
	got=0
	timeout -k 5 60 "$@" >out 2>err || got=$?
	[ "$got" -ne 124 ] && [ "$got" -ne 137 ] || fail "waits for ever ($what): $*"
	[ "$got" -lt 128 ] || fail "exit code $got ($what): $*"
}

refused()
{
	ends "$@"
	[ "$got" -ne 0 ] || fail "no error ($what): $*"
	cat out >>err
	said "is not a regular file"
}

all_end()
{
	ends kedge ls -s bad
	ends kedge ls -s bad -n job
	ends kedge show -s bad -n job
	ends kedge diff -s bad -n job 1 2
	ends kedge verify -s bad -n job
	ends kedge restore -s bad -n job -o back
	ends kedge gc -s bad -n job --keep 1 --dry-run
	ends kedge save -s bad -n job in
	ends kedge coalesce -s bad -n job
	ends kedge gc -s bad -n job --keep 1
}

# put PLACE [DEVICE]: a copy of the store with a FIFO, or a link to the device, there.
put()
{
	what="$*"
	rm -rf bad back
	cp -r good bad
	rm -f "bad/$1"
	if [ $# -gt 1 ]; then ln -s "$2" "bad/$1"; else mkfifo "bad/$1"; fi
}

newest=job/set-00000000000000000002
segment=$(cd good && ls -d job/v00000000000000000002/r0000000-g*.seg)
for place in kedge-store "$newest" "$segment" job/guard; do
	put "$place"
	refused kedge restore -s bad -n job --version 2 -o back
	put "$place" /dev/zero
	refused kedge restore -s bad -n job --version 2 -o back
	put "$place"
	all_end
done
for place in kedge-store "$newest" "$segment"; do
	put "$place"
	refused kedge verify -s bad -n job
done
put kedge-store
refused kedge save -s bad -n job in
put job/lock
refused kedge save -s bad -n job in
for place in job/lock job/lock.tmp job/record-r0000000 job/record-policy kedge-store.tmp job/set-00000000000000000003.tmp; do
	put "$place"
	all_end
done

# The settings.
what="the configuration"
mkfifo conf
KEDGE_CONFIG=conf
export KEDGE_CONFIG
refused kedge ls -s good
refused kedge save -s good -n job in
