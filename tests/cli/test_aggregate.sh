# SPDX-License-Identifier: BSD-3-Clause
# Files that are understood: whatever the scheme, and however damaged they are, the very same bytes come back.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

KEDGE_SYNC=no
export KEDGE_SYNC
files=$KEDGE_SOURCE/tests/aggregate/files

# Three ranks' files of each kind, one of them cut short, one with a byte changed in its metadata, and others.
mkdir in
for r in 0 1 2; do
	for f in "$files"/*; do
		cp "$f" "in/r$r-$(basename "$f")"
	done
done
head -c 20000 "$files/new.h5" >in/short.h5
{ head -c 100 "$files/old.h5" && printf '\377\377' && tail -c +103 "$files/old.h5"; } >in/damaged.h5
random in/noise 100
seq 2000 >in/text
: >in/nothing

for scheme in off agnostic agnostic-block aware aware-block auto; do
	expect 0 kedge save -s store -n "$scheme" --set aggregate=$scheme in
	expect 0 kedge restore -s store -n "$scheme" -o "back-$scheme"
	diff -r in "back-$scheme/in" || fail "$scheme: not what it was"
	expect 0 kedge verify -s store -n "$scheme"
	expect 0 kedge show -s store -n "$scheme" --json
	cp out "$scheme.json"
	[ "$scheme" = off ] && continue
	[ "$scheme" = auto ] && want=aware || want=$scheme
	is "$(json aggregate.scheme)" "$want" "the scheme of $scheme"
	[ "$(json stored_bytes)" -lt "$("$CHECK" json off.json stored_bytes)" ] || fail "$scheme is not smaller than off"
done
expect 0 kedge show -s store -n aware
printed "arranged  aware: set explicitly"
printed "Grid/"
printed "(rest)"
printed "(smooth)_f64_Array1D" # in a file of which nothing is known
expect 0 kedge show -s store -n auto
printed "arranged  aware: too little data to try others"
expect 0 kedge show -s store -n off
grep -q arranged out && fail "off arranges"

# One file of many, and standard output.
expect 0 kedge restore -s store -n aware -o one in/r1-new.h5
cmp one/in/r1-new.h5 in/r1-new.h5 || fail "one file is not what it was"

# Versions: a variable changes in place, a file comes and one goes.
printf 'changed here' | dd of=in/r0-old.h5 bs=1 seek=8000 conv=notrunc 2>/dev/null
cp in/r0-many_old.h5 in/another.h5
rm in/r2-one.nc
expect 0 kedge save -s store -n aware --set aggregate=aware in
expect 0 kedge restore -s store -n aware -o back2
diff -r in back2/in || fail "the second version is not what it was"
expect 0 kedge restore -s store -n aware -v 1 -o back1
diff -r back-aware/in back1/in || fail "the first version is not what it was"
expect 0 kedge diff -s store -n aware 1 2
printed "in/r0-old.h5"
expect 0 kedge coalesce -s store -n aware -v 2
expect 0 kedge show -s store -n aware
printed "arranged  aware" # still
expect 0 kedge verify -s store -n aware
expect 0 kedge restore -s store -n aware -o back3
diff -r in back3/in || fail "the second version, coalesced, is not what it was"

# On L2, with L1 gone.
for turn in 1 2; do
	expect 0 kedge save -s near -n job --set l2=far in
	printf "again $turn" | dd of=in/r1-old.h5 bs=1 seek=9000 conv=notrunc 2>/dev/null
done
rm -r near
expect 0 kedge restore -s far -n job -v 1 -o back4
expect 0 kedge restore -s far -n job -o back5
printf "again 1" | dd of=in/r1-old.h5 bs=1 seek=9000 conv=notrunc 2>/dev/null
diff -r in back5/in || fail "L2 has something else"

# A damaged block is reported with one of its files, and how many others there are.
seg=$(find store/aware -name '*.seg' | sort | head -1)
printf '\377\377\377\377' | dd of="$seg" bs=1 seek=110000 conv=notrunc 2>/dev/null
expect 1 kedge verify -s store -n aware -v 1
grep -q "(region .* and .* others)" out || fail "no word of other regions: $(cat out)"

# What auto finds out is remembered by the next version, in another process. A classic netCDF file with 204,800 doubles.
mkdir large
numbers()
{
	printf 'CDF\001\0\0\0\0\0\0\0\012\0\0\0\001\0\0\0\001x\0\0\0\0\003\040\0\0\0\0\0\0\0\0\0' >large/a.nc
	printf '\0\0\0\013\0\0\0\001\0\0\0\001a\0\0\0\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0\0' >>large/a.nc
	printf '\0\0\0\006\0\031\0\0\0\0\0\120' >>large/a.nc
	cat "$1" >>large/a.nc
}
random first 1600
random second 1600 2
numbers first
expect 0 kedge save -s store -n large large
expect 0 kedge show -s store -n large
printed "arranged  aware: the smallest of a sample (agnostic "
numbers second
expect 0 kedge save -s store -n large large
expect 0 kedge show -s store -n large
printed "arranged  aware: as in the version before (agnostic "
printed "; tried 1 version ago"

# Of an array nothing is new, and of what is around it one byte.
perl -e 'print "h", pack("d*", map { $_ * 0.37 } 0 .. 8191)' >arrays
expect 0 kedge save -s store -n arrays arrays
for i in 1 2; do
	printf x >>arrays
	expect 0 kedge save -s store -n arrays arrays
	expect 0 kedge show -s store -n arrays --json
done
expect 0 kedge restore -s store -n arrays -o back-arrays
same arrays back-arrays/arrays

# Classes of the user.
printf '^.*/[0-9]+_300_lf4_Density$ grids\n' >rules
expect 0 kedge save -s store -n rules --set aggregate=aware --set aggregate_classes="$PWD/rules" in
expect 0 kedge show -s store -n rules
printed "grids_f32_Array1D"
printf '(no end\n' >rules
expect 2 kedge save -s store -n rules --set aggregate_classes="$PWD/rules" in
said "rules:1: "
expect 2 kedge save -s store -n rules --set aggregate_classes="$PWD/nowhere" in
said "cannot read the classes in"
expect 2 kedge save -s store -n rules --set aggregate=awrae in
said "aggregate"

# Files that the libraries write here.
if /usr/bin/python3 -c 'import h5py, netCDF4, numpy' 2>/dev/null; then
	/usr/bin/python3 "$KEDGE_SOURCE/tests/aggregate/make_files.py" made large
	for f in large_old:403 large_new:403 deep:1503; do
		[ -x "$BUILD_DIR/tests/aggregate/test_layout" ] || continue
		KEDGE_TEST_LAYOUT=$PWD/made/${f%:*}.h5 KEDGE_TEST_NUMBERS=${f#*:} \
			"$BUILD_DIR/tests/aggregate/test_layout" --case test_given_file >out 2>&1 || fail "$f: $(cat out)"
	done
	expect 0 kedge save -s store -n made made
	expect 0 kedge restore -s store -n made -o back-made
	diff -r made back-made/made || fail "files of libraries are not what they were"
else
	echo "without python3-h5py and python3-netcdf4, only files that are kept are tried" >&2
fi
