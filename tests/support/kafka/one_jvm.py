"""Main methods of Java programs, run one after the other in one JVM: its start takes most of a tool's time.

Each has its own arguments, standard streams and exit code, as far as a program ends itself by Kafka's `Exit`, and its
shutdown hooks run when it has ended. The JVM starts with the first one, and ends with the object or this process.
"""

from __future__ import annotations

import struct
import subprocess
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

from msgspec import Struct

CLASS: Final = "MainMethods"
_END_DEADLINE_S: Final = 10.0
_NUMBER: Final = struct.Struct(">i")


class Finished(Struct, frozen=True, kw_only=True):
    """Result of a program that ended."""

    code: int
    output: bytes
    errors: bytes


class OneJvm:
    """`command` starts `MainMethods` (beside this file) with the classes of the programs. Thread-safe."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, main_class: str, arguments: Sequence[str], given: bytes, timeout_s: float) -> Finished:
        """Raises subprocess.TimeoutExpired, with the JVM killed, and EOFError if the JVM has ended."""
        with self._lock:
            process = self._process = self._process or self._started()
            is_late = threading.Event()

            def end() -> None:
                is_late.set()
                process.kill()

            timer = threading.Timer(timeout_s, end)
            timer.start()
            try:
                return _asked(process, request(main_class, *arguments, given=given))
            except BaseException:
                # A response that comes later must not be taken for the next one's.
                self._process = None
                process.kill()
                if is_late.is_set():
                    raise subprocess.TimeoutExpired([main_class, *arguments], timeout_s) from None
                raise
            finally:
                timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        weakref.finalize(self, _end, process)
        return process


def request(*words: str, given: bytes) -> bytes:
    """Return what makes `MainMethods` run a program: its class, its arguments, and its standard input."""
    texts = [*map(str.encode, words), given]
    parts = [part for text in texts for part in (_NUMBER.pack(len(text)), text)]
    return b"".join([_NUMBER.pack(len(texts)), *parts])


def _asked(process: subprocess.Popen[bytes], question: bytes) -> Finished:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(question)
    process.stdin.flush()
    code = _number(process.stdout)
    output, errors = (_read(process.stdout, _number(process.stdout)) for _ in range(2))
    return Finished(code=code, output=output, errors=errors)


def _number(stream: IO[bytes]) -> int:
    (number,) = _NUMBER.unpack(_read(stream, _NUMBER.size))
    return int(number)


def _read(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError("the JVM has ended")
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        # It may have ended without reading the last request.
        with suppress(BrokenPipeError):
            stream.close()
    try:
        process.wait(_END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_DEADLINE_S)
