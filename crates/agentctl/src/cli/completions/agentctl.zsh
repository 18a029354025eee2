#compdef agentctl
# Completions of agentctl for zsh. Put this line into ~/.zshrc, after compinit:
#   source <(agentctl completions zsh)
# or this script into a directory of $fpath, as _agentctl.
_agentctl() {
    local kind
    local -a typed lines
    typed=("${(@Q)words[2,CURRENT-1]}")
    (( CURRENT > 2 )) || typed=()
    lines=("${(@f)$(command agentctl __complete zsh "${typed[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=$lines[1]
    shift lines
    local result=1
    if (( $#lines )); then
        if [[ $kind == nospace ]]; then
            _describe -V 'value' lines -S '' && result=0
        else
            _describe -V 'value' lines && result=0
        fi
    fi
    if [[ $kind == (directories|files) ]]; then
        if [[ $PREFIX == --*=* ]]; then compset -P 1 '*='; fi
        if [[ $kind == directories ]]; then
            _files -/ && result=0
        else
            _files && result=0
        fi
    fi
    return result
}
if [[ ${funcstack[1]-} == _agentctl ]]; then
    _agentctl "$@"
else
    if (( ! $+functions[compdef] )); then
        autoload -Uz compinit && compinit -i -D
    fi
    compdef _agentctl agentctl
fi
