# Completions of agentctl for fish. Put this line into ~/.config/fish/config.fish:
#   agentctl completions fish | source
# or this script into ~/.config/fish/completions/agentctl.fish.
function __agentctl_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -l lines (command agentctl __complete fish $words "$current" 2>/dev/null)
    set -l kind $lines[1]
    set -e lines[1]
    if set -q lines[1]
        printf '%s\n' $lines
    end
    switch "$kind"
        case directories
            __fish_complete_directories "$current"
        case files
            __fish_complete_path "$current"
    end
end
complete -c agentctl -e
complete -c agentctl -f -k -a '(__agentctl_complete)'
