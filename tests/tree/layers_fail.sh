# SPDX-License-Identifier: BSD-3-Clause
# check-layers.sh must be able to fail: a small tree breaks each of its rules in turn.
set -eu
check=$KEDGE_SOURCE/scripts/check-layers.sh

fresh() {
	rm -rf tree
	mkdir -p tree/src/base tree/src/store tree/docs
	# shellcheck disable=SC2016
	echo '`base < store < job`' >tree/docs/ARCHITECTURE.md
	echo 'int base_x;' >tree/src/base/base.h
	echo '#include "base/base.h"' >tree/src/store/store.h
	echo '#include "store/store.h"' >tree/src/store/set.c
}

refuses() { # WHAT
	if sh "$check" tree >out 2>&1; then
		echo "not refused: $1"
		exit 1
	fi
	grep -q "$1" out || { cat out; echo "no message '$1'"; exit 1; }
}

fresh
sh "$check" tree

fresh
echo '#include "store/store.h"' >tree/src/base/low.c
refuses 'base may not include store'

fresh
echo '#include "store/inner.h"' >tree/src/base/low.c
refuses 'base may not include store'

fresh
mkdir -p tree/src/job
echo '#include "store/inner.h"' >tree/src/job/job.c
refuses 'private to store'

fresh
mkdir -p tree/src/elsewhere
echo 'int x;' >tree/src/elsewhere/a.c
refuses 'no place in the order'

fresh
i=0; while [ $i -lt 901 ]; do echo "int x$i;"; i=$((i + 1)); done >tree/src/base/long.c
refuses '901 lines'

fresh
echo '	size_t middle = low + (high - low) / 2;' >tree/src/store/find.c
refuses 'src/store/find.c:1: a binary search by hand'

fresh
echo '	size_t mid = (lo + hi) / 2;' >tree/src/store/find.c
refuses 'src/store/find.c:1: a binary search by hand'

fresh
echo '	low = low + (high - low) / 2;' >tree/src/base/search.h
sh "$check" tree
