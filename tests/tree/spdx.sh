#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its license. Usage: spdx.sh ROOT
set -eu

cd "$1"
status=0
count=0
for file in $(find src include tools bench compat examples tests scripts cmake -type f \( -name '*.[ch]' -o -name '*.sh' -o \
	-name '*.cu' -o -name '*.cmake' -o -name CMakeLists.txt \) | sort); do
	count=$((count + 1))
	if ! head -n 2 "$file" | grep -q 'SPDX-License-Identifier: '; then
		echo "$file: the line with its SPDX-License-Identifier is missing" >&2
		status=1
	fi
done
if [ "$count" -lt 300 ]; then
	echo "only $count source files were found under $1" >&2
	status=1
fi
exit $status
