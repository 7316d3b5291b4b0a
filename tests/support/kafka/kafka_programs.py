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
from typing import IO, Any, Final

import pytest

from chaos.tool_cache import made_once
from tests.support.kafka.kafka_jars import kafka_jars, run_java

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
    return _run(kcat_command(servers, *arguments), given)


def kcat_command(servers: str, *arguments: str | bytes) -> list[str | bytes]:
    if shutil.which("kcat") is None:
        # Here and below: a program of others is what is missing, which nobody needs for anything else.
        pytest.skip("there is no kcat (Debian's package of that name)")
    return ["kcat", "-b", servers, *arguments]


def console_producer(servers: str, topic: str, given: bytes, *arguments: str) -> None:
    """Java's; each line of `given` is a record."""
    producer = "org.apache.kafka.tools.ConsoleProducer"
    _run_java(producer, "--bootstrap-server", servers, "--topic", topic, *arguments, given=given)


def console_consumer(servers: str, topic: str, partition: int, count: int, *arguments: str) -> bytes:
    """Return what Java's console consumer prints of one partition from its beginning, without a group."""
    place = ["--topic", topic, "--partition", str(partition), "--offset", "earliest"]
    limits = ["--max-messages", str(count), "--timeout-ms", "60000"]
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return _run_java(consumer, "--bootstrap-server", servers, *place, *limits, *arguments)


def kafkajs(script: str, **facts: Any) -> bytes:
    """Runs a script in which `Kafka`, `CompressionTypes`, `logLevel` and `facts` are there; returns what it prints."""
    return _run(_kafkajs_command(script), json.dumps(facts).encode(), directory=_kafkajs_directory())


def kafkajs_process(script: str, errors: IO[bytes], **facts: Any) -> subprocess.Popen[bytes]:
    """Start such a script; its output is a pipe."""
    process = subprocess.Popen(
        _kafkajs_command(script),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=_kafkajs_directory(),
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(facts).encode())
    process.stdin.close()
    return process


def _kafkajs_command(script: str) -> list[str]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node with npm, so kafkajs cannot be run")
    failed = "error => { console.error(error); process.exit(1); }"
    return ["node", "-e", f"{_KAFKAJS_HEAD}\n(async () => {{ {script}\n }})().catch({failed});"]


def _run_java(main_class: str, *arguments: str, given: bytes = b"") -> bytes:
    done = run_java(kafka_jars(), main_class, *arguments, given=given, timeout_s=RUN_DEADLINE_S)
    assert done.code == 0, done.errors.decode(errors="replace")
    return done.output


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
