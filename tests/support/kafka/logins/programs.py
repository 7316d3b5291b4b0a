"""What clients that are programs of their own do where they have to log in: Java's, franz-go's, kcat, and our commands.

As those for Python do, as far as the program can. Each is skipped, with the reason, where it is not installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from chaos.tool_cache import made_once
from tests.support.closed_clusters import PASSWORD
from tests.support.command_line import run
from tests.support.kafka.kafka_jars import kafka_jars, run_java
from tests.support.kafka.kafka_programs import kcat
from tests.support.kafka.logged_in_clients import DEADLINE_S, VALUES
from tests.support.kafka.logins.places import USER, Mechanism, Place
from tests.support.kafka.logins.python_clients import ABORTED, COMMITTED, READ

_GO_PROGRAM: Final = Path(__file__).with_name("franz_go")
_BUILD_DEADLINE_S: Final = 300.0


# --- Java --------------------------------------------------------------------------------------------------------


def java(place: Place, topic: str) -> list[bytes]:
    written = [value.decode() for value in (*VALUES, COMMITTED, ABORTED)]
    done = run_java(
        kafka_jars(), "LoggedInClient", str(place.file_of_java(topic)), topic, *written, timeout_s=2 * DEADLINE_S
    )
    assert done.code == 0, done.errors.decode(errors="replace")
    return done.output.splitlines()


# --- franz-go ----------------------------------------------------------------------------------------------------


def franz_go(place: Place, topic: str) -> list[bytes]:
    given: dict[str, Any] = {
        "servers": place.kafka_servers,
        "topic": topic,
        "mechanism": "" if place.mechanism is Mechanism.CERTIFICATE else place.mechanism.value,
        "user": USER,
        "password": PASSWORD,
        "token": place.token(),
        "authority": str(place.authority or ""),
        "keystore": str(place.keystore or ""),
        "values": [value.decode() for value in VALUES],
        "committed": COMMITTED.decode(),
        "aborted": ABORTED.decode(),
    }
    done = subprocess.run(
        [_built()], input=json.dumps(given).encode(), capture_output=True, timeout=2 * DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.splitlines()


def _built() -> Path:
    """Return the program; built once for each user of a machine."""
    if shutil.which("go") is None:
        pytest.skip("there is no go (Debian's package golang-go), so the client of franz-go cannot be built")
    source = b"".join((_GO_PROGRAM / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    return made_once(f"franz-go-{sha256(source).hexdigest()[:8]}", _build)


def _build(made: Path) -> None:
    if (fetched := _go("mod", "download")).returncode != 0:
        # Where modules cannot be fetched, or go is too old for them, this says nothing of Kraft.
        pytest.skip(f"the modules of franz-go cannot be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
    compiled = _go("build", "-o", str(made), ".")
    assert compiled.returncode == 0, compiled.stderr


def _go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", *arguments],
        cwd=_GO_PROGRAM,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILD_DEADLINE_S,
        check=False,
    )


# --- kcat --------------------------------------------------------------------------------------------------------


def kcats(place: Place, topic: str) -> list[bytes]:
    """Administers nothing: the topic has to be there. Each line is a record."""
    how = [word for name, value in place.of_librdkafka.items() for word in ("-X", f"{name}={value}")]
    kcat(place.kafka_servers, *how, "-P", "-t", topic, given=b"\n".join(VALUES))
    kcat(place.kafka_servers, *how, "-X", f"transactional.id={topic}", "-P", "-t", topic, given=COMMITTED)
    group = ("-X", "auto.offset.reset=earliest", "-G", topic, "-c", str(len(READ)), "-q")
    return kcat(place.kafka_servers, *how, *group, topic).splitlines()


# --- our commands ------------------------------------------------------------------------------------------------


def own_commands(place: Place, topic: str) -> list[bytes]:
    """No command writes in a transaction; they list what transactions there are."""
    how = ("--bootstrap-server", place.grpc_servers, "--command-config", str(place.file_for_commands(topic)))

    def command(*arguments: str, given: bytes = b"") -> str:
        done = run(*arguments, *how, stdin=given)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    command("topics", "create", topic, "--partitions", "1")
    command("produce", topic, given=b"".join(value + b"\n" for value in VALUES))
    command("transactions", "list")
    read = command("consume", topic, "--from-beginning", "--group", topic, "--max-messages", str(len(VALUES)))
    assert topic in command("groups", "list")
    return read.encode().splitlines()
