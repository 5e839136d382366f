#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Remove what `make install` installed, as its manifest has it, and directories of Kedge's own that are empty then. DESTDIR is
# respected. Usage: uninstall.sh MANIFEST
set -eu

manifest=${1:?usage: uninstall.sh MANIFEST}
if [ ! -f "$manifest" ]; then
	echo "Nothing is known to be installed from here: there is no $manifest." >&2
	echo "If it was installed from another directory, run make uninstall there." >&2
	exit 1
fi
count=0
while read -r file || [ -n "$file" ]; do
	path=${DESTDIR:-}$file
	if [ -e "$path" ] || [ -L "$path" ]; then
		rm -f "$path"
		count=$((count + 1))
	fi
	case $(dirname "$file" | tr '[:upper:]' '[:lower:]') in
	*/kedge | */kedge/*) rmdir -p --ignore-fail-on-non-empty "$(dirname "$path")" 2>/dev/null || : ;;
	esac
done <"$manifest"
rm -f "$manifest"
echo "$count files removed"
