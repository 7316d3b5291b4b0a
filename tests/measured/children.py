"""Forked children of a process that has collected the tests: each runs some of them, and says which failed.

What a child does to modules, files and the event loop ends with it, and it imports nothing anew.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec
import pytest
from _pytest.runner import runtestprotocol

SILENCE_MAX_S: Final = 10.0
"""A child that has said nothing for this long hangs in its test, and is killed."""

SHOWN_EVERY_S: Final = 15.0

_CPU_MAX_S: Final = 8.0
"""One test that takes more than this runs without end, and the child is killed."""

_ADDRESSES_MAX_BYTES: Final = 12 << 30

Say = Callable[[object], None]
Job = TypeVar("Job")


@dataclass(slots=True)
class _Child:
    pid: int
    pipe: IO[bytes]
    directory: Path
    heard_at: float
    text: bytes = b""
    said: list[object] = field(default_factory=list)


def outcome(item: pytest.Item) -> str:
    """Run one test: `passed`, `skipped` or `failed`."""
    # Without a handler the signal ends the process.
    signal.setitimer(signal.ITIMER_PROF, _CPU_MAX_S)
    reports = runtestprotocol(item, log=False, nextitem=None)
    return next((report.outcome for report in reports if report.outcome != "passed"), "passed")


def run(
    jobs: Iterable[Job], body: Callable[[Job, Say], None], workers: int, what: str
) -> Iterator[tuple[Job, list[object]]]:
    """Run each job in a child; return it with what the child said, in the order in which they end."""
    waiting, running = deque(jobs), dict[int, tuple[Job, _Child]]()
    total, shown_at = len(waiting), time.monotonic()
    while waiting or running:
        while waiting and len(running) < workers:
            job = waiting.popleft()
            child = _fork(partial(body, job))
            running[child.pid] = (job, child)
        for pid in _ended([child for _, child in running.values()]):
            job, child = running.pop(pid)
            yield job, child.said
        if time.monotonic() - shown_at > SHOWN_EVERY_S:
            shown_at = time.monotonic()
            print(f"measured: {total - len(waiting)} of {total} {what}", file=sys.stderr, flush=True)


def _fork(body: Callable[[Say], None]) -> _Child:
    directory = Path(tempfile.mkdtemp(prefix="measured-"))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(writer, directory, body)
    os.close(writer)
    return _Child(pid, os.fdopen(reader, "rb", buffering=0), directory, time.monotonic())


def _be_child(writer: int, directory: Path, body: Callable[[Say], None]) -> None:
    try:
        # A group of its own, so that processes of its tests end with it.
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silence, number)
        os.environ["TMPDIR"] = str(directory)
        tempfile.tempdir = None
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES_MAX_BYTES, _ADDRESSES_MAX_BYTES))
        with os.fdopen(writer, "wb", buffering=0) as pipe:
            body(partial(_say, pipe))
    finally:
        # Whatever happened: the parent sees that the end of the job was not said.
        os._exit(0)


def _say(pipe: IO[bytes], value: object) -> None:
    text = msgspec.json.encode(value) + b"\n"
    while text:
        text = text[pipe.write(text) :]


def _ended(running: list[_Child]) -> Iterator[int]:
    """Wait until children say something; return those that have ended, or hang and are killed."""
    ready, _, _ = select.select([child.pipe for child in running], [], [], 1.0)
    now = time.monotonic()
    for child in running:
        if child.pipe in ready:
            child.heard_at = now
            text = os.read(child.pipe.fileno(), 1 << 20)
            *whole, child.text = (child.text + text).split(b"\n")
            child.said += map(msgspec.json.decode, whole)
            if text:
                continue
        elif now - child.heard_at < SILENCE_MAX_S:
            continue
        _end(child)
        yield child.pid


def _end(child: _Child) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    child.pipe.close()
    shutil.rmtree(child.directory, ignore_errors=True)
