# SPDX-License-Identifier: BSD-3-Clause
# bash completion: subcommands, options, names, versions.
. "$KEDGE_SOURCE/tests/cli/lib.sh"
command -v bash >/dev/null || exit 77

echo x >file.txt
kedge save -s store -n alpha file.txt >/dev/null
kedge save -s store -n alpha file.txt >/dev/null
kedge save -s store -n beta file.txt >/dev/null

# complete WORD...: what the last word, as far as it is typed, may become.
complete()
{
	bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kedge; printf "%s\n" "${COMPREPLY[@]}"' - \
		"$KEDGE_SOURCE/share/bash-completion/kedge" "$@" | sort | tr '\n' ' '
}

is "$(complete kedge re)" "restore " "subcommands"
is "$(complete kedge save --re)" "--reduce --replace " "options"
is "$(complete kedge save --reduce t)" "tree " "reducers"
is "$(complete kedge ls -s store -n '')" "alpha beta " "names"
is "$(complete kedge restore -s store -n alpha -v '')" "1 2 newest " "versions"
is "$(complete kedge diff -s store -n alpha 1 '')" "1 2 newest " "versions to compare"
is "$(complete kedge save -n x --set l2_r)" "l2_rate= " "settings"
is "$(complete kedge save -n x fi)" "file.txt " "files"
is "$(complete kedge help ver)" "verify " "subcommands to help with"
is "$(complete kedge bench '')" "codec gpu levels protect stage " "benchmarks"
if kedge help | grep -q '^  simulate '; then
	is "$(complete kedge simulate re)" "rex " "modes of simulate"
	case $(complete kedge simulate sync --) in
	*--json*) ;;
	*) fail "no options of 'kedge simulate sync'" ;;
	esac
fi
