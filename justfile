# Recipes for people. `./check` is the one that decides; CI runs it without just.

# List the recipes
default:
    @just --list

# Run everything that a change must pass
check:
    ./check

# Open a shell in a private pid namespace: own temporary home, release binary on the PATH
sandbox:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release --locked -p agentctl
    bin=$(realpath "${CARGO_TARGET_DIR:-target}/release")
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    # Without root the namespace needs a user namespace around it.
    user=()
    if [ "$(id -u)" -ne 0 ]; then user=(--user --map-root-user); fi
    echo "home $home, gone when you leave; so is every process started here"
    cd "$home"
    # The environment is cleared, so that no agent's home but this one is seen.
    unshare "${user[@]}" --pid --fork --kill-child --mount-proc \
        env -i HOME="$home" PATH="$bin:$PATH" TERM="${TERM:-dumb}" LANG="${LANG:-C.UTF-8}" \
        PS1='sandbox \w $ ' bash --norc --noprofile -i || true

# Build, start a few demo agents, show them
demo:
    cargo run --release --locked -- demo

# Make the pictures of the README from the demo, in a private pid namespace and a temporary home
shots *pictures:
    cargo build --locked -p agentctl -p testkit
    target=${CARGO_TARGET_DIR:-target}/debug && "$target/shots" "$target/agentctl" docs/pictures {{pictures}}
    case " {{pictures}} " in "  " | *" web "*) .ci/browser shots docs/pictures ;; esac

# Put changed output of the program into the console blocks of the README
readme:
    cargo test --locked -p testkit --no-run
    -README_UPDATE=1 cargo test --locked -p agentctl --test it readme::every
    git diff --stat README.md

# Random worktrees, orders and races against `worktree clean`; a failed run prints its seed.
nemesis-clean rounds="10000":
    AGENTCTL_NEMESIS_ROUNDS={{rounds}} cargo test --locked -p agentctl-core --test clean nemesis -- --nocapture

# Measure speed
bench:
    cargo bench -p agentctl --bench speed

# Let launchers race into one directory, killed at random: 10,000 rounds, or as many as you say
races rounds="10000":
    AGENTCTL_RACE_ROUNDS={{rounds}} cargo test --locked -p agentctl --test it races -- --nocapture

# Write the JSON schemas anew: each one that `agentctl schema` prints
schema:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --quiet --locked -p agentctl
    program=${CARGO_TARGET_DIR:-target}/debug/agentctl
    mkdir -p docs/schema
    for name in $("$program" schema | jq -r 'keys[]'); do
        "$program" schema "$name" > "docs/schema/$name.json.new"
        mv "docs/schema/$name.json.new" "docs/schema/$name.json"
    done

# Have a real Prometheus scrape a real daemon and ask every query of the dashboard
prometheus:
    cargo build --locked -p agentctl
    .ci/prometheus

# Complete command lines in real bash, zsh and fish (needs zsh, fish and tmux)
completions:
    cargo build --locked -p agentctl
    .ci/completions

# Use the page of `agentctl web` in a real browser (needs chromium and npm)
browser:
    cargo build --locked -p agentctl
    .ci/browser

# Call the MCP server with the official TypeScript and Python clients (needs npm and python3)
mcp:
    cargo build --locked -p agentctl
    .ci/mcp

# Have a real systemd user manager keep a real daemon (needs root and systemd)
systemd:
    cargo build --locked -p agentctl
    .ci/systemd

# Check licences, banned crates and sources (not advisories: those need a network)
deny:
    cargo deny check bans licenses sources

# Play every scenario with the real agents (npm, tmux) and write docs/CONFORMANCE.md
lab *args:
    cargo run --release --locked -p lab -- run --page docs/CONFORMANCE.md {{args}}

# The headless core of it, as CI plays it
lab-core *args:
    cargo run --release --locked -p lab -- run --core {{args}}

# Keep the home of a scenario as a fixture and write down what is found in it: just record codex tool 0.170.0-tool
record agent scenario case *args:
    cargo run --release --locked -p lab -- record {{agent}} {{scenario}} crates/testkit/fixtures/{{agent}}/{{case}} {{args}}
    INSTA_UPDATE=always cargo test -p agentctl --test it fixtures

# Play every promised version of each agent and write its line on docs/CONFORMANCE.md; another one: --version codex=latest
lab-versions *args:
    cargo run --release --locked -p lab -- versions --page docs/CONFORMANCE.md {{args}}

# Have eight processes answer one ask at once, many times, with the release program: exactly one is taken
answers rounds="1000":
    AGENTCTL_ANSWER_ROUNDS={{rounds}} cargo test --release --locked -p agentctl --test it inbox::of_many -- --nocapture

# The other bars of the inbox that are counted in rounds: askers, refusals, hostile asks, messages
inbox-bars rounds="300":
    cargo build --release --locked -p testkit
    AGENTCTL_ANSWER_ROUNDS={{rounds}} cargo test --release --locked -p agentctl --test it -- --nocapture \
        inbox_bars:: claude_code_asks::of_eight claude_code_asks::no_asker send::many_senders

# The same with a real agent: eight answers at once, and messages of four senders
lab-answers agent rounds="50":
    cargo run --release --locked -p lab -- run --agent {{agent}} --rounds {{rounds}} \
        --scenario asked-at-once --scenario kept-at-once --scenario kept-messages
