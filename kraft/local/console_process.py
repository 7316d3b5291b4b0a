"""The web console of a cluster on this machine, as a child process of its launcher, with which it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraft.local.cluster_files import HOST
from kraft.local.launching import KRAFT, Process, launch
from kraft.model.errors import KraftError
from kraft.runtime.disk import open_privately
from kraft.server.config import properties
from kraft.server.process import lifeline

START_DEADLINE_S: Final = 20.0
_STOP_DEADLINE_S: Final = 10.0
_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 2_000


class ConsoleFailed(KraftError):
    """The console does not serve; one line, with the end of its log."""


class ConsoleProcess:
    """`kraft console` for one cluster, named dev. It serves loopback only."""

    def __init__(self, directory: Path, port: int, cluster: Mapping[str, str]) -> None:
        """`cluster` has the keys of cluster.NAME.* without that prefix."""
        self.port = port
        self._file = directory / "console.properties"
        self._log = directory / "console.log"
        settings = {"listeners": f"HTTP://localhost:{port}", "clusters": "dev"}
        self._settings = settings | {f"cluster.dev.{key}": value for key, value in cluster.items()}
        self._process: Process | None = None
        self._finalizer: weakref.finalize[[Process, int], ConsoleProcess] | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/"

    def start(self) -> None:
        """Start it, and return at once."""
        with open(self._file, "wb", opener=open_privately) as file:
            file.write(properties.serialize(self._settings))
        reading_end, writing_end = os.pipe()
        try:
            with open(self._log, "ab", opener=open_privately) as log:
                command = [*KRAFT, "console", "-c", str(self._file)]
                self._process = launch(command, log, reading_end, lifeline.ENVIRONMENT_VARIABLE)
        except BaseException:
            os.close(writing_end)
            raise
        finally:
            os.close(reading_end)
        self._finalizer = weakref.finalize(self, _ended, self._process, writing_end)

    def wait_ready(self) -> None:
        """Wait until it serves. Raises ConsoleFailed."""
        assert self._process is not None, "it was started"
        until_s = time.monotonic() + START_DEADLINE_S
        while not _answers(self.port):
            if (exit_code := self._process.poll()) is not None:
                raise ConsoleFailed(f"the console ended with exit code {exit_code}: {self._said()}")
            if time.monotonic() > until_s:
                raise ConsoleFailed(f"the console does not serve after {START_DEADLINE_S:g} s: {self._said()}")
            # The console says in no other way that it listens.
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._finalizer is not None:
            self._finalizer()

    def _said(self) -> str:
        return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip().rpartition("\n")[2]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _ended(process: Process, writing_end: int) -> None:
    if process.poll() is None:
        process.kill()
        process.wait(_STOP_DEADLINE_S)
    os.close(writing_end)
