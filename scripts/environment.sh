#!/bin/sh
# Makes a virtual environment and installs into it. Called by the Makefile; safe to run again.
#
#   scripts/environment.sh FOLDER [pip install arguments...]
#
# Needs a Python >= 3.11 with the `venv` module, and a package registry that pip can reach. Every way this can
# fail ends with a sentence that says what to do. PYTHON=/path/to/python picks the interpreter.
set -eu

folder=$1
shift

say() { printf '%s\n' "$*" >&2; }
fail() {
    say ""
    say "error: $1"
    shift
    for line in "$@"; do say "  $line"; done
    exit 1
}

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# A name on PATH may be a version manager's shim that cannot run, so each is tried, not only found.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && { printf '%s' "$PYTHON"; return; }
        fail "PYTHON=$PYTHON is not a Python >= 3.11 that runs." "It says: $("$PYTHON" --version 2>&1 || true)"
    fi
    seen=
    for name in python3.13 python3.12 python3.11 python3.14 python3 python; do
        command -v "$name" >/dev/null 2>&1 || continue
        suits "$name" && { printf '%s' "$name"; return; }
        version=$("$name" --version 2>/dev/null) && seen="$seen $name is $version;"
    done
    fail "no Python >= 3.11 was found.${seen:+ Seen:${seen%;}.}" \
        "Debian 12 and later: sudo apt-get install python3 python3-venv" \
        "Elsewhere: https://www.python.org/downloads/, then PYTHON=/path/to/python3 make ..."
}

make_environment() {
    python=$(find_python) || exit 1
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python has no venv module, which makes the virtual environment $folder." \
            "Debian and Ubuntu: sudo apt-get install python3-venv   (or python$version-venv)"
    fi
    say "== $folder with $("$python" --version)"
    "$python" -m venv --clear "$folder" || fail "the virtual environment $folder could not be made." \
        "Is there space on the disk, and may you write here?  df -h . ; ls -ld ."
}

# Explains a failed pip run from its log; pip's own words stand above.
explain() {
    log=$1
    if grep -qiE 'No space left on device' "$log"; then
        fail "the disk is full." "df -h . ${TMPDIR:-/tmp}"
    fi
    if grep -qE 'NameResolutionError|NewConnectionError|Temporary failure in name resolution|ConnectTimeout|ReadTimeout|ProxyError|SSLError|CERTIFICATE_VERIFY_FAILED|Network is unreachable' "$log"; then
        fail "the package registry was not reached; nothing was installed." \
            "Check the network, or name a mirror or proxy:" \
            "  PIP_INDEX_URL=https://your.mirror/simple make ...      HTTPS_PROXY=http://proxy:3128 make ..." \
            "Without any network, put the wheels into a folder first:" \
            "  PIP_NO_INDEX=1 PIP_FIND_LINKS=/folder/of/wheels make ..."
    fi
    if grep -qE 'Failed building wheel|error: command .* failed|Unable to find .*compiler|No such file or directory: .(gcc|cc|c\+\+|cargo)' "$log"; then
        fail "a package had to be compiled here and could not be." \
            "On Linux x86_64/aarch64, macOS and Windows every package comes ready-made for Python 3.11 to 3.13;" \
            "choose one of those (PYTHON=python3.12 make ...), or install a compiler:" \
            "  sudo apt-get install build-essential python3-dev"
    fi
    if grep -qE 'No matching distribution found' "$log"; then
        fail "the registry has no fitting version of a package: $(grep -oE 'No matching distribution found for .*' "$log" | tail -n 1)" \
            "Is the mirror complete, and is this Python ($("$folder/bin/python" --version 2>&1)) supported?"
    fi
    fail "pip failed; its own words stand above, all of them in $log"
}

# An interpreter that was upgraded or moved leaves a folder that no longer runs; make it anew.
if ! suits "$folder/bin/python" || ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    make_environment
fi

log=$folder/pip.log
rm -f "$log"
run_pip() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$folder/bin/python" -m pip --log "$log" install --prefer-binary "$@" || explain "$log"
}

# Dependency groups (--group) need pip 25.1; the one that comes with Python may be older.
if ! "$folder/bin/python" -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
    say "== $folder: newer pip"
    run_pip --quiet --upgrade 'pip>=25.1'
fi
say "== $folder: pip install $*"
run_pip "$@"
