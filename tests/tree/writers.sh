#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every field of the handle (k->OBJECT.FIELD) and of a version in flight (v->FIELD) is assigned in one file of src/job; a
# version's are initialised and released in version.c as well. Nobody takes a pointer to an object of the handle to write to
# it elsewhere. writers.sh DIRECTORY [--plant]
set -eu
dir=${1:?usage: writers.sh DIRECTORY [--plant]}

# "FIELD FILE" for each assignment through variable $1; array elements count as the array, members of a field as the field's.
assignments()
{
	grep -noE "\b$1->[a-z0-9_]+(\[[^]]*\])?(\.[a-z0-9_]+(\[[^]]*\])?)*[[:space:]]*(=[^=]|\+=|-=|\|=|\+\+|--)" "$dir"/*.c |
		sed -E 's/\[[^]]*\]//g' |
		sed -nE "s/^([^:]*\/)?([^:\/]*):[0-9]+:.*$1->([a-z0-9_.]+).*/\3 \2/p" | sort -u
}

several()
{
	awk '{ files[$1] = files[$1] " " $2; n[$1]++ } END { for (f in n) if (n[f] > 1) print f ":" files[f] }' | sort
}

# The file that each object of the handle belongs to; what has no object belongs to the handle.
owners='adapt:advice aggregate:aggregate baseline:baseline checkpoint:note device:device fetch:baseline.fetched.count file:grouping followup:followups gpus:gpus group:channels events:journal image:image l2:l2 levels:levels
mirrors:mirrors regions:regions requests:requests run:run seal:sealing shields:shields gpu_ways:gpu_ways state:state state:progress track:track versions:versions'

owned()
{
	awk -v owners="$owners" '
		BEGIN { n = split(owners, o, /[ \n]+/); for (i = 1; i <= n; i++) { split(o[i], p, ":"); own[p[2]] = own[p[2]] " " p[1] ".c" } }
		{
			object = $1; sub(/\..*/, "", object)
			allowed = own[object] own[$1]
			if (allowed == "")
				allowed = " handle.c"
			if (index(allowed " ", " " $2 " ") == 0)
				print $1 ": " $2 ", but it belongs to" allowed
		}'
}

failed=0
bad=$(assignments k | owned; assignments k | several)
if [ -n "$bad" ]; then
	echo "fields of the handle that are written by others, or in several files:"
	echo "$bad"
	failed=1
fi
bad=$(assignments v | grep -v ' version\.c$' | several)
if [ -n "$bad" ]; then
	echo "fields of a version with several writers:"
	echo "$bad"
	failed=1
fi
bad=$(grep -nE '= &(v->)?k->(adapt|advice|baseline|device|followups|gpus|image|l2|levels|mirrors|regions|requests|run|sealing|shields|gpu_ways|state|track|versions);' "$dir"/*.c |
	grep -vE '/(adapt|baseline|device|followup|gpus|image|l2|levels|mirrors|regions|requests|run|seal|shields|gpu_ways|state|track|versions)\.c:.*k->' || true)
if [ -n "$bad" ]; then
	echo "pointers to objects of the handle outside of their own files:"
	echo "$bad"
	failed=1
fi
# A check that cannot find anything is none: there are some dozens of each.
[ "$(assignments k | wc -l)" -ge 30 ] && [ "$(assignments v | wc -l)" -ge 30 ] ||
	{ echo "too few assignments were found in $dir: the check does not work"; failed=1; }
[ $failed -eq 0 ] && [ "${2:-}" = --plant ] || exit $failed

# And it has to find what is planted.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
refuses()
{
	rm -f "$copy"/*
	cp "$dir"/*.c "$copy"
	echo "$2" >>"$copy/$1"
	! sh "$0" "$copy" >/dev/null || { echo "not found in $1: $2"; exit 1; }
}
refuses trim.c 'void plant(kedge_t *k) { k->levels.shared = true; }'
refuses trim.c 'void plant(kedge_t *k) { k->levels.at[1].on |= true; }'
refuses trim.c 'void plant(struct kedge__version *v) { v->referable_count++; }'
refuses trim.c 'void plant(kedge_t *k) { struct kedge__job_levels *s = &k->levels; s->shared = true; }'
