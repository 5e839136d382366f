# SPDX-License-Identifier: BSD-3-Clause
# Wrong command lines: exit code 2, a hint, and nothing done.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

echo x >f
expect 2 kedge
expect 2 kedge sav -n job f
said "did you mean 'save'"
expect 2 kedge zzzzzzzz
said "unknown subcommand"
expect 2 kedge save -n job --redcue tree f
said "did you mean '--reduce'"
expect 2 kedge save -n job --json=yes f
said "takes no value"
expect 2 kedge save -n job --re f
said ambiguous
expect 2 kedge save -n job -Z f
said "unknown option '-Z'"
expect 2 kedge save -n job -v
said "needs a value"
expect 2 kedge save -n job -v -1 f
expect 2 kedge save -n job -v 99999999999999999999 f
expect 2 kedge save -n job
said "no files"
expect 2 kedge save f f
said "-n NAME"
expect 2 kedge save -n ../job f
expect 2 kedge save -n job --type f65 f
expect 2 kedge save -n job --reduce tre f
expect 2 kedge save -n job --chunk 100 f
expect 2 kedge save -n job --chunk 1M f
expect 2 kedge save -n job --codec gzip f
expect 2 kedge save -n job --set chnk=64 f
said chunk
expect 2 kedge save -n job --set chunk f
mkdir -p sub
printf other >sub/f
(cd sub && expect 2 kedge save -n job f ../f && said "would both become region")
expect 2 kedge save -n job --null f
said "--files-from"
expect 2 env KEDGE_CHNK=64 kedge save -n job f
said KEDGE_CHUNK
echo "chnk = 64" >bad.conf
expect 2 env KEDGE_CONFIG=bad.conf kedge save -n job f
said bad.conf
[ ! -e kedge-store ] || fail "a store was made by a wrong command line"

expect 0 kedge save -n job f
expect 2 kedge save -n job -v 1 f
said --replace
expect 2 kedge restore -n job
said "-o DIR"
expect 2 kedge log extra
for version in 9223372036854775807 x; do
	expect 2 kedge save -n job -v $version f
	said "--version must be a version number, from 0 to 9223372036854775806, not '$version'"
done
expect 2 kedge diff -n job 1 2 3
expect 2 kedge diff -n job 1 'x y'
expect 2 kedge gc -n job --keep 0
expect 2 kedge coalesce -n job -v 3..
expect 2 kedge coalesce -n job -v 1..2 --self-contained
expect 2 kedge help nothing
expect 2 kedge info extra
expect 0 kedge save -n other f
expect 2 kedge show
said "2 jobs"

expect 0 kedge --version
expect 0 kedge --help
printed "exit codes"
for tool in $(kedge --help | sed -n '/^subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
	expect 0 kedge $tool --help
	silent
	printed usage
	printed xample
done
