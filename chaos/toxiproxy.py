"""The program Toxiproxy: where it is found or how it is built, and one running server with its proxies.

It is written in Go and is no dependency of ours: without it, and without Go to build it, link faults are not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import requests
import toxiproxy.api
from toxiproxy import Proxy, Toxiproxy

from chaos.tool_cache import made_once

Answer = TypeVar("Answer")

VERSION: Final = "v2.12.0"
MODULE: Final = f"github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}"
PROGRAM: Final = "toxiproxy-server"
HOST: Final = "127.0.0.1"

OFFICIAL_GO: Final = Path("/usr/local/go/bin/go")
"""Where Go's own instructions install it, which is often on nobody's PATH."""

_GO_MIN: Final = (1, 21)
"""The first Go that fetches the newer Go that a module asks for. Distributions ship older ones."""

_GO_VERSION: Final = re.compile(r"go version go(\d+)\.(\d+)")
_GO_ANSWER_DEADLINE_S: Final = 30.0

_BUILD_DEADLINE_S: Final = 300.0
_ANSWER_DEADLINE_S: Final = 5.0
_START_DEADLINE_S: Final = 15.0
_STOP_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.02

# The shell waits for the end of its input, which comes when this process is gone, however it went, and then ends the
# server: nothing stays behind that holds ports.
_WITH_LIFELINE: Final = '"$@" & server=$!; read -r _; kill -9 "$server" 2>/dev/null; wait "$server" 2>/dev/null'


class ToxiproxyMissing(Exception):
    """Neither the program nor a way to build it; one line that says what was tried."""


class ToxiproxyFailed(Exception):
    """The server does not start, or does not do what it is asked."""


# --- the program -------------------------------------------------------------------------------------------------


def find_or_build(tell: Callable[[str], None] = lambda _: None) -> Path:
    """The server program: on the PATH, built earlier, or built now, which takes about half a minute.

    Raises ToxiproxyMissing.
    """
    installed = shutil.which(PROGRAM)
    if installed is not None:
        return Path(installed)
    try:
        return made_once(f"{PROGRAM}-{VERSION}", lambda path: _build(path, tell))
    except OSError as error:
        raise ToxiproxyMissing(f"{PROGRAM} cannot be built: {error}") from None


def _build(built: Path, tell: Callable[[str], None]) -> None:
    go = _find_go()
    tell(f"building {PROGRAM} {VERSION} with {go}, which takes about half a minute")
    temporary = built.parent
    environment = os.environ | {"GOBIN": str(temporary)}
    if "HOME" not in os.environ:
        # Go refuses to guess where its caches are; what it leaves must be removable with the directory.
        environment |= {"GOPATH": f"{temporary}/go", "GOCACHE": f"{temporary}/cache", "GOFLAGS": "-modcacherw"}
    try:
        finished = subprocess.run(
            [go, "install", MODULE],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToxiproxyMissing(f"go install {MODULE} took more than {_BUILD_DEADLINE_S:.0f} s") from None
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["no reason given"]
        raise ToxiproxyMissing(f"go install {MODULE} failed: {lines[-1]}")
    (temporary / "server").rename(built)


def _find_go() -> str:
    """Return a Go that can build the program. Raises ToxiproxyMissing."""
    tried = f"there is no {PROGRAM} on the PATH or built earlier, and no go to build it with"
    for go in filter(None, (shutil.which("go"), shutil.which(OFFICIAL_GO))):
        version = _version_of(go)
        if version >= _GO_MIN:
            return go
        tried += f"; {go} is {'.'.join(map(str, version))}, but {'.'.join(map(str, _GO_MIN))} or later is required"
    raise ToxiproxyMissing(tried)


def _version_of(go: str) -> tuple[int, int]:
    try:
        finished = subprocess.run(
            [go, "version"], capture_output=True, text=True, timeout=_GO_ANSWER_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToxiproxyMissing(f"{go} version does not answer: {error}") from None
    found = _GO_VERSION.match(finished.stdout)
    if found is None:
        raise ToxiproxyMissing(f"{go} version answers {finished.stdout.strip()!r}")
    return int(found[1]), int(found[2])


# --- a running server --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One proxy to be: what connects to `listen_port` reaches `upstream`."""

    name: str
    listen_port: int
    upstream: str

    def __post_init__(self) -> None:
        if "/" in self.name:
            # It would be part of the path of every request about this proxy.
            raise ValueError(f"the name of a link has no slash: {self.name!r}")


