#!/usr/bin/env bash
# Makes .venv: an interpreter, the locked dependencies, and this package with its generated code and codec.
# Each of the three is redone only when what it was made from has changed, so a second call takes a moment.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOT=$(pwd -P)
VENV=$ROOT/.venv
PYTHON_IN_VENV=$VENV/bin/python
PURE=${KRAFT_PURE:-0}

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# --- the interpreter ---------------------------------------------------------------------------------------------

# Prints the first interpreter that is new enough and can make a virtual environment; otherwise says what is missing.
find_python() {
  missing="Python 3.11 or newer was not found (looked for ${PYTHON:-python3, python3.13, python3.12, python3.11});"
  missing="$missing install it, or name one: make setup PYTHON=/path/to/python3"
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      missing="Python 3.11 or newer is needed; $candidate is $version"
    elif ! "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
      missing="$(command -v "$candidate") (Python $version) comes without its venv module;"
      missing="$missing on Debian and Ubuntu: apt install python$version-venv"
    else
      command -v "$candidate"
      return
    fi
  done
  fail "$missing"
}

# A virtual environment that was copied from elsewhere, or whose interpreter is gone, is of no use.
venv_is_ours() {
  [ -x "$PYTHON_IN_VENV" ] &&
    [ "$("$PYTHON_IN_VENV" -c 'import os, sys; print(os.path.realpath(sys.prefix))' 2>/dev/null)" = "$VENV" ] &&
    "$PYTHON_IN_VENV" -m pip --version 2>/dev/null | grep -qF "$VENV/" &&
    "$PYTHON_IN_VENV" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

make_venv() {
  venv_is_ours && return
  # Emptying it would empty the directory that it leads to.
  [ ! -L "$VENV" ] || fail "$VENV is a link to another environment: remove the link, and run make setup again"
  python=$(find_python)
  say "making .venv with $("$python" --version) ($python)"
  "$python" -m venv --clear "$VENV" || fail "$python could not make $VENV; its message stands above"
}

# --- what was done already -----------------------------------------------------------------------------------------

# A stamp holds the checksum of everything its step was made from.
is_done() { [ "$(cat "$VENV/.kraft-$1" 2>/dev/null)" = "$2" ]; }
mark_done() { printf '%s\n' "$2" >"$VENV/.kraft-$1"; }

dependencies_checksum() { cksum <requirements.lock; }
package_checksum() {
  {
    cat pyproject.toml setup.py proto/kraft/v1/*.proto kraft/log/format/record_codec.py kraft/log/format/arrow_columns.py
    # A compiler that was installed since then is reason enough to build again.
    echo "pure=$PURE compiler=${CC:-} $(command -v cc gcc clang || true)"
  } | cksum
}
package_is_whole() {
  [ -x "$VENV/bin/kraft" ] && [ -f kraft/rpc/pb/__init__.py ] && [ -f kraft/quorum/pb/__init__.py ]
}

# --- dependencies --------------------------------------------------------------------------------------------------

# Reads the output of uv or pip. On a terminal, one line is a bar of what is downloaded; elsewhere that is left out. What
# says that something is wrong is passed on everywhere. The total is known before (pip), or grows as uv begins downloads.
show_progress() {
  prefix=$1 total=${2:-0} finished=0 is_known=${2:+yes}
  while IFS= read -r line; do
    case $line in
      *Downloading\ * | *Building\ *) [ -n "$is_known" ] || total=$((total + 1)) ;;
      *Downloaded\ * | *Built\ * | Collecting\ *) finished=$((finished + 1)) ;;
      \ [-+~]\ * | \ \ * | Installing\ * | Looking\ * | Ignoring\ * | Using\ * | Uninstalled\ * | Requirement\ already* | Successfully\ *) continue ;;
      *)
        clear_bar
        say "$prefix$line"
        continue
        ;;
    esac
    draw_bar
  done
  clear_bar
}

draw_bar() {
  [ -t 1 ] && [ "$total" -gt 0 ] || return 0
  filled=$((finished * 30 / total))
  bar=$(printf '%*s' "$filled" '' | tr ' ' '#')$(printf '%*s' $((30 - filled)) '' | tr ' ' '.')
  printf '\rsetup: [%s] %s of %s packages' "$bar" "$finished" "$total"
}

clear_bar() { [ ! -t 1 ] || printf '\r\033[K'; }

# uv is many times faster than pip, and takes the same file of hashes. It is installed as the lock pins it.
install_uv() {
  pin=$VENV/uv.lock
  awk '/^uv==/ { inside = 1 } inside { print } inside && !/\\$/ { exit }' requirements.lock >"$pin"
  "$PYTHON_IN_VENV" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$pin"
}

# The value of one of pip's settings. `pip config get` of pip 23 does not find what /etc/pip.conf sets; `list` does.
pip_setting() {
  "$PYTHON_IN_VENV" -m pip config list 2>/dev/null | sed -n "s/^global\\.$1='\\(.*\\)'\$/\\1/p"
}

# uv does not read pip's configuration, so a mirror and a certificate named there are handed on.
uv_sync() {
  index=${PIP_INDEX_URL:-$(pip_setting index-url)}
  [ -n "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ] || [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
  certificates=${PIP_CERT:-$(pip_setting cert)}
  [ -n "${SSL_CERT_FILE:-}" ] || [ -z "$certificates" ] || export SSL_CERT_FILE="$certificates"
  # Without a home directory to write to there is no place for a cache; uv then works in a temporary folder.
  cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}}
  if ! mkdir -p "$cache" 2>/dev/null || ! [ -w "$cache" ]; then export UV_NO_CACHE=1; fi
  # Compiled once here, a node imports in a third of a second instead of two wherever Python may not write its cache.
  "$VENV/bin/uv" pip sync --python "$PYTHON_IN_VENV" --compile-bytecode --require-hashes requirements.lock 2>&1 |
    show_progress "uv: "
}

install_dependencies() {
  checksum=$(dependencies_checksum)
  is_done dependencies "$checksum" && return
  say "installing the dependencies of requirements.lock (several hundred megabytes when they are not cached)"
  if ! { install_uv && uv_sync; }; then
    say "uv did not manage; installing with pip, which takes a few minutes"
    "$PYTHON_IN_VENV" -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements.lock 2>&1 |
      show_progress "pip: " "$(grep -c '^[a-z0-9].*==' requirements.lock)" ||
      fail "the dependencies could not be installed; pip's message above names what is missing"
  fi
  mark_done dependencies "$checksum"
}

# --- the package itself --------------------------------------------------------------------------------------------

install_package() {
  checksum=$(package_checksum)
  is_done package "$checksum" && package_is_whole && return
  say "building the package: code from proto/, and the record codec"
  log=$VENV/package-build.log
  # pip keeps a build's output to itself unless asked; only the build's own lines and a failure are worth reading.
  if ! "$PYTHON_IN_VENV" -m pip install --disable-pip-version-check --no-build-isolation --no-deps --verbose -e . >"$log" 2>&1; then
    cat "$log" >&2
    fail "the package could not be built; the build's messages stand above"
  fi
  sed -n 's/^ *kraft: /setup: /p' "$log"
  "$PYTHON_IN_VENV" -m compileall -q kraft pyspark_kraft spark_connector
  mark_done package "$checksum"
}

make_venv
install_dependencies
install_package
say "ready: .venv/bin/kraft --help"
