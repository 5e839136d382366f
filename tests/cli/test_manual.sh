# SPDX-License-Identifier: BSD-3-Clause
# The manual says what the command does: options, exit codes, settings; and its examples run.
. "$KEDGE_SOURCE/tests/cli/lib.sh"
man=$KEDGE_SOURCE/docs/man

# Every option of --help is in its page, and the other way round.
for tool in save restore pack unpack cat watch ls log tag rm show verify diff coalesce gc info doctor help bench-codec bench-gpu bench-levels bench-process bench-protect bench-stage serve top report drain halt; do
	# shellcheck disable=SC2046
	kedge $(echo $tool | tr - ' ') --help | sed -n '/^options:/,/^example:/s/^ \{2,6\}\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort -u >have
	sed 's/\\-/-/g; s/\\f[BRI]//g' "$man/kedge-$tool.1" >page
	sed -n '/^\.SH OPTIONS/,/^\.SH/p' page | sed -n '/^-/s/^\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort -u >told
	diff have told >differ || fail "kedge-$tool.1 and --help differ: $(cat differ)"
done

for tool in run checkpoint-now; do
	for option in $(kedge $tool --help | sed -n '/^options:/,/^example:/s/^ \{2,6\}\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'); do
		sed -n '/^\.SH OPTIONS/,/^\.SH/s/\\-/-/gp' "$man/kedge-$tool.1" | grep -q -e "$option" || fail "kedge-$tool.1 has no $option"
	done
done

# Exit codes.
sed 's/\\-/-/g' "$man/kedge.1" | sed -n '/^\.SH EXIT STATUS/,/^\.PP/p' |
	sed -n '/^\.B [0-9]/{s/^\.B //;N;s/\n/  /;p;}' >told
kedge --help | sed -n '/^exit codes:/,$s/^  \([0-9]\)/\1/p' >have
diff have told >differ || fail "the exit codes in kedge.1 differ: $(cat differ)"
[ "$(wc -l <have)" -eq 8 ] || fail "not all exit codes are there"

# Subcommands.
for tool in $(kedge --help | sed -n '/^subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
	grep -qF "kedge\\-$(echo "$tool" | sed 's/-/\\-/g') (1)" "$man/kedge.1" || fail "kedge.1 does not know $tool"
done

# Settings and errors are those that the command and the header have.
cp -r "$man" generated
chmod -R u+w generated
"$KEDGE_SOURCE/scripts/make-man.sh" kedge generated
diff -r "$man" generated >differ || fail "the manual is out of date, run \`ninja -C build/plain man\`: $(cat differ)"
sed -n '/^\.SH SETTINGS/,/^\.SH TUNING/p' generated/kedge.conf.5 | grep -qF '\fBl2_rate\fR (bytes; default: \fB0\fR)' ||
	fail "l2_rate is not a setting of kedge.conf.5"
sed -n '/^\.SH TUNING/,/^\.SH EXAMPLES/p' generated/kedge.conf.5 | grep -qF '\fBqueue\fR (number; default: \fB0\fR)' ||
	fail "queue is not for tuning in kedge.conf.5"
grep -qF '.BR KEDGE_E_LOCKED " (\-11)"' generated/kedge.3 || fail "no KEDGE_E_LOCKED in kedge.3"
kedge info --config >all.conf
expect 0 env KEDGE_CONFIG=all.conf kedge info --quiet
expect 0 kedge info
printed record_memory
is "$(sed -n '/^SETTING/,/^Nobody/p' out | grep -c '^queue ')" 0 "queue among the settings that people set"
is "$(sed -n '/^TUNING/,$p' out | grep -c '^queue ')" 1 "queue among those for tuning"

# Every public function is in the NAME of one page and in its SYNOPSIS, as it is declared, and in the list of kedge(3).
plain()
{
	tr '\n\t' '  ' | sed 's/  */ /g; s/; */;\n/g'
}
cat "$KEDGE_SOURCE/include/kedge/kedge.h" "$KEDGE_SOURCE/include/kedge/kedge_mpi.h" |
	awk '/^KEDGE_API / { on = 1 } on { print } /;/ { on = 0 }' | plain | sed 's/^KEDGE_API //' | sort >declared
[ "$(wc -l <declared)" -gt 30 ] || fail "hardly any functions"
for page in "$man"/kedge_*.3; do
	sed -n '/^\.SH SYNOPSIS/,/^\.fi/p' "$page" | sed '/^\./d; s/\\f[BIR]//g; /^#/d' | plain
done | sort >described
diff declared described >differ || fail "the pages of section 3 and the headers differ: $(cat differ)"
sed 's/(\*[a-z]*)(.*//; s/(.*//; s/.*[ *]//' declared | sort >have
sed -n '/^\.SH NAME/{n;s/ \\- .*//;p;}' "$man"/kedge_*.3 | sed 's/, /\n/g' | sort >told
diff have told >differ || fail "the NAMEs of section 3 and the headers differ: $(cat differ)"
while read -r name; do
	grep -qF "\\fB$name\\fR()" "$man/kedge.3" || fail "kedge.3 does not list $name"
done <have

# Examples, as written.
for page in kedge.1 kedge-save.1; do
	rm -rf try && mkdir try
	sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/p' "$man/$page" | sed -n '/^\.RS/,/^\.RE/{/^\./d;p;}' | sed 's/\\-/-/g; s/\\e/\\/g' >try/example.sh
	[ -s try/example.sh ] || fail "no example in $page"
	(cd try && sh -e example.sh >../out 2>../err) || fail "the example of $page fails: $(cat err)"
done
is "$(tail -n 1 out)" two "the last line of the example"

# The programs in section 3 compile.
if command -v cc >/dev/null; then
	for page in "$man"/*.3; do
		sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/p' "$page" | sed -n '/^\.RS/,/^\.RE/{/^\./d;p;}' | sed 's/\\-/-/g; s/\\e/\\/g' >example.c
		grep -q '#include <kedge/kedge.h>' example.c || fail "no program in $page"
		cc -std=c11 -Wall -Wextra -Werror -fsyntax-only -I "$KEDGE_SOURCE/include" example.c || fail "the program in $page does not compile"
	done
fi
