"""Spark sessions as processes: asking them, with the time, CPU and memory that their whole process trees take."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import psutil
from msgspec.json import decode, encode

from benchmarks.servers import MIB
from benchmarks.spark_session import DEADLINE_S, Answer, Done, Failed, NotSupported, Request, Subject

MODULE: Final = "benchmarks.spark_session"
_ROOT: Final = Path(__file__).resolve().parents[1]
_ANSWER_DEADLINE_S: Final = DEADLINE_S + 30
_STOP_DEADLINE_S: Final = 30
_TAIL_LINES: Final = 15


class SessionFailed(Exception):
    """A session ended, or could not carry out a request. The text says why."""


class CannotYet(Exception):
    """The connector does not support what was asked for. The text is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a request took: seconds by the session's own clock, and CPU of its whole tree of processes."""

    done: Done
    cpu_s: float


class SparkProcess:
    """A running session."""

    def __init__(self, subject: Subject, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.subject = subject
        self._process = process
        self._errors = errors
        self._answered()

    def ask(self, request: Request) -> Taken:
        """Raises CannotYet and SessionFailed."""
        before_s = self.cpu_s()
        assert self._process.stdin is not None, "asked for"
        self._process.stdin.write(encode(request) + b"\n")
        self._process.stdin.flush()
        done = self._answered()
        return Taken(done=done, cpu_s=self.cpu_s() - before_s)

    def cpu_s(self) -> float:
        """CPU time of the tree, with its processes that have ended: their parents have it."""
        return self._sum(lambda each: sum(each.cpu_times()[:4]))

    def resident_mib(self) -> float:
        """Memory of the tree. What forked processes share is counted once: only their proportional parts."""
        return self._sum(lambda each: each.memory_full_info().pss) / MIB

    def _sum(self, taken: Callable[[psutil.Process], float]) -> float:
        """Return what all processes of the tree take; Spark ends some at any time."""
        own = psutil.Process(self._process.pid)
        total = 0.0
        for each in (own, *own.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += taken(each)
        return total

    def _answered(self) -> Done:
        output = self._process.stdout
        assert output is not None, "asked for"
        if not select.select([output], [], [], _ANSWER_DEADLINE_S)[0]:
            raise SessionFailed(f"{self.subject.name}: no answer within {_ANSWER_DEADLINE_S} s")
        line = output.readline()
        if not line:
            raise SessionFailed(f"{self.subject.name}: the session ended\n{_tail(self._errors)}")
        answer: Answer = decode(line, type=Answer)
        match answer:
            case Done() as done:
                return done
            case NotSupported(why):
                raise CannotYet(why)
            case Failed(why):
                raise SessionFailed(f"{self.subject.name}: {why}")


@contextmanager
def spark_process(subject: Subject) -> Iterator[SparkProcess]:
    """A session for the duration of the context, which begins once it has started."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, "-m", MODULE, encode(subject).decode()]
    with TemporaryDirectory(prefix="kraft-spark-errors-") as directory:
        errors = Path(directory) / "errors"
        with errors.open("wb") as log:
            process = _started(command, environment, log)
        try:
            yield SparkProcess(subject, process, errors)
        finally:
            _stop(process)


def first_batch(subject: Subject, request: Request) -> tuple[float, Taken]:
    """Start a session and ask it for a first batch; return the seconds since its start, and what it all took."""
    began_s = time.perf_counter()
    with spark_process(subject) as session:
        done = session.ask(request).done
        return time.perf_counter() - began_s, Taken(done=done, cpu_s=session.cpu_s())


def _started(command: list[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    # Unbuffered: `select` sees nothing of what is in a buffer.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0, env=environment
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None, "asked for"
    assert process.stdout is not None, "asked for"
    own = psutil.Process(process.pid) if process.poll() is None else None
    tree = [] if own is None else [own, *own.children(recursive=True)]
    process.stdin.close()
    try:
        process.wait(_STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in psutil.wait_procs(tree, timeout=5)[1]:
        each.kill()
    process.stdout.close()


def _tail(errors: Path) -> str:
    return "\n".join(errors.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
