#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tutorial must work as written: its sh blocks are run one after the other, its C blocks are the files that
# their first line names. Run in an empty directory, with an installed Kedge in the environment.
# Usage: check-tutorial.sh TUTORIAL
set -eu

awk '
	/^```sh$/ { kind = "sh"; next }
	/^```c$/ { kind = "c"; file = ""; next }
	/^```/ { if (kind == "c") close(file); kind = ""; next }
	kind == "sh" { print > "steps" }
	kind == "c" {
		if (file == "" && match($0, /^\/\* [a-z0-9_]+\.c/))
			file = substr($0, 4, RLENGTH - 3)
		if (file == "") {
			print "a C block without a name: " $0 > "/dev/stderr"
			exit 1
		}
		print > file
	}' "$1"
[ -s steps ] || { echo "$1: no steps" >&2; exit 1; }
sh -eux steps
