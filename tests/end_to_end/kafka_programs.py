"""Clients of Kafka that are programs of their own: kcat, Java's consoles, and a script for kafkajs.

Each is skipped, with the reason, where it is not installed and cannot be fetched. kafkajs is fetched once, by npm, into
`.tools` of the source tree.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.kafka_jars import ROOT, kafka_jars

RUN_DEADLINE_S: Final = 90.0
_FETCH_DEADLINE_S: Final = 120.0
_KAFKAJS: Final = "kafkajs@2.2.4"


def kcat(servers: str, *arguments: str, lines: Sequence[str] = ()) -> list[str]:
    """What it prints, line by line, when it is given `lines`."""
    if shutil.which("kcat") is None:
        pytest.skip("there is no kcat (Debian's package of that name)")
    return _run(["kcat", "-b", servers, *arguments], lines)


def console_producer(servers: str, topic: str, lines: Sequence[str], *properties: str) -> None:
    """Java's; its standard input are the records."""
    settings = [word for each in properties for word in ("--command-property", each)]
    _run(
        _java("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", servers, "--topic", topic, *settings),
        lines,
    )


def console_consumer(servers: str, topic: str, count: int) -> list[str]:
    """Java's, of one partition from its beginning on, and so without a group."""
    place = ["--topic", topic, "--partition", "0", "--offset", "earliest"]
    limits = ["--max-messages", str(count), "--timeout-ms", "60000"]
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return _run(_java(consumer, "--bootstrap-server", servers, *place, *limits), ())


def kafkajs(script: str, **facts: Any) -> list[str]:
    """Runs a script in which `Kafka`, `CompressionTypes` and `facts` are there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node with npm, so kafkajs cannot be run")
    head = (
        "const { Kafka, CompressionTypes, logLevel } = require('kafkajs'); const facts = JSON.parse(process.argv[1]);"
    )
    whole = f"{head}\n(async () => {{ {script} }})().catch(error => {{ console.error(error); process.exit(1); }});"
    return _run(["node", "-e", whole, json.dumps(facts)], (), directory=_kafkajs_directory())


def _java(main_class: str, *arguments: str) -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx256m", quiet, "-cp", f"{kafka_jars()}/*", main_class, *arguments]


def _run(command: Sequence[str], lines: Sequence[str], directory: Path | None = None) -> list[str]:
    finished = subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
        cwd=directory,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def _kafkajs_directory() -> Path:
    directory = ROOT / ".tools" / _KAFKAJS.replace("@", "-")
    if not directory.is_dir():
        _fetch_kafkajs(directory)
    return directory


def _fetch_kafkajs(directory: Path) -> None:
    directory.parent.mkdir(exist_ok=True)
    # The directory appears whole or not at all, also when two runs fetch at the same time.
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(made), _KAFKAJS]
        try:
            finished = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_FETCH_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not fetch kafkajs within {_FETCH_DEADLINE_S:.0f} s")
        if finished.returncode != 0:
            pytest.skip(f"npm cannot fetch kafkajs: {finished.stderr.strip().splitlines()[:1]}")
        if not directory.is_dir():
            made.rename(directory)
