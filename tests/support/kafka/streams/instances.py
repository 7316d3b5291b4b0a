"""Instances of an application of Kafka Streams (`WordCounter`), as the tests see them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from tests.support.kafka.kafka_jars import java_process
from tests.support.kafka.reporting_process import ReportingProcess, Running

COUNTER: Final = "WordCounter"
_JAVA_STOPPED: Final = 143


class Application(Struct, frozen=True, kw_only=True):
    """Options that all instances have in common."""

    servers: str
    application: str
    source: str
    target: str
    standbys: int = 0
    """Number of copies of each state store on other instances."""

    protocol: str = ""
    """Group protocol: empty for the default, which is `classic`, or `streams` for that of KIP-1071."""

    session_ms: int
    transaction_timeout_ms: int

    @property
    def repartition_topic(self) -> str:
        return f"{self.application}-by-word-repartition"

    @property
    def changelog_topic(self) -> str:
        return f"{self.application}-counts-changelog"


class Event(Struct, frozen=True, kw_only=True):
    """`event` is state, producer, handled or failed. Words are handled when they are read and when they are counted."""

    at_s: float
    event: str
    state: str = ""
    transactional_id: str = ""
    words: int = 0
    tasks: int = 0
    error: str = ""


class Instance:
    """The processes of one instance, one after the other; each begins without a file of the one before."""

    def __init__(self, application: Application, number: int, directory: Path) -> None:
        self.name = f"instance-{number}"
        self.all: list[ReportingProcess[Event]] = []
        self._application = application
        self._directory = directory
        self.start()

    @property
    def process(self) -> ReportingProcess[Event]:
        return self.all[-1]

    def start(self) -> None:
        state = self._directory / f"{self.name}-state"
        shutil.rmtree(state, ignore_errors=True)
        options = {**asdict(self._application), "name": self.name, "state": str(state)}
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]

        def started(errors: IO[bytes]) -> tuple[Running, IO[bytes]]:
            process = java_process(COUNTER, errors, *words)
            assert process.stdout is not None
            return process, process.stdout

        self.all.append(
            ReportingProcess(f"{self.name}-{len(self.all)}", self._directory, started, _event, _JAVA_STOPPED)
        )

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        """It closes its streams and ends. Raises AssertionError if it does not."""
        self.process.stop()

    def errors(self) -> list[str]:
        """What ended its stream threads."""
        return [each.error for each in tuple(self.process.events) if each.event == "failed"]

    def check(self) -> None:
        """Raise AssertionError if a stream thread or the process has ended."""
        errors = self.errors()
        assert not errors, f"{self.name}: {errors[0]}\n{self.process.errors_tail()}"
        self.process.check()

    @property
    def transactional_id(self) -> str:
        """That of its last producer. Raises AssertionError if it has had none."""
        found = [each.transactional_id for each in tuple(self.process.events) if each.event == "producer"]
        assert found, f"{self.name} has no producer"
        return found[-1]

    def has_handled_since(self, since_s: float) -> bool:
        """Whether it has handled words after a moment, and has tasks."""
        handled = [each for each in tuple(self.process.events) if each.event == "handled"]
        before = max((each.words for each in handled if each.at_s <= since_s), default=0)
        return bool(handled) and handled[-1].words > before and handled[-1].tasks > 0


@contextmanager
def instances_of(application: Application, count: int) -> Iterator[list[Instance]]:
    """Start them; those that still run at the end are killed."""
    instances: list[Instance] = []
    with TemporaryDirectory(prefix="streams-") as directory:
        try:
            instances.extend(Instance(application, number, Path(directory)) for number in range(count))
            yield instances
        except Exception as error:
            for each in instances:
                error.add_note(f"{each.name}, {len(each.all)} processes: {each.process.events[-5:]}")
                error.add_note(each.process.errors_tail())
            raise
        finally:
            for each in instances:
                if each.process.is_running:
                    with suppress(ProcessLookupError):
                        each.kill()


def waiting_since(instances: Sequence[Instance], since_s: float) -> list[str]:
    """Names of the instances that have handled no word since then. Raises AssertionError if one has ended."""
    for each in instances:
        each.check()
    return [each.name for each in instances if not each.has_handled_since(since_s)]


def _event(line: bytes) -> Event | None:
    return msgspec.json.decode(line, type=Event) if line.startswith(b'{"at_s"') else None
