"""Jars of other projects, fetched once by Maven from a list, a pom.xml of ours, into the user's cache."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

from chaos.tool_cache import made_once

FETCH_DEADLINE_S: Final = 180.0


class JarsMissing(Exception):
    """The jars are not in the cache and cannot be fetched. The text says why."""


def maven_jars(pom: Path, name: str) -> Path:
    """Return the directory of the jars that `pom` lists, fetched if it is not there. Raises JarsMissing."""
    # Each list of jars has a directory of its own, so that jars of an older list are not used.
    key = sha256(pom.read_bytes()).hexdigest()[:8]
    return made_once(f"{name}-{key}", lambda directory: _fetch(pom, name, directory))


def _fetch(pom: Path, name: str, directory: Path) -> None:
    if shutil.which("mvn") is None:
        raise JarsMissing(f"there is no mvn, so the jars of {name} cannot be fetched")
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), "dependency:copy-dependencies"]
    try:
        finished = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={directory}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"Maven did not fetch the jars of {name} within {FETCH_DEADLINE_S:.0f} s") from None
    if finished.returncode != 0 or not directory.is_dir():
        lines = [line for line in finished.stdout.splitlines() if line.startswith("[ERROR]")] or ["no reason given"]
        raise JarsMissing(f"Maven cannot fetch the jars of {name}: {lines[0][:300]}")