class Server:
    """A context manager: one server process with a proxy for each link.

    toxiproxy-python keeps the server's address in a class, so there is one of these at a time in a process. A server
    that does not answer in time is killed and started again, with all proxies up and without toxics: known to be
    needed, because a server that changes a link whose receiver does not read may hang for good.
    """

    def __init__(self, program: Path, api_port: int, links: list[Link]) -> None:
        self._program = program
        self._api_port = api_port
        self._links = {link.name: link for link in links}
        self._process: subprocess.Popen[bytes] | None = None
        self._client = Toxiproxy()
        self.restarts = 0

    def __enter__(self) -> Self:
        toxiproxy.api.requests = _RequestsWithDeadline()
        self._client.update_api_consumer(HOST, self._api_port)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def cut(self, name: str) -> None:
        """Close every connection of the link and refuse new ones, until `mend`."""
        self._call(lambda: self._proxy(name).disable())

    def poison(self, name: str, kind: str, attributes: Mapping[str, int], stream: str = "downstream") -> None:
        """Add a toxic of that kind; `stream` is downstream (from the broker) or upstream (to it)."""
        self._call(lambda: self._proxy(name).add_toxic(type=kind, stream=stream, attributes=dict(attributes)))

    def mend(self, name: str) -> None:
        """No toxics, and connections are let through. Those that were open are closed."""
        self._call(lambda: self._replace(self._links[name]))

    def _replace(self, link: Link) -> None:
        # A toxic is never removed: that waits for what still flows through it, even when the proxy is disabled first,
        # and for good when the receiver is paused. A new proxy under the old name and port has none.
        self._proxy(link.name).destroy()
        self._create(link)

    def _create(self, link: Link) -> None:
        self._client.create(link.upstream, link.name, f"{HOST}:{link.listen_port}", enabled=True)

    def _proxy(self, name: str) -> Proxy:
        proxy = self._client.get_proxy(name)
        if proxy is None:
            raise ToxiproxyFailed(f"there is no proxy {name}")
        return proxy

    def _call(self, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except (requests.RequestException, ToxiproxyFailed):
            # The restart breaks every connection too. What was asked for is asked of the new server once more.
            self.restarts += 1
            self._stop()
            self._start()
            return call()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WITH_LIFELINE, "sh", str(self._program), "-host", HOST, "-port", str(self._api_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_until_it_answers()
        for link in self._links.values():
            self._create(link)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_DEADLINE_S
        while not self._client.running():
            if time.monotonic() > deadline:
                raise ToxiproxyFailed(f"{self._program} does not answer on {HOST}:{self._api_port}")
            time.sleep(_POLL_S)

    def _stop(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_STOP_DEADLINE_S)


class _RequestsWithDeadline:
    """Stands where toxiproxy-python looks for the module `requests`, which it uses without deadlines."""

    def __init__(self) -> None:
        self._session = requests.Session()
        # The server is on this machine, whatever proxy the environment names for the outside world.
        self._session.trust_env = False

    def get(self, **arguments: Any) -> requests.Response:
        return self._checked(self._session.get(timeout=_ANSWER_DEADLINE_S, **arguments))

    def post(self, **arguments: Any) -> requests.Response:
        return self._checked(self._session.post(timeout=_ANSWER_DEADLINE_S, **arguments))

    def delete(self, **arguments: Any) -> requests.Response:
        return self._checked(self._session.delete(timeout=_ANSWER_DEADLINE_S, **arguments))

    def _checked(self, response: requests.Response) -> requests.Response:
        if response.status_code >= 500:
            raise ToxiproxyFailed(f"toxiproxy answered {response.status_code}: {response.text.strip()[:200]}")
        return response
