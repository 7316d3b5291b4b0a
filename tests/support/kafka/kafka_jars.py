"""Kafka's own tools, which read our files and call our brokers: finding their jars, and running them.

The jars are fetched once, by Maven (see `chaos.tool_cache`). A test that needs them is skipped, with the
reason, where there is no Java, no Maven, or nowhere to fetch from.

The start of a JVM takes most of a tool's time. So those that a test only waits for run in one JVM (`OneJvm`), and all
others share an archive of the classes that they load. Both are made once, with the Java compiler; without one, each
tool has a JVM of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import pytest

from chaos.tool_cache import made_once
from tests.support.kafka import one_jvm
from tests.support.kafka.one_jvm import OneJvm
from tests.support.maven_jars import FETCH_DEADLINE_S, JarsMissing, maven_jars

POM: Final = Path(__file__).with_name("pom.xml")
RUN_DEADLINE_S: Final = 60.0

_PROGRAMS: Final = (
    Path(__file__).with_name(f"{one_jvm.CLASS}.java"),
    Path(__file__).with_name("ClientMetricsTaker.java"),
    Path(__file__).parent / "transactions" / "TransactionalCopier.java",
    Path(__file__).parent / "streams" / "WordCounter.java",
    Path(__file__).parent / "logins" / "LoggedInClient.java",
)
"""Our own Java: what runs tools, a plug-in of brokers, two clients, and an application of Kafka Streams."""

_QUICK: Final = (
    "-Xmx512m",
    # None lives long enough for a second compilation, or for threads that collect garbage.
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # Java warns on the output of an archive that it cannot use, and goes on without.
    "-Xlog:disable",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)

_SERVER: Final = (
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


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
    try:
        return fetched_kafka_jars()
    except JarsMissing as missing:
        pytest.skip(str(missing))


def fetched_kafka_jars() -> Path:
    """Return the directory of the jars, for other programs than tests. Raises JarsMissing."""
    return maven_jars(POM, f"kafka-{_version()}")


def run_kafka_tool(jars: Path, main_class: str, *arguments: str | Path) -> Finished:
    """Run a class of Kafka's to its end."""
    done = run_java(jars, main_class, *map(str, arguments))
    return Finished(code=done.code, output=done.output.decode(), errors=done.errors.decode())


def run_java(
    jars: Path, main_class: str, *arguments: str, given: bytes = b"", timeout_s: float = RUN_DEADLINE_S
) -> one_jvm.Finished:
    """Run a class to its end, with `given` as its standard input."""
    if (shared := _shared_jvm(jars)) is not None:
        return shared.run(main_class, arguments, given, timeout_s)
    done = subprocess.run(
        java_command(jars, main_class, *arguments), input=given, capture_output=True, timeout=timeout_s, check=False
    )
    return one_jvm.Finished(code=done.returncode, output=done.stdout, errors=done.stderr)


def java_command(jars: Path, main_class: str, *arguments: str) -> list[str]:
    """The command of a JVM of its own."""
    return ["java", *_QUICK, *_class_options(jars), main_class, *arguments]


def server_command(jars: Path, main_class: str, *arguments: str) -> list[str]:
    """The command of a JVM that runs for long, with the options of Kafka's own start script."""
    return ["java", *_SERVER, "-cp", f"{jars}/*", main_class, *arguments]


def java_process(main_class: str, errors: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of our own programs, with pipes for its input and output.

    Fails the test if it cannot be compiled.
    """
    jars = kafka_jars()
    if _launcher(jars) is None:
        pytest.fail("there is no javac: install a JDK (Debian's openjdk-17-jdk-headless)", pytrace=False)
    command = java_command(jars, main_class, *arguments)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)


# --- quick starts ----------------------------------------------------------------------------------------------------


@cache
def _shared_jvm(jars: Path) -> OneJvm | None:
    """Return the JVM of this process's tools; None without a compiler."""
    return None if _launcher(jars) is None else OneJvm(java_command(jars, one_jvm.CLASS))


def _class_options(jars: Path) -> list[str]:
    if (launcher := _launcher(jars)) is None:
        return ["-cp", f"{jars}/*"]
    archive = made_once(f"{launcher.stem}.jsa", lambda archive: _archive(jars, launcher, archive))
    return [f"-XX:SharedArchiveFile={archive}", "-cp", f"{jars}/*:{launcher}"]


@cache
def _launcher(jars: Path) -> Path | None:
    """Return the jar of our own programs."""
    if shutil.which("javac") is None:
        return None
    key = sha256(b"".join(each.read_bytes() for each in _PROGRAMS)).hexdigest()[:8]
    return made_once(f"{jars.name}-{key}.jar", lambda jar: _compile(jars, jar))


def _compile(jars: Path, jar: Path) -> None:
    with TemporaryDirectory() as directory:
        command = ["javac", "--release", "17", "-cp", f"{jars}/*", "-d", directory, *map(str, _PROGRAMS)]
        subprocess.run(command, check=True, timeout=FETCH_DEADLINE_S)
        with zipfile.ZipFile(jar, "w") as packed:
            for each in Path(directory).iterdir():
                packed.write(each, each.name)


def _archive(jars: Path, launcher: Path, archive: Path) -> None:
    """Archive the classes that tools load when they look for a broker, which they do not find."""
    with TemporaryDirectory() as directory:
        soon = Path(directory) / "soon.properties"
        soon.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=300\nmax.block.ms=300\n")
        nowhere = ("--bootstrap-server", "127.0.0.1:1")
        admin = (*nowhere, "--command-config", str(soon))
        consoles = (*nowhere, "--topic", "nowhere", "--command-property")
        consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        programs = [
            ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *admin, "--list"),
            ("kafka.admin.ConfigCommand", *admin, "--describe", "--entity-type", "topics", "--entity-name", "nowhere"),
            ("org.apache.kafka.tools.ConsoleProducer", *consoles, "max.block.ms=300"),
            *(
                (consumer, *consoles, f"group.protocol={protocol}", "--timeout-ms", "300")
                for protocol in ("classic", "consumer")
            ),
        ]
        subprocess.run(
            ["java", *_QUICK, f"-XX:ArchiveClassesAtExit={archive}", "-cp", f"{jars}/*:{launcher}", one_jvm.CLASS],
            input=b"".join(one_jvm.request(*program, given=b"line\n") for program in programs),
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=FETCH_DEADLINE_S,
        )
    # An empty one does no harm, where a JVM writes none.
    archive.touch()


# --- jars ------------------------------------------------------------------------------------------------------------


def _version() -> str:
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text())
    assert found is not None, f"{POM} names no version of Kafka"
    return found[1]
