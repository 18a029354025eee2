# Completions of agentctl for bash. Put this line into ~/.bashrc:
#   source <(agentctl completions bash)
_agentctl() {
    local kind line
    COMPREPLY=()
    {
        IFS= read -r kind || kind=
        while IFS= read -r line; do
            if [[ -n $line ]]; then COMPREPLY+=("$line"); fi
        done
    } <<<"$(command agentctl __complete bash "${COLUMNS:-80}" "${COMP_TYPE:-9}" "${2-}" \
        "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)"
    # Bash itself completes paths, with its own quotes. Bash 3 has no compopt.
    case $kind in
    directories) compopt -o plusdirs 2>/dev/null || true ;;
    files) compopt -o default 2>/dev/null || true ;;
    nospace) compopt -o nospace 2>/dev/null || true ;;
    esac
    return 0
}
complete -o nosort -F _agentctl agentctl 2>/dev/null || complete -F _agentctl agentctl
