#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the last word of a kedge command line may become, one candidate per line, for the completions of bash, zsh and fish, which
# choose those that begin with what is typed. <files> and <directories> stand for these.
# Usage: kedge.sh KEDGE [WORD]... LAST
kedge=$1
shift
[ $# -gt 0 ] || set -- ''
sub=$1
last= prev=
for word; do
	prev=$last
	last=$word
done
[ $# -gt 1 ] || sub=

ask() {
	"$kedge" "$@" 2>/dev/null
}

subcommands() {
	ask --help | sed -n '/^subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

# The options that --help lists: "  -s, --store STORE", "      --json".
options() {
	ask "$@" --help | sed -n 's/^ \{2,6\}\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'
}

# value SHORT LONG WORD...: what follows the option on the line so far.
value() {
	short=$1 long=$2 found=
	shift 2
	while [ $# -gt 1 ]; do
		if [ "$1" = "$short" ] || [ "$1" = "$long" ]; then
			found=$2
		fi
		shift
	done
	case $found in
	'~' | '~/'*) printf '%s' "$HOME${found#\~}" ;;
	*) printf '%s' "$found" ;;
	esac
}

# Without -s, the settings say where the store is.
in_store() { # SUBCOMMAND OPTION... -- WORD...
	what=
	while [ "$1" != -- ]; do
		what="$what $1"
		shift
	done
	shift
	store=$(value -s --store "$@")
	name=$(value -n --name "$@")
	# shellcheck disable=SC2086
	case "$what" in
	*" -n") ask ${what% -n} ${store:+-s "$store"} ${name:+-n "$name"} ;;
	*) ask $what ${store:+-s "$store"} ;;
	esac
}

versions() {
	name=$(value -n --name "$@")
	if [ -z "$name" ]; then # only if there is only one job
		name=$(in_store ls -q -- "$@")
		case $name in '' | *'
'*) return ;; esac
		set -- -n "$name" "$@"
	fi
	in_store ls -q -n -- "$@"
	in_store tag -n -- "$@" | sed 's/ .*//'
	echo newest
}

# Files and directories of a version, one step deeper than what is typed, as a shell completes paths.
files_of() {
	which=$(value -v --version "$@")
	# shellcheck disable=SC2086
	in_store show --files -q ${which:+-v $which} -n -- "$@" | PREFIX=$last awk '
		BEGIN { typed = ENVIRON["PREFIX"] }
		index($0, typed) == 1 {
			rest = substr($0, length(typed) + 1)
			deeper = index(rest, "/")
			word = deeper ? typed substr(rest, 1, deeper) : $0
			if (word != typed && !seen[word]++)
				print word
		}'
}

codecs() {
	ask info | sed -n 's/^codecs *//p' | tr ' ' '\n'
	printf '%s\n' auto max
}

# Installed beside the command, or not yet installed.
machines() {
	bin=$(command -v "$kedge") || return
	dir=$(dirname "$bin")
	for _ in 1 2 3 4 5; do
		for at in "$dir/share/kedge/machines" "$dir/share/machines"; do
			[ -d "$at" ] || continue
			for file in "$at"/*.ini; do
				basename "$file" .ini
			done
			return
		done
		dir=$(dirname "$dir")
	done
}

# Words of a family: "  eval   ..." in its help.
modes() {
	case $1 in
	plan) printf '%s\n' eval best coalesce pccr rex ;;
	*) ask "$1" --help | sed -n '/^example:/q; s/^  \([a-z]\{3,\}\)  *[a-zA-Z].*/\1/p' ;;
	esac
}

# Whether the last of run's words is still one of its own, not of the command that it runs.
before_command() { # run WORD... LAST
	with_value=$(ask run --help | sed -n 's/^ \{2,6\}\(-[A-Za-z], \)\{0,1\}\(--[a-z0-9-]*\) [A-Z].*/\1\2/p' | tr -s ',\n' '  ')
	shift
	while [ $# -gt 1 ]; do
		case $1 in
		--) return 1 ;;
		-*) case " $with_value " in *" $1 "*) shift ;; esac ;;
		*) return 1 ;;
		esac
		shift
	done
}

if [ -z "$sub" ]; then
	subcommands
	printf '%s\n' --help --version
	exit
fi

mode=
case $sub in
plan | simulate | bench)
	for word in $(modes "$sub"); do
		[ "$word" != "${2:-}" ] || mode=$word
	done
	;;
esac

case $sub:$prev in
run:--files) ! before_command "$@" || { printf '%s\n' none written all && exit; } ;;
run:*) ;;
pack:-o | pack:--output | report:-o | report:--output | report:-j | report:--journal) echo '<files>' && exit ;;
*:-s | *:--store | *:--l2 | *:-o | *:--output | *:--from | *:--from-l2) echo '<directories>' && exit ;;
plan:-m | plan:--machine | simulate:-m | simulate:--machine) machines && echo '<files>' && exit ;;
*:-n | *:--name) in_store ls -q -- "$@" && exit ;;
save:-v | save:--version) exit ;;
*:-v | *:--version) versions "$@" && exit ;;
*:--reduce) printf '%s\n' full basic list tree rex auto && exit ;;
*:--codec | *:--codecs) codecs && exit ;;
*:--type) printf '%s\n' bytes i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 c64 c128 && exit ;;
*:--set) ask info --config | sed -n 's/^\([a-z0-9_]*\) =.*/\1=/p' && exit ;;
*:--svg | *:--pages | *:--page-data | *:--log | *:--base) echo '<files>' && exit ;;
esac

case $sub:$last in
run:-*) ! before_command "$@" || options run ;;
run:*) echo '<files>' ;;
*:-*) options "$sub" $mode ;;
help:*) subcommands ;;
plan:* | simulate:* | bench:*)
	if [ $# -eq 2 ]; then
		modes "$sub"
	elif [ "$mode" = levels ]; then
		echo '<directories>'
	elif [ "$sub" = bench ]; then
		echo '<files>'
	fi
	;;
diff:* | rm:*) versions "$@" ;;
restore:*) files_of "$@" ;;
tag:*) in_store tag -n -- "$@" | sed 's/ .*//' ;;
watch:*) echo '<directories>' ;;
save:* | pack:* | unpack:* | cat:* | ls:* | show:* | verify:*) echo '<files>' ;;
esac
