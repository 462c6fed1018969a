#!/bin/sh
# Installs the system packages that tests need beyond Python, where that is possible. Called by `make test`.
#
# Today that is bubblewrap, the default sandbox of shell commands (Linux only). As root, or where sudo asks for no
# password, it is installed with apt-get; otherwise this says what is missing, and the tests that need it say so too.
set -eu

[ "$(uname -s)" = Linux ] || exit 0
command -v bwrap >/dev/null 2>&1 && exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        as_root=no
    fi
    if [ "$as_root" != no ]; then
        echo "== system: apt-get install bubblewrap" >&2
        log=$(mktemp)
        if { DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends bubblewrap ||
            { $as_root apt-get update &&
                DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends bubblewrap; }; } \
            >"$log" 2>&1; then
            rm -f "$log"
            exit 0
        fi
        tail -n 3 "$log" >&2
    fi
fi
cat >&2 <<'END'
== system: bubblewrap is not installed, so tests of the sandbox are skipped, each with a word of it.
   Debian and Ubuntu: sudo apt-get install bubblewrap      Fedora: sudo dnf install bubblewrap
END
