# SPDX-License-Identifier: BSD-3-Clause
# A directory that holds other things becomes a store only if one says so, and keeps them.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random in 10
mkdir home
echo draft >home/thesis.tmp
expect 2 kedge save -s home -n job in
said "home is not a store and contains other files (thesis.tmp)"
said "init = yes"
is "$(ls -A home)" thesis.tmp "what is in the directory"
expect 2 kedge run --quiet --retries 0 -- kedge save -q -s home -n job in
expect 0 kedge save -s home -n job --init in
expect 0 kedge save -s home -n job in
is "$(cat home/thesis.tmp)" draft "the other file"

# The same by settings, and by way of kedge run.
mkdir scratch
: >scratch/other
expect 0 kedge run --quiet --init -- kedge save -q -s scratch -n job in
rm -rf scratch/job scratch/kedge-store
expect 0 env KEDGE_INIT=yes kedge save -s scratch -n job in
expect 0 kedge verify -s scratch -n job

# What stands in the directory of a job stays, whatever its name.
echo draft >home/job/thesis.tmp
expect 0 kedge save -s home -n job in
expect 0 kedge gc -s home -n job --keep 1
is "$(cat home/job/thesis.tmp)" draft "the file beside the versions"
