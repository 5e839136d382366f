# SPDX-License-Identifier: BSD-3-Clause
# Page images: saved, restored byte for byte whatever comes and goes, and refused when they are wrong.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

heap=0x55795ab33000
stack=0x7ffdb3715000
lib=0x7f470f9c0000

# page BASE N: the address N pages above BASE.
page()
{
	printf '0x%x' $(($1 + $2 * 4096))
}

image m1 0x1000:1 $heap:2 "$(page $heap 1):3" $stack:4
image m2 0x1000:1 $heap:2 "$(page $heap 1):5" "$(page $heap 2):6" $stack:4          # one changed, one new
image m3 0x1000:1 $heap:2 "$(page $heap 2):6" $lib:7 "$(page $lib 900):8" $stack:4  # one gone, two new
image m4 $stack:4                                                                   # nearly all gone
image m5 0x1000:1 $heap:2 "$(page $heap 1):3" $stack:9                              # and back
image m6 0:1 -4096:2                                                                  # both ends of the address space

check()
{
	expect 0 kedge restore -s store -n "$1" -v "$2" -o back -q
	silent
	same "m$2.idx" back/pages.idx
	same "m$2.pages" back/pages.pages
	is "$(ls back | tr '\n' ' ')" "pages.idx pages.pages " "what was restored of version $2"
	rm -r back
}

for how in rex tree; do
	for v in 1 2 3 4 5 6; do
		expect 0 kedge save -s store -n $how --reduce $how --chunk 64 --set sync=no --json --pages m$v.idx
	done
	is "$(json regions)" 2 "the number of regions"
	is "$(json pages)" 2 "the number of pages"
	for v in 1 2 3 4 5 6; do
		check $how $v
	done
	expect 0 kedge verify -s store -n $how
done

# A page keeps its place: a new page below the others moves nothing, and only it and the index are new.
image low 0x1000:1 "$(page $heap 0):2" "$(page $heap 1):3" $stack:4
image high "$(page $heap 0):2" "$(page $heap 1):3" $stack:4
expect 0 kedge save -s store -n place --reduce basic --chunk 4096 --codec none --pages high.idx
expect 0 kedge save -s store -n place --reduce basic --chunk 4096 --codec none --json --pages low.idx
[ "$(json literal_bytes)" -le $((4096 + 64)) ] || fail "one new page made $(json literal_bytes) new bytes"
expect 0 kedge show -s store -n place --json
is "$(json regions.0.name)" pages "the first region"
is "$(json regions.0.bytes)" 16384 "its size"
is "$(json regions.1.name)" pages.index "the second region"

# With another name, with data elsewhere, beside files, and of a type.
echo text >notes.txt
mv m1.pages elsewhere
expect 0 kedge save -s store -n both --pages m1.idx --page-data elsewhere --type f64 notes.txt
printed "version 1 of both: 4 pages, 1 file, "
mv elsewhere m1.pages
expect 0 kedge restore -s store -n both -o back --pages snap/first.idx --json
is "$(json pages)" 4 "the number of pages restored"
same m1.idx back/snap/first.idx
same m1.pages back/snap/first.pages
same notes.txt back/notes.txt
rm -r back
expect 0 kedge restore -s store -n both -o back pages notes.txt
is "$(ls back | tr '\n' ' ')" "notes.txt pages " "what was restored by name"
same m1.pages back/pages
rm -r back
expect 0 kedge restore -s store -n both --rank 0 -o back
same m1.idx back/pages.idx
rm -r back

# A file in the way of the image's.
cp notes.txt pages.idx
expect 0 kedge save -s store -n way --pages m1.idx pages.idx
expect 7 kedge restore -s store -n way -o back
said "the version also has a file 'pages.idx': give the page image another name with --pages"
expect 0 kedge restore -s store -n way -o back --pages other.idx
same m1.idx back/other.idx
same notes.txt back/pages.idx
rm -r back

# Files that have the names of the regions are files.
mkdir plain
echo a >plain/pages
echo "something longer than sixteen bytes" >plain/pages.index
expect 0 sh -c 'cd plain && kedge save -s ../store -n plain pages pages.index'
expect 0 kedge restore -s store -n plain -o back
same plain/pages back/pages
same plain/pages.index back/pages.index
expect 2 sh -c 'cd plain && kedge save -s ../store -n plain --pages ../m1.idx pages'
said "'pages' would take the name of a region that the page image needs"

# After versions without pages, and before them.
expect 0 kedge save -s store -n plain --pages m1.idx
expect 0 kedge restore -s store -n plain -v 2 -o back2
same m1.idx back2/pages.idx
same m1.pages back2/pages.pages

# refused TEXT ARGUMENT...: nothing is saved, and the message says why.
refused()
{
	text=$1
	shift
	expect 2 kedge save -s none -n job "$@"
	said "$text"
	[ ! -e none ] || fail "a store was made for a wrong image"
}

