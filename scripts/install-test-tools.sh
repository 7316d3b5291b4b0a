#!/bin/sh
# Installs, with apt-get, the programs of others that tests run: only what is missing, and only as root.
# Never fails: a test that lacks a program is skipped and says so, and .ci/run fails where it is a proof of the checklist.
set -u

say() { printf 'test tools: %s\n' "$*"; }

missing=
# The program that is looked for, and Debian's package that holds it.
for pair in kcat:kcat strace:strace openssl:openssl mount:mount java:openjdk-17-jre-headless \
  promtool:prometheus amtool:prometheus-alertmanager \
  rsyslogd:rsyslog chromium:chromium chromedriver:chromium-driver \
  javac:openjdk-17-jdk-headless mvn:maven node:nodejs npm:npm go:golang-go; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
# A module of rsyslog, which is no program.
ls /usr/lib/*/rsyslog/omkafka.so >/dev/null 2>&1 || missing="$missing rsyslog-kafka"
python3 -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library("fuse3") is None)' || missing="$missing libfuse3-3"

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  say "missing, and not installed without root and apt-get:$missing"
  exit 0
fi

export DEBIAN_FRONTEND=noninteractive
said=$(mktemp)
trap 'rm -f "$said"' EXIT
say "installing$missing"
timeout 120 apt-get -qq update </dev/null >"$said" 2>&1 || say "apt-get update: $(tail -n 1 "$said")"
for package in $missing; do
  # One by one, so that a package that this system does not have takes no other with it.
  # At this run level, no package starts a service of its own.
  RUNLEVEL=1 timeout 300 apt-get -qq install --no-install-recommends "$package" </dev/null >"$said" 2>&1 ||
    say "$package was not installed: $(tail -n 1 "$said")"
done
