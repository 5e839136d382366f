# SPDX-License-Identifier: BSD-3-Clause
# L1 is lost as a whole, and nobody remembers what the job was called: L2 knows.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

# finds ARGUMENT...: the only job is found, whatever looks for it, by options and by settings.
finds()
{
	expect 0 kedge ls "$@"
	printed "2 versions of job, "
	expect 0 kedge ls -q "$@"
	is "$(cat out)" job "the names"
	expect 0 kedge ls --json "$@"
	is "$(json jobs.0.name)" job "the only job"
	is "$(json jobs.0.versions)" 2 "its versions"
	expect 0 kedge log "$@"
	printed "version 2 (newest)"
	expect 0 kedge show "$@"
	expect 0 kedge diff "$@" 1 2
	expect 0 kedge restore -o back "$@"
	same file back/file
	rm -r back
}

for v in 1 2; do
	echo $v >file
	expect 0 kedge save -q -s first -n job --set "l2=$PWD/second" file
done
rm -r first
for l1 in nothing empty bare; do
	case $l1 in
	empty) mkdir first ;;
	bare) expect 0 kedge save -q -s first -n gone file && rm -r first/gone ;;
	esac
	finds -s first --l2 second
	finds -s first --set "l2=$PWD/second"
	(export KEDGE_L1=first KEDGE_L2=second && finds)
	expect 0 kedge restore -s first --l2 second -o back
	said "note: ignoring level L1: "
	rm -r back
	expect 3 kedge verify -s first # which reads L1 alone
	expect 3 kedge gc -s first
	rm -rf first
done

# Nothing on either level: what is wrong with both is said.
expect 3 kedge restore -s first --l2 secnod -o back
said "note: ignoring level L2: there is no store at secnod"
said "there is no store at first"
mkdir secnod
expect 3 kedge ls -s first --l2 secnod
said "note: ignoring level L2: secnod is an empty directory"
said "there is no store at first"

# Several jobs on L2: all are listed, and one is to be chosen.
expect 0 kedge save -q -s second -n also file
expect 0 kedge ls -s first --l2 second
said "note: ignoring level L1: there is no store at first"
grep -q '^also  *1  *1 ' out || fail "no line of also: $(cat out)"
grep -q '^job  *2  *2 ' out || fail "no line of job: $(cat out)"
expect 2 kedge restore -s first --l2 second -o back
said "store second has 2 jobs; choose one with -n NAME"

# The next job began a new L1: a list has the jobs of both levels, each once, with its versions on both.
echo 3 >file
expect 0 kedge save -q -s first -n job -v 3 file
expect 0 kedge ls -s first --l2 second
grep -q '^also  *1  *1 ' out || fail "no line of also: $(cat out)"
grep -q '^job  *3  *3 ' out || fail "no line of job: $(cat out)"
silent
expect 0 kedge ls -s first --l2 second -q
is "$(cat out)" "also
job" "the names on both levels"
# That store has one name, which needs not be given, however many jobs L2 has.
expect 0 kedge restore -s first --l2 second -o back
same file back/file
expect 0 kedge ls -s first
printed "1 version of job, "
