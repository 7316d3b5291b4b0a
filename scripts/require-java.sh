#!/bin/sh
# Spark runs on Java 17 or newer. Says nothing when it is there, and exactly what was found when it is not.
# Spark takes the Java of JAVA_HOME if that is set and the one on the path otherwise; so does this check.
set -eu

fail() {
  printf 'java: %s\n' "$*" >&2
  printf 'java: on Debian and Ubuntu: apt install openjdk-17-jre-headless; or set JAVA_HOME to a Java 17 or newer\n' >&2
  exit 1
}

if [ -n "${JAVA_HOME:-}" ]; then
  java=$JAVA_HOME/bin/java
  [ -x "$java" ] || fail "Java 17 or newer is needed by Spark; JAVA_HOME is $JAVA_HOME, and there is no bin/java in it"
else
  java=$(command -v java) || fail "Java 17 or newer is needed by Spark; no java is on the path, and JAVA_HOME is not set"
fi

banner=$("$java" -version 2>&1) || fail "Java 17 or newer is needed by Spark; $java does not run: $banner"
version=$(printf '%s\n' "$banner" | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
# Java 8 and older call themselves 1.8 and so on.
major=$(printf '%s\n' "$version" | sed 's/^1\.//; s/[^0-9].*//')
[ "${major:-0}" -ge 17 ] || fail "Java 17 or newer is needed by Spark; $java is Java ${version:-of an unknown version}"
