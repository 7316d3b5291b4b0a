"""Workers as the tests see them: processes that are started again when they ended, killed, paused and resumed."""

from __future__ import annotations

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
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.kafka_jars import java_process
from tests.support.kafka.reporting_process import ReportingProcess, Running, forked
from tests.support.kafka.transactions.options import ENDED, Options, Work

COPIER: Final = "TransactionalCopier"
_PYTHON: Final = ForkServer("tests.support.kafka.transactions.options:preload")
_JAVA_STOPPED: Final = 143


class Event(Struct, frozen=True, kw_only=True):
    """`event` is committed, aborted or failed; `name` is that of a transfer."""

    at_s: float
    event: str
    name: str = ""
    took_s: float = 0.0
    what: str = ""
    error: str = ""


class WorkerProcess(ReportingProcess[Event]):
    def __init__(self, client: str, options: Options, directory: Path) -> None:
        stopped_code = _JAVA_STOPPED if client == "java" else 0
        super().__init__(
            f"{options.name}-{options.run}", directory, partial(_started, client, options), _event, stopped_code
        )


class Task(Struct, frozen=True, kw_only=True):
    """What the processes of one transactional id do, one after the other."""

    client: str
    work: Work
    source: str = ""
    target: str
    partitions: int

    @property
    def name(self) -> str:
        return f"{self.work}-{self.client}"


class TaskWorker:
    """The processes of one task. There is one at a time, except after a pause, which may outlive its successor."""

    def __init__(self, task: Task, options: Options, directory: Path) -> None:
        self.task = task
        self.all: list[WorkerProcess] = []
        self.ends = 0
        """How many processes were killed, or ended because their producer could only be closed."""
        self._options = options
        self._directory = directory
        self.start()

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def process(self) -> WorkerProcess:
        return self.all[-1]

    @property
    def events(self) -> list[Event]:
        return [event for process in self.all for event in tuple(process.events)]

    def start(self) -> None:
        options = msgspec.structs.replace(self._options, run=len(self.all))
        self.all.append(WorkerProcess(self.task.client, options, self._directory))

    def tend(self) -> None:
        """Start the process again if its producer could only be closed. Raises AssertionError for any other end."""
        if self.process.exit_code == ENDED:
            self.process.collect_rest()
            self.ends += 1
            self.start()
        self.process.check()

    def kill(self) -> None:
        self.process.kill()
        self.ends += 1

    def has_committed_since(self, since_s: float) -> bool:
        return self.first_commit_s(since_s) is not None

    def first_commit_s(self, since_s: float) -> float | None:
        """When the first commit after a moment was reported."""
        return next((each.at_s for each in self.events if each.event == "committed" and each.at_s > since_s), None)


class Group(Struct, frozen=True, kw_only=True):
    """How copiers share their topic."""

    name: str
    protocol: str
    session_ms: int


@contextmanager
def workers_of(
    servers: Servers, tasks: Sequence[Task], group: Group, transaction_timeout_ms: int, prefix: str
) -> Iterator[list[TaskWorker]]:
    """A process for each task. Those that still run at the end are killed."""
    workers: list[TaskWorker] = []
    with TemporaryDirectory(prefix="workers-") as directory:
        try:
            for task in tasks:
                options = Options(
                    work=task.work,
                    servers=servers.grpc if task.client == "kraft" else servers.kafka,
                    name=f"{prefix}-{task.name}",
                    run=0,
                    source=task.source,
                    target=task.target,
                    partitions=task.partitions,
                    group=group.name,
                    protocol=group.protocol,
                    session_ms=group.session_ms,
                    transaction_timeout_ms=transaction_timeout_ms,
                )
                workers.append(TaskWorker(task, options, Path(directory)))
            yield workers
        except Exception as error:
            for worker in workers:
                error.add_note(f"{worker.name}, {len(worker.all)} runs: {worker.events[-5:]}")
                error.add_note(worker.process.errors_tail())
            raise
        finally:
            for process in (each for worker in workers for each in worker.all if each.is_running):
                with suppress(ProcessLookupError):
                    process.kill()


def wait_committed(workers: Sequence[TaskWorker], since_s: float, deadline_s: float) -> list[float]:
    """Wait until every worker has committed after a moment; return how long each took.

    Raises AssertionError.
    """
    until_s = time.monotonic() + deadline_s
    while waiting := [each.name for each in workers if not each.has_committed_since(since_s)]:
        assert time.monotonic() < until_s, f"no commit within {deadline_s:g} s: {', '.join(waiting)}"
        for each in workers:
            each.tend()
        # Polled: other threads collect what the processes report.
        time.sleep(0.05)
    return [first - since_s for each in workers if (first := each.first_commit_s(since_s)) is not None]


def _started(client: str, options: Options, errors: IO[bytes]) -> tuple[Running, IO[bytes]]:
    if client == "java":
        process = java_process(COPIER, errors, *options.arguments())
        assert process.stdout is not None
        return process, process.stdout
    command = [sys.executable, "-m", "tests.support.kafka.transactions", client, *options.arguments()]
    return forked(_PYTHON, command, errors)


def _event(line: bytes) -> Event | None:
    # A client may write warnings of its own there.
    return msgspec.json.decode(line, type=Event) if line.startswith(b'{"at_s"') else None
