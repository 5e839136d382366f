# SPDX-License-Identifier: BSD-3-Clause
# Completion: what may come next, and that bash, zsh and fish are given it.
. "$KEDGE_SOURCE/tests/cli/lib.sh"

echo x >file.txt
kedge save -s store -n alpha file.txt >/dev/null
kedge save -s store -n alpha file.txt >/dev/null
kedge save -s store -n beta file.txt >/dev/null
kedge tag -s store -n alpha -v 1 good >/dev/null

# complete WORD...: what the last word, as far as it is typed, may become.
complete()
{
	for last; do :; done
	sh "$KEDGE_SOURCE/share/completion/kedge.sh" "$@" | awk -v last="$last" 'index($0, last) == 1 || /^</' | sort | tr '\n' ' '
}

is "$(complete kedge res)" "restore " "subcommands"
is "$(complete kedge save --re)" "--reduce --replace " "options"
is "$(complete kedge save --reduce t)" "tree " "reducers"
is "$(complete kedge ls -s store -n '')" "alpha beta " "names"
is "$(complete kedge restore -s store -n alpha -v '')" "1 2 good newest " "versions"
is "$(complete kedge diff -s store -n alpha 1 '')" "1 2 good newest " "versions to compare"
is "$(complete kedge rm -s store -n alpha g)" "good " "a label"
is "$(complete kedge tag -s store -n alpha '')" "good " "labels"
is "$(complete kedge save -n x --set l2_r)" "l2_rate= " "settings"
is "$(complete kedge save -n x fi)" "<files> " "files"
is "$(complete kedge ls -s '')" "<directories> " "directories"
is "$(complete kedge report -o '')" "<files> " "a page"
is "$(complete kedge help ver)" "verify " "subcommands to help with"
is "$(complete kedge bench '')" "codec gpu levels pack process protect stage " "benchmarks"
is "$(complete kedge bench levels '')" "<directories> " "directories to measure"
is "$(complete kedge bench codec --cod)" "--codec " "options of a benchmark"
is "$(complete kedge save --codec zs)" "zstd " "codecs"
is "$(complete kedge plan -m ts)" "<files> tsubame2 tsubame2-13h " "machines"
mkdir -p deep/er
echo x >deep/er/one
echo x >'deep/er/t w o'
# shellcheck disable=SC2016
echo x >'deep/$(echo no)'
kedge save -s store -n tree deep file.txt >/dev/null
is "$(complete kedge restore -s store -n tree '')" "deep/ file.txt " "files of a version"
is "$(complete kedge restore -s store -n tree -o back deep/e)" "deep/er/ " "a directory of a version"
is "$(complete kedge restore -s store -n tree deep/er/)" "deep/er/one deep/er/t w o " "files of a directory"
is "$(complete kedge restore -s store -n alpha -v 1 '')" "file.txt " "files of an older version"
is "$(complete kedge run -t --retries 2 --files '')" "all none written " "which open files run keeps"
is "$(complete kedge run -t -r 2 --fi)" "--files " "options of run"
is "$(complete kedge run -t ./program --files '')" "<files> " "an option of the program"
is "$(complete kedge run -- ./program --fi)" "" "options of the program"
if kedge help | grep -q '^  simulate '; then
	is "$(complete kedge simulate re)" "rex " "modes of simulate"
	case $(complete kedge simulate sync --) in
	*--json*) ;;
	*) fail "no options of 'kedge simulate sync'" ;;
	esac
fi

# The shells.
if command -v bash >/dev/null; then
	in_bash()
	{
		bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kedge; printf "%s\n" "${COMPREPLY[@]}"' - \
			"$KEDGE_SOURCE/share/bash-completion/kedge" "$@" | sort | tr '\n' ' '
	}
	is "$(in_bash kedge restore -s store -n alpha -v '')" "1 2 good newest " "versions in bash"
	is "$(in_bash kedge save -n x fi)" "file.txt " "files in bash"
	# Two blanks: the lines are joined by one.
	mkdir 'a  b'
	echo x >'a  b/c  d'
	is "$(in_bash kedge save -n x a)" "a  b " "a directory with a blank in bash"
	is "$(in_bash kedge save -n x 'a  b/')" "a  b/c  d " "a file with blanks in bash"
	is "$(in_bash kedge ls -s a)" "a  b " "a store with a blank in bash"
	is "$(in_bash kedge save -n x none-such)" " " "no file in bash"
	is "$(in_bash kedge restore -s store -n tree deep/er/)" 'deep/er/one deep/er/t\ w\ o ' "files of a version in bash"
	is "$(in_bash kedge restore -s store -n tree 'deep/$')" 'deep/\$\(echo\ no\) ' "a file in bash that looks like a command"
fi
if command -v zsh >/dev/null; then
	# shellcheck disable=SC2016
	zsh -fc '. "$1"; compadd() { print -l "${(@P)argv[-1]}"; }; words=(kedge restore -s store -n alpha -v ""); CURRENT=8; _kedge' - \
		"$KEDGE_SOURCE/share/zsh/_kedge" | sort | tr '\n' ' ' >out
	is "$(cat out)" "1 2 good newest " "versions in zsh"
fi
if command -v zsh >/dev/null; then
	# shellcheck disable=SC2016
	zsh -fc '. "$1"; compadd() { print -l "${(@P)argv[-1]}"; }; words=(kedge restore -s store -n tree ""); CURRENT=7; _kedge' - \
		"$KEDGE_SOURCE/share/zsh/_kedge" | sort | tr '\n' ' ' >out
	is "$(cat out)" "deep/ file.txt " "files of a version in zsh"
fi
if command -v fish >/dev/null; then
	# shellcheck disable=SC2016
	HOME=$PWD fish --no-config -c 'source $argv[1]; complete -C "kedge restore -s store -n alpha -v "' "$KEDGE_SOURCE/share/fish/kedge.fish" |
		sort | tr '\n' ' ' >out
	is "$(cat out)" "1 2 good newest " "versions in fish"
	# shellcheck disable=SC2016
	HOME=$PWD fish --no-config -c 'source $argv[1]; complete -C "kedge restore -s store -n tree deep/er/o"' "$KEDGE_SOURCE/share/fish/kedge.fish" >out
	is "$(cat out)" "deep/er/one" "files of a version in fish"
fi
