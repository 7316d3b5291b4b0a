"""A real OpenSearch: one node of one process, on this machine, which may be killed and started again."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from chaos.tool_cache import made_once
from kraft.local.free_ports import ReservedPorts
from tests.support.maven_jars import FETCH_DEADLINE_S, JarsMissing, maven_jars
from tests.support.waiting import until

_HERE: Final = Path(__file__).parent
_PROGRAM: Final = _HERE / "SearchEngine.java"
_ANSWER_S: Final = 30.0
_QUICK: Final = ("-Xms400m", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_LONG: Final = ("-Xms1g", "-Xmx1g", *_QUICK[2:])
_START_S: Final = 150.0
"""Longest start: 3 s alone, and a minute on a machine that is busy with other tests."""

_LONG_START_S: Final = 600.0
"""The same for one that runs long, in the background of other work."""


def engine_jars() -> Path:
    """Return the directory of its jars. Skips the test if they are not there and cannot be fetched."""
    if shutil.which("javac") is None:
        pytest.skip("there is no javac, so the search engine cannot be run")
    try:
        return maven_jars(_HERE / "pom.xml", "opensearch")
    except JarsMissing as missing:
        pytest.skip(str(missing))


class SearchEngine:
    """A context manager that has the engine's files and its ports; `start` starts it."""

    def __init__(self, jars: Path, *, runs_long: bool = False) -> None:
        self._jars = jars
        self._options, self._start_s = (_LONG, _LONG_START_S) if runs_long else (_QUICK, _START_S)
        self._reserved = ReservedPorts(2)
        self.port = self._reserved.ports[0]
        self._directory = Path(tempfile.mkdtemp(prefix="kraft-search-engine-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return at once."""
        program = made_once(f"{self._jars.name}-{_key()}.jar", self._compile)
        ports = [str(each) for each in self._reserved.ports]
        command = ["java", *self._options, "-cp", f"{self._jars}/*:{program}", _PROGRAM.stem, str(self._directory)]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *ports], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_ready(self) -> None:
        until(self._answers, lambda: f"the search engine has not started: {self.log_tail()}", self._start_s)

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_ANSWER_S)

    def log_tail(self) -> str:
        log = self._directory / "log"
        return log.read_text(errors="replace")[-2_000:] if log.exists() else ""

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return its answer to a request. Raises AssertionError for one that is no success."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {read.decode()}"
        return json.loads(read)

    def count(self, index: str) -> int:
        """Return how many documents there are, new ones too."""
        self.ask("POST", f"/{index}/_refresh")
        return int(self.ask("GET", f"/{index}/_count")["count"])

    def found(self, index: str, **query: Any) -> list[dict[str, Any]]:
        """Return documents, at most 10,000, with their ids as `_id`."""
        hits = self.ask("POST", f"/{index}/_search", {"size": 10_000, **query})["hits"]["hits"]
        return [{"_id": each["_id"], "_index": each["_index"], **each["_source"]} for each in hits]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"--- the end of the search engine's log\n{self.log_tail()}")
        self.kill()
        self._reserved.release()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is None or self._process.poll() is None, self.log_tail()
        try:
            return bool(self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")["status"] != "red")
        except (OSError, http.client.HTTPException, AssertionError):
            return False

    def _compile(self, jar: Path) -> None:
        with tempfile.TemporaryDirectory() as directory:
            command = ["javac", "--release", "17", "-cp", f"{self._jars}/*", "-d", directory, str(_PROGRAM)]
            subprocess.run(command, check=True, timeout=FETCH_DEADLINE_S)
            with zipfile.ZipFile(jar, "w") as packed:
                for each in Path(directory).iterdir():
                    packed.write(each, each.name)


def _key() -> str:
    return sha256(_PROGRAM.read_bytes()).hexdigest()[:8]
