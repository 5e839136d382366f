# SPDX-License-Identifier: BSD-3-Clause
# The tutorial, as written, against an installed tree.
set -eu

root=$PWD/root
cmake --install "$BUILD_DIR" --prefix "$root" >install.log
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name kedge.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
PATH=$root/bin:$PATH
export PKG_CONFIG_PATH LD_LIBRARY_PATH PATH
mkdir dice
cd dice
sh "$KEDGE_SOURCE/scripts/check-tutorial.sh" "$KEDGE_SOURCE/docs/guide/tutorial.md" >../steps.log 2>&1 || {
	cat ../steps.log
	exit 1
}
for said in 'going on after 0 throws' 'sum 42 came [0-9]* times' 'going on after 7000000 throws' 'kedge run: 2 launches' 'all ranks are back at step 10'; do
	grep -q "$said" ../steps.log || {
		cat ../steps.log
		echo "the tutorial did not say: $said" >&2
		exit 1
	}
done
[ "$(grep -c '^sum 42 came' ../steps.log)" -ge 2 ]
[ "$(grep '^sum 42 came' ../steps.log | sort -u | wc -l)" -eq 1 ]
