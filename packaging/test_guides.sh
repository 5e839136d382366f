# SPDX-License-Identifier: BSD-3-Clause
# README.md and the guides, as written, against an installed tree: what they let a reader type works, and prints what they say.
set -eu

root=$PWD/root
cmake --install "$BUILD_DIR" --prefix "$root" >install.log
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name kedge.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
PATH=$root/bin:$PATH
export PKG_CONFIG_PATH LD_LIBRARY_PATH PATH
# A guide begins with the defaults.
HOME=$PWD/home
export HOME
mkdir home

# More ranks than a reader's machine has cores must not pass here; that of one core is an exception.
if env -u OMPI_MCA_rmaps_base_oversubscribe -u PRTE_MCA_rmaps_default_mapping_policy mpirun -n 2 true >/dev/null 2>&1; then
	unset OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy
fi

status=0
for guide in "$KEDGE_SOURCE"/README.md "$KEDGE_SOURCE"/docs/guide/*.md; do
	grep -q '^```sh$' "$guide" || continue
	name=$(basename "$guide" .md)
	mkdir "$name"
	(cd "$name" && sh "$KEDGE_SOURCE/scripts/check-guide.sh" "$guide") || status=1
done

# Every codec has its line in the table, and no guide speaks of functions that a program cannot call.
for codec in $("$root/bin/kedge" info | sed -n 's/^codecs *//p') xor minus auto max; do
	grep -q "^| .*\`$codec\`.*|" "$KEDGE_SOURCE/docs/guide/codecs.md" || {
		echo "docs/guide/codecs.md has no line for codec $codec" >&2
		status=1
	}
done
if grep -n 'kedge__\|KEDGE__' "$KEDGE_SOURCE"/README.md "$KEDGE_SOURCE"/docs/guide/*.md >&2; then
	echo 'these are internal names' >&2
	status=1
fi

# The check itself: output that differs, is missing, or too much, is found; so is a command that fails.
mkdir fails
cd fails
try() { # OUTCOME, with a guide on standard input
	cat >guide.md
	code=0
	sh "$KEDGE_SOURCE/scripts/check-guide.sh" guide.md >log 2>&1 || code=$?
	[ $code -eq "$1" ] || { cat guide.md log; echo "this guide ended with $code, not $1" >&2; exit 1; }
}
fence='```'
for case in '0:one' '0:...' '0:o..*' '1:two' '1:one\ntwo' '1:'; do
	said=${case#*:}
	varies=
	[ "$said" != 'o..*' ] || varies='<!-- varies: /n./ -->\n' said=one
	# shellcheck disable=SC2059
	printf "${fence}sh\necho one\n$fence\n\n$varies${fence}text\n$said\n$fence\n" | try "${case%%:*}"
done
printf '%ssh\necho took 5 s\n%s\n<!-- varies: time -->\n%stext\ntook 0.7 s\n%s\n' $fence $fence $fence $fence | try 0
printf '%ssh\nfalse\necho fine\n%s\n' $fence $fence | try 1
printf '%sc\n/* a.c */\nint a;\n%s\n%ssh\ngrep -q "int a" a.c\n%s\n' $fence $fence $fence $fence | try 0
exit $status