cp m1.pages bad.pages
head -c 30 m1.idx >bad.idx
refused "bad.idx: entry 3 is truncated: the size, 30 bytes" --pages bad.idx
: >bad.idx
refused "bad.idx is empty: it lists no pages" --pages bad.idx
image bad 0x1000:1 0x3000:2 0x2000:3 0x4000:4
refused "bad.idx: entry 2: page 0x2000 comes after 0x3000; sort the addresses in ascending order" --pages bad.idx
image bad 0x1000:1 0x2000:2 0x2000:3
refused "bad.idx: entry 2: page 0x2000 is listed twice" --pages bad.idx
image bad 0x1000:1 0x2008:2
refused "bad.idx: entry 1: address 0x2008 is not a multiple of 4096" --pages bad.idx
head -c 16000 m1.pages >short
refused "short ends within page 3: it has 16000 bytes, but the 4 pages of m1.idx take 16384" --pages m1.idx --page-data short
cat m1.pages one-page >long
refused "long continues after the last page: it has 20480 bytes, but the 4 pages of m1.idx take 16384" \
	--pages m1.idx --page-data long
refused "short does not end in .idx: name the file of page data with --page-data" --pages short
refused "--page-data needs --pages" --page-data m1.pages notes.txt
expect 5 kedge save -s none -n job --pages missing.idx
said "cannot open missing.idx"
rm bad.pages
expect 5 kedge save -s none -n job --pages bad.idx
said "cannot open bad.pages"
expect 2 kedge restore -s store -n both -o back --pages first
said "--pages 'first' does not end in .idx"
expect 2 kedge restore -s store -n both -o back --pages first.idx pages
said "--pages cannot be combined with names of regions"
expect 7 kedge restore -s store -n both -o back3 --pages ../first.idx
said "could lead out of the directory"

# The images of CRIU: a dump of everything, then one of what has changed, and one more.
criu_images first 1 $heap:3:1 $lib:2:2 $stack:1:3
criu_images second 4 $heap:1:parent "$(page $heap 1):1:4" "$(page $heap 2):1:parent" $lib:2:parent $stack:1:5
criu_images third 1 $heap:3:parent $lib:1:parent "$(page $lib 1):2:6" $stack:1:parent
ln -s ../first second/parent
ln -s ../second third/parent
split -b 4096 -a 1 -d first/pages-1.img a
split -b 4096 -a 1 -d second/pages-4.img b
split -b 4096 -a 1 -d third/pages-1.img c
cat a0 a1 a2 a3 a4 a5 >criu1.pages
cat a0 b0 a2 a3 a4 b1 >criu2.pages
cat a0 b0 a2 a3 c0 c1 b1 >criu3.pages
for v in 1 2 3; do
	dir=$(echo first second third | cut -d ' ' -f $v)
	expect 0 kedge save -s store -n criu --json --pages $dir/pagemap-77.img
	[ $v != 3 ] || is "$(json pages)" 7 "the number of pages"
done
for v in 1 2 3; do
	expect 0 kedge restore -s store -n criu -v $v -o back -q
	same criu$v.pages back/pages.pages
done
for page in "$heap" "$(page $heap 1)" "$(page $heap 2)" "$lib" "$(page $lib 1)" "$(page $lib 2)" "$stack"; do
	address $((page))
done >criu3.idx
same criu3.idx back/pages.idx
cmp first/pages-1.img criu1.pages || fail "a dump of everything does not come back as it was"
mv first/pages-1.img moved
expect 5 kedge save -s none -n job --pages first/pagemap-77.img
said "cannot open first/pages-1.img"
expect 0 kedge save -s store -n moved --pages first/pagemap-77.img --page-data moved
mv moved first/pages-1.img

rm second/parent
refused "second/pagemap-77.img lacks pages that are in the images before, and there is no second/parent" --pages second/pagemap-77.img
ln -s ../second second/parent
refused "second/parent leads back to images that come after it" --pages second/pagemap-77.img
rm second/parent
mkdir second/parent
expect 5 kedge save -s none -n job --pages second/pagemap-77.img
criu_images second/parent 1 $heap:2:1 $lib:2:2
refused "page $(page $heap 2) should be in one of the images before, and is not" --pages second/pagemap-77.img
criu_images wrong 2 0x3000:1:1 0x2000:1:2
refused "wrong/pagemap-77.img: record 2 of the page map is not above the one before it" --pages wrong/pagemap-77.img
criu_images wrong 2 0x3001:1:1
refused "record 1 of the page map has an address" --pages wrong/pagemap-77.img
criu_images wrong 2 0x3000:2:1
criu_record 1 0x9000 2 1 4 2 >>wrong/pagemap-77.img
refused "record 2 of the page map has pages that were left in the process (lazy)" --pages wrong/pagemap-77.img
criu_images wrong 2 0x3000:2:1
echo more >>wrong/pages-2.img
refused "wrong/pages-2.img has 8197 bytes, but the 2 pages of wrong/pagemap-77.img take 8192" --pages wrong/pagemap-77.img
head -c 20 first/pagemap-77.img >wrong/pagemap-77.img
refused "record 1 of the page map is truncated, or damaged" --pages wrong/pagemap-77.img
head -c 8 first/pagemap-77.img >wrong/pagemap-77.img
refused "record 0 of the page map is truncated, or damaged" --pages wrong/pagemap-77.img
