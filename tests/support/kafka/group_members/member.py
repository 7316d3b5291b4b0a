"""Members of a group, each a process of an unmodified client of Kafka or of our own, as the tests see them.

They report what they were assigned, read and committed. A process can be stopped, killed, paused and resumed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import msgspec
from msgspec import Struct

from kraft.local.forked_processes import ForkServer
from tests.support.kafka.group_members.options import Options, Servers
from tests.support.kafka.kafka_jars import java_command, kafka_jars
from tests.support.kafka.kafka_programs import kafkajs_process, kcat_command
from tests.support.kafka.reporting_process import ReportingProcess, Running, forked

SESSION_MS: Final = 6_000
_PYTHON_CLIENTS: Final = ("confluent", "kraft", "kafka_python", "aiokafka")
_PYTHON: Final = ForkServer("tests.support.kafka.group_members.options:preload")
_SCRIPT: Final = Path(__file__).with_name("kafkajs_member.js")

Range = tuple[int, int, int]
"""Partition, first and next offset."""


class Kind(Struct, frozen=True, kw_only=True):
    """A client and the protocol that it takes part with."""

    client: str
    protocol: str

    @property
    def name(self) -> str:
        return f"{self.client}-{self.protocol}"

    @property
    def commits_what_it_read(self) -> bool:
        """True if it commits synchronously, and reports it; the consoles commit from time to time."""
        return self.client not in ("java", "kcat")


RANGE: Final = tuple(
    Kind(client=each, protocol="range")
    for each in ("confluent", "kraft", "kafka_python", "aiokafka", "kafkajs", "java", "kcat")
)
COOPERATIVE: Final = tuple(
    Kind(client=each, protocol="cooperative-sticky") for each in ("confluent", "kraft", "kafka_python", "java", "kcat")
)
CONSUMER: Final = tuple(Kind(client=each, protocol="consumer") for each in ("confluent", "kraft", "java"))
KINDS: Final = (*RANGE, *COOPERATIVE, *CONSUMER)


class Event(Struct, frozen=True, kw_only=True):
    """`event` is assigned, revoked, lost, read, committed or failed."""

    at_s: float
    event: str
    partitions: tuple[int, ...] = ()
    ranges: tuple[Range, ...] = ()
    what: str = ""
    error: str = ""


class Member(ReportingProcess[Event]):
    """A running process. `events` grows while it runs."""

    def __init__(self, kind: Kind, options: Options, directory: Path) -> None:
        self.kind = kind
        # The JVM says that it ended by the signal.
        stopped_code = 128 + signal.SIGTERM if kind.client == "java" else 0
        super().__init__(options.name, directory, partial(_started, kind, options), partial(_event, kind), stopped_code)

    @property
    def owned(self) -> set[int]:
        """Partitions that it has reported as assigned and not as revoked; consoles report nothing."""
        owned: set[int] = set()
        for each in tuple(self.events):
            if each.event == "assigned":
                owned |= set(each.partitions)
            elif each.event in ("revoked", "lost"):
                owned -= set(each.partitions)
        return owned

    @property
    def read(self) -> list[Range]:
        return [each for event in tuple(self.events) if event.event == "read" for each in event.ranges]

    @property
    def committed(self) -> list[Range]:
        return [each for event in tuple(self.events) if event.event == "committed" for each in event.ranges]


class Members:
    """The members of one group that a test has started."""

    def __init__(
        self, servers: Servers, group: str, topic: str, directory: Path, session_ms: int, *, as_shipped: bool = False
    ) -> None:
        self.all: list[Member] = []
        self._servers = servers
        self._group = group
        self._topic = topic
        self._directory = directory
        self._session_ms = session_ms
        self._as_shipped = as_shipped

    def start(self, kind: Kind, instance: str = "") -> Member:
        options = Options(
            servers=self._servers.grpc if kind.client == "kraft" else self._servers.kafka,
            group=self._group,
            topic=self._topic,
            protocol=kind.protocol,
            name=f"{kind.client}-{len(self.all) + 1}",
            session_ms=self._session_ms,
            instance=instance,
            as_shipped=self._as_shipped,
        )
        self.all.append(Member(kind, options, self._directory))
        return self.all[-1]

    @property
    def running(self) -> list[Member]:
        return [each for each in self.all if each.is_running]


@contextmanager
def members_of(
    servers: Servers, group: str, topic: str, session_ms: int = SESSION_MS, *, as_shipped: bool = False
) -> Iterator[Members]:
    """Members still running at the end are killed."""
    with TemporaryDirectory(prefix="members-") as directory:
        members = Members(servers, group, topic, Path(directory), session_ms, as_shipped=as_shipped)
        try:
            yield members
        except Exception as error:
            for each in members.all:
                error.add_note(f"{each.name}: {[*each.events[-5:]]}\n{each.errors_tail()}")
            raise
        finally:
            for each in members.running:
                with suppress(ProcessLookupError):
                    each.kill()


# --- processes -------------------------------------------------------------------------------------------------------


def _started(kind: Kind, options: Options, errors: IO[bytes]) -> tuple[Running, IO[bytes]]:
    """Return the process, and its output."""
    if kind.client in _PYTHON_CLIENTS:
        return forked(_PYTHON, _python_command(kind, options), errors)
    if kind.client == "kafkajs":
        facts = {
            "servers": options.servers.split(","),
            "topic": options.topic,
            "group": options.group,
            "name": options.name,
            "sessionMs": options.session_ms,
            "heartbeatMs": options.heartbeat_ms,
        }
        process = kafkajs_process(_SCRIPT.read_text(), errors, **facts)
    else:
        # kcat says on its error output what it was assigned.
        both = subprocess.STDOUT if kind.client == "kcat" else errors
        command = _command(kind, options)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=both)
    assert process.stdout is not None
    return process, process.stdout


def _python_command(kind: Kind, options: Options) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.support.kafka.group_members", kind.client),
        *("--servers", options.servers, "--group", options.group, "--topic", options.topic),
        *("--protocol", options.protocol, "--name", options.name, "--session-ms", str(options.session_ms)),
        *("--instance", options.instance),
        *(("--as-shipped",) if options.as_shipped else ()),
    ]


def _command(kind: Kind, options: Options) -> Sequence[str | bytes]:
    if kind.client == "kcat":
        words = [word for each in _librdkafka(options) for word in ("-X", each)]
        # Unbuffered, and with what it is assigned.
        return kcat_command(options.servers, "-u", *words, "-f", "%p %o\\n", "-G", options.group, options.topic)
    assert kind.client == "java"
    words = [word for each in _java(options) for word in ("--command-property", each)]
    return java_command(
        kafka_jars(),
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", options.servers, "--group", options.group, "--topic", options.topic, *words),
        *("--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true"),
        *("--formatter-property", "print.value=false"),
    )


def _librdkafka(options: Options) -> list[str]:
    settings = [f"client.id={options.name}", "auto.offset.reset=earliest", "topic.metadata.refresh.interval.ms=1000"]
    if options.is_consumer_protocol:
        return [*settings, "group.protocol=consumer"]
    return [
        *settings,
        f"session.timeout.ms={options.session_ms}",
        f"heartbeat.interval.ms={options.heartbeat_ms}",
        f"partition.assignment.strategy={options.protocol}",
    ]


def _java(options: Options) -> list[str]:
    settings = [f"client.id={options.name}", "auto.offset.reset=earliest"]
    if not options.as_shipped:
        settings.append("metadata.max.age.ms=1000")
    if options.is_consumer_protocol:
        return [*settings, "group.protocol=consumer"]
    assignor = "RangeAssignor" if options.protocol == "range" else "CooperativeStickyAssignor"
    if not options.as_shipped:
        settings += [f"{name.replace('_', '.')}={value}" for name, value in options.session().items()]
    return [*settings, f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{assignor}"]


# --- events ----------------------------------------------------------------------------------------------------------

_OF_JAVA: Final = re.compile(rb"Partition:(\d+)\tOffset:(\d+)")
_OF_KCAT: Final = re.compile(rb"(\d+) (\d+)\n")
_REBALANCED: Final = re.compile(rb"% Group .* rebalanced.*?\b(assign|revoke)(?:d|ment)?\b(.*)")

_OF_REBALANCES: Final = {b"assign": "assigned", b"revoke": "revoked"}


def _event(kind: Kind, line: bytes) -> Event | None:
    if kind.client == "java":
        return _read(_OF_JAVA.match(line))
    if kind.client != "kcat":
        # A client may write warnings of its own there.
        return msgspec.json.decode(line, type=Event) if line.startswith(b'{"at_s"') else None
    if (found := _REBALANCED.match(line)) is not None:
        partitions = tuple(int(each) for each in re.findall(rb"\[(\d+)\]", found[2]))
        return Event(at_s=time.monotonic(), event=_OF_REBALANCES[found[1]], partitions=partitions)
    return _read(_OF_KCAT.fullmatch(line))


def _read(found: re.Match[bytes] | None) -> Event | None:
    if found is None:
        return None
    partition, offset = int(found[1]), int(found[2])
    return Event(at_s=time.monotonic(), event="read", ranges=((partition, offset, offset + 1),))
