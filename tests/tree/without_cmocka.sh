# SPDX-License-Identifier: BSD-3-Clause
# A machine that has what building needs, and not what only unit tests need, configures: make build and make demo are for it.
set -eu

real=$(command -v pkg-config) || exit 77
cat >pkg-config <<END
#!/bin/sh
case " \$* " in
*' cmocka '*) exit 1 ;;
esac
exec "$real" "\$@"
END
chmod +x pkg-config
cmake -S "$KEDGE_SOURCE" -B build -G Ninja -DPKG_CONFIG_EXECUTABLE="$PWD/pkg-config" >log 2>&1 || {
	cat log
	exit 1
}
grep -q 'cmocka (unit tests) *no' log || { cat log; echo 'cmocka was found'; exit 1; }
