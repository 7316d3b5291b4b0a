"""Kafka's own tools, which read our files and call our brokers: finding their jars, and running them.

The jars are fetched once, by Maven (see `chaos.tool_cache`). A test that needs them is skipped, with the
reason, where there is no Java, no Maven, or nowhere to fetch from.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from chaos.tool_cache import made_once

POM: Final = Path(__file__).with_name("pom.xml")
FETCH_DEADLINE_S: Final = 180.0
RUN_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Result of a tool that ended."""

    code: int
    output: str
    errors: str


def kafka_jars() -> Path:
    """Return the directory of the jars. Skips the test if they are not there and cannot be fetched."""
    if shutil.which("java") is None:
        pytest.skip("there is no java, so Kafka's tools cannot be run")
    return made_once(_name(), _fetch)


def run_kafka_tool(jars: Path, main_class: str, *arguments: str | Path) -> Finished:
    """Run a class of Kafka's to its end."""
    finished = subprocess.run(
        # Only the first compiler: no tool runs long enough for more.
        [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp",
            f"{jars}/*",
            main_class,
        ]
        + [str(argument) for argument in arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_DEADLINE_S,
        check=False,
    )
    return Finished(code=finished.returncode, output=finished.stdout.decode(), errors=finished.stderr.decode())


def _name() -> str:
    pom = POM.read_text()
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", pom)
    assert found is not None, f"{POM} names no version of Kafka"
    # Each list of jars has a directory of its own, so that jars of an older list are not used.
    return f"kafka-{found[1]}-{sha256(pom.encode()).hexdigest()[:8]}"


def _fetch(directory: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("there is no mvn, so Kafka's tools cannot be fetched")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        finished = subprocess.run(
            [*command, f"-DoutputDirectory={directory}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven did not fetch Kafka's tools within {FETCH_DEADLINE_S:.0f} s")
    if finished.returncode != 0 or not directory.is_dir():
        lines = [line for line in finished.stdout.splitlines() if line.startswith("[ERROR]")] or ["no reason given"]
        pytest.skip(f"Maven cannot fetch Kafka's tools: {lines[0][:300]}")
