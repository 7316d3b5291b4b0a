"""Clients of Kafka that are programs of their own: kcat, Java's consoles, and scripts for kafkajs.

Each is skipped, with the reason, where it is not installed and cannot be fetched. kafkajs is fetched once, by npm
(see `chaos.tool_cache`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from chaos.tool_cache import made_once
from tests.support.kafka.kafka_jars import kafka_jars

RUN_DEADLINE_S: Final = 90.0
_FETCH_DEADLINE_S: Final = 120.0
_KAFKAJS: Final = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
"""The package and the only codec that is not compiled at its installation."""

_KAFKAJS_HEAD: Final = """
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
const facts = JSON.parse(require('fs').readFileSync(0));
"""

_SYSTEM_CERTIFICATES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Paths of the trusted certificates in the families of Debian and Red Hat."""


def kcat(servers: str, *arguments: str | bytes, given: bytes = b"") -> bytes:
    """Run kcat with `given` as its standard input; return its output."""
    if shutil.which("kcat") is None:
        # Here and below: a program of others is what is missing, which nobody needs for anything else.
        pytest.skip("there is no kcat (Debian's package of that name)")
    return _run(["kcat", "-b", servers, *arguments], given)


def console_producer(servers: str, topic: str, given: bytes, *arguments: str) -> None:
    """Java's; each line of `given` is a record."""
    producer = "org.apache.kafka.tools.ConsoleProducer"
    _run(_java(producer, "--bootstrap-server", servers, "--topic", topic, *arguments), given)


def console_consumer(servers: str, topic: str, partition: int, count: int, *arguments: str) -> bytes:
    """Return what Java's console consumer prints of one partition from its beginning, without a group."""
    place = ["--topic", topic, "--partition", str(partition), "--offset", "earliest"]
    limits = ["--max-messages", str(count), "--timeout-ms", "60000"]
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return _run(_java(consumer, "--bootstrap-server", servers, *place, *limits, *arguments), b"")


def kafkajs(script: str, **facts: Any) -> bytes:
    """Runs a script in which `Kafka`, `CompressionTypes`, `logLevel` and `facts` are there; returns what it prints."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node with npm, so kafkajs cannot be run")
    whole = (
        f"{_KAFKAJS_HEAD}\n(async () => {{ {script} }})().catch(error => {{ console.error(error); process.exit(1); }});"
    )
    return _run(["node", "-e", whole], json.dumps(facts).encode(), directory=_kafkajs_directory())


def _java(main_class: str, *arguments: str) -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    # Compiled just once over: none lives long enough for more.
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{kafka_jars()}/*", main_class, *arguments]


def _run(command: Sequence[str | bytes], given: bytes, directory: Path | None = None) -> bytes:
    finished = subprocess.run(
        command, input=given, capture_output=True, timeout=RUN_DEADLINE_S, check=False, cwd=directory
    )
    assert finished.returncode == 0, finished.stderr.decode(errors="replace")
    return finished.stdout


def _kafkajs_directory() -> Path:
    # Another list of packages is another directory, so that one fetched for an older list is not taken for it.
    name = f"{_KAFKAJS[0].replace('@', '-')}-{sha256(' '.join(_KAFKAJS).encode()).hexdigest()[:8]}"
    return made_once(name, _fetch_kafkajs)


def _fetch_kafkajs(directory: Path) -> None:
    directory.mkdir()
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(directory), *_KAFKAJS]
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FETCH_DEADLINE_S,
            check=False,
            env=_environment_of_npm(),
        )
    except subprocess.TimeoutExpired:
        # Here and below: what cannot be fetched says nothing of Kraft.
        pytest.skip(f"npm did not fetch kafkajs within {_FETCH_DEADLINE_S:.0f} s")
    if finished.returncode != 0:
        pytest.skip(f"npm cannot fetch kafkajs: {finished.stderr.strip().splitlines()[:1]}")


def _environment_of_npm() -> dict[str, str]:
    """Ours, with the certificates that this machine trusts added to those that node brings along.

    Node looks at no certificates of the system's by itself, so behind a proxy or a mirror with a certificate of its
    own it would trust nobody, where every other program of the machine does.
    """
    said = os.environ.get("SSL_CERT_FILE")
    found = next((path for path in (said, *_SYSTEM_CERTIFICATES) if path and Path(path).is_file()), None)
    # Not where somebody has said it already.
    return {**({} if found is None else {"NODE_EXTRA_CA_CERTS": found}), **os.environ}
