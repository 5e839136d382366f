# SPDX-License-Identifier: BSD-3-Clause
# File names of all kinds, and names that try to leave the directory.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

nl='
'
mkdir -p in/sub
printf 1 >"in/with space"
printf 2 >"in/gr$(printf '\303\274')n"
printf 3 >"in/new${nl}line"
printf 4 >"in/-dash"
printf 5 >"in/sub/quote\"<&>"
: >in/empty
random in/big 40
(cd in && kedge save -s ../store -n job -- "with space" "gr$(printf '\303\274')n" "new${nl}line" -dash sub/quote* empty big) >out
expect 0 kedge restore -s store -n job -o back
diff -r in back >/dev/null || fail "the files differ: $(diff -r in back)"
expect 0 kedge show -s store -n job
printed 'new\nline'
expect 0 kedge show -s store -n job --json
json regions >/dev/null
expect 0 kedge ls -s store -n job --json
expect 0 kedge diff -s store -n job 1 1 --json --svg same.svg
"$CHECK" xml same.svg || fail "the drawing is not well-formed"

# Not UTF-8: any bytes will do.
bad=$(printf 'bad\377')
if printf x >"$bad" 2>/dev/null; then
	expect 0 kedge save -s bytes -n job "$bad"
	expect 0 kedge restore -s bytes -n job -o bytes.back
	same "$bad" "bytes.back/$bad"
	expect 0 kedge show -s bytes -n job
	printed 'bad\xff'
	expect 0 kedge show -s bytes -n job --json
	expect 0 kedge save -s bytes -n job "$bad"
	expect 0 kedge verify -s bytes
fi

# Paths are made relative.
mkdir -p deep/er
printf abs >deep/abs
expect 0 kedge save -s paths -n job "$PWD/deep/abs"
expect 0 kedge restore -s paths -n job -o rel
same "rel$PWD/deep/abs" deep/abs
(cd deep/er && kedge save -s ../../paths -n job ../abs) >/dev/null
expect 0 kedge restore -s paths -n job -o rel2
same rel2/abs deep/abs

# Regions that no file name of ours would make.
for evil in ../evil /tmp/evil a/../../evil ./evil a//b ..; do
	rm -rf evil.store jail
	"$CRAFT" evil.store job region "$evil"
	expect 7 kedge restore -s evil.store -n job -o jail/in
	said "could lead out of the directory"
	[ -z "$(find jail -type f)" ] && [ ! -e evil ] || fail "region $evil was written"
	expect 0 kedge restore -s evil.store -n job -o jail/in good
	is "$(cat jail/in/good)" good "the other region"
done

# A symbolic link below the directory is no way out.
rm -rf evil.store jail
"$CRAFT" evil.store job region link/evil
mkdir -p jail outside
ln -s ../outside jail/link
expect 7 kedge restore -s evil.store -n job -o jail
said "symbolic link"
[ -z "$(ls -A outside)" ] || fail "a symbolic link led out"
rm jail/link
expect 0 kedge restore -s evil.store -n job -o jail
is "$(cat jail/link/evil)" evil "the region"

# A link in place of the file is replaced, not followed.
printf safe >outside/target
ln -sf ../outside/target jail/good
expect 0 kedge restore -s evil.store -n job -o jail
is "$(cat outside/target)" safe "the target of the link"
is "$(cat jail/good)" good "the file in place of the link"
