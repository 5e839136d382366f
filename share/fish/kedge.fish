# fish completion for kedge; kedge.sh knows what may come next.

set -g __kedge_script (dirname (status --current-filename))/../../kedge/completion/kedge.sh
test -f $__kedge_script; or set -g __kedge_script (dirname (status --current-filename))/../completion/kedge.sh

function __kedge_complete
    set -l tokens (commandline -opc) (commandline -ct)
    for word in (sh $__kedge_script $tokens)
        switch $word
            case '<files>'
                __fish_complete_path (commandline -ct)
            case '<directories>'
                __fish_complete_directories (commandline -ct) ''
            case '*'
                echo $word
        end
    end
end

complete -c kedge -f -a '(__kedge_complete)'
