# SPDX-License-Identifier: BSD-3-Clause
# The heat map: well-formed, labelled, dark where the change is.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

random 'a<&>"b' 100
random c 10
random gone 1
expect 0 kedge save -s store -n job 'a<&>"b' c gone
flip 'a<&>"b' 51200
random more 2
echo grown >>c
expect 0 kedge save -s store -n job 'a<&>"b' c more
expect 0 kedge diff -s store -n job 1 2 --svg heat.svg
"$CHECK" xml heat.svg || fail "not well-formed"
if command -v xmllint >/dev/null; then
	xmllint --noout heat.svg || fail "xmllint does not like it"
fi
for text in 'a&lt;&amp;&gt;&quot;b' 'job: version 1 to 2' 'share of bytes changed' removed added 'changed: 1 B of 100 KiB'; do
	grep -qF "$text" heat.svg || fail "'$text' is not in the drawing"
done
# Drawn again over itself, and not at all if the place cannot be written.
expect 0 kedge diff -s store -n job 1 1 --svg heat.svg --quiet
"$CHECK" xml heat.svg || fail "not well-formed"
[ -z "$(find . -name '*.tmp')" ] || fail "temporary files were left"
