#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rewrite the generated parts of the manual in place: the settings in kedge.conf.5, from `kedge info --config`, and the
# errors in kedge.3, from the table in kedge.h. Usage: make-man.sh KEDGE [DIRECTORY]; `ninja -C build/plain man` runs it.
set -eu

kedge=$1
root=$(dirname "$0")/..
dir=${2:-$root/docs/man}
part=$(mktemp)
trap 'rm -f "$part" "$part.page" "$part.config"' EXIT

# Standard input replaces the lines of PAGE after `.\" generated: WORD` and before the next `.\" end`.
replace() { # WORD PAGE
	cat >"$part"
	awk -v word="$1" -v part="$part" '
		$0 == ".\\\" end" { inside = 0 }
		!inside { print }
		$0 ~ "^\\.\\\\\" generated: " word " " { inside = found = 1; while ((getline line < part) > 0) print line }
		END { exit !found }' "$dir/$2" >"$part.page"
	cat "$part.page" >"$dir/$2"
}

# The comments and the value of each setting as one line: KEY, VALUE, KIND and DESCRIPTION, separated by tabs.
settings_list() {
	awk -v OFS='\t' '
		/^# ----/ { print "-"; next }
		/; environment: KEDGE_[A-Z0-9_]*\)$/ { kind = $0; sub(/^# \(/, "", kind); sub(/;.*/, "", kind); sub(/^one of /, "", kind); next }
		/^# / { doc = doc (doc == "" ? "" : " ") substr($0, 3); next }
		/ =/ { value = $0; sub(/^[^=]*= */, "", value); sub(/ *# default$/, "", value); print $1, value == "" ? "empty" : value, kind, doc }
		{ doc = "" }'
}

# `word` and name(3) become bold; a hyphen in them, and a minus before a number, are what users have to type. A sentence
# begins a line.
bold() {
	sed -e 's/\\/\\e/g' -e 's/`\([^`]*\)`/\\fB\1\\fR/g' -e 's/\([a-z][a-z_.-]*\)(\([1-8]\))/\\fB\1\\fR(\2)/g' \
		-e ':again' -e 's/\(\\fB[^\\]*\(\\-[^\\]*\)*[^\\]\{0,1\}\)\([^\\]\)-/\1\3\\-/;t again' -e 's/\\fB-/\\fB\\-/g' \
		-e 's/ - / \\- /g' -e 's/\([A-Za-z0-9)]\)\. \([A-Z`\\]\)/\1.\n\2/g'
}

settings_roff() {
	settings_list | while IFS='	' read -r key value kind doc; do
		if [ "$key" = - ]; then
			printf '.SH TUNING\nNobody needs to set these.\nThey are for experiments and unusual machines.\n'
			continue
		fi
		case $value in empty) ;; *) value="\\fB$value\\fR" ;; esac
		printf '.TP\n\\fB%s\\fR (%s; default: %s)\n' "$key" "$kind" "$value" | sed 's/-/\\-/g'
		printf '%s\n' "$doc" | bold
	done
}

errors_roff() {
	sed -n 's/^\tX(\([A-Z]*\), -\([0-9]*\), "\(.*\)").*/.TP\n.BR KEDGE_E_\1 " (\\-\2)"\n\3/p'
}

KEDGE_CONFIG='' "$kedge" info --config >"$part.config"
settings_roff <"$part.config" | replace settings kedge.conf.5
errors_roff <"$root/include/kedge/kedge.h" | replace errors kedge.3
