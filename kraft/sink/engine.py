"""One connection to a search engine, which is kept open, and its `_bulk` API (Elasticsearch, OpenSearch and alike).

By Python's own HTTP client: a kept connection, one request at a time, TLS and gzip are all that is needed of it, so the
package has no further dependency. Redirects and proxies are not followed: the login goes to the named nodes alone.
A request and its answer have one deadline together, so that an answer that drips ends, too.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import io
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from kraft.model.printable import printable
from kraft.sink.config import Compression, EngineConfig
from kraft.sink.documents import Document, Item
from kraft.tls.contexts import client_context

ANSWER_BYTES_MAX: Final = 64 << 20
_WANTED: Final = (
    "errors,items.*.status,items.*.error.type,items.*.error.reason,"
    "items.*.error.caused_by.reason,items.*.error.caused_by.caused_by.reason"
)
_REASON_MAX: Final = 300
_GZIP_LEVEL: Final = 1
_SENT_AT_ONCE_BYTES: Final = 64 * 1024

_ENDED: Final = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)
_CERTIFICATE_NEEDED: Final = (
    ": it may need a client certificate (connection.ssl.keystore.location), or not take the one that is given"
)
"""With TLS 1.3 a client that shows none learns of it by an alert, which is lost if its request meets the end first."""


class EngineAway(Exception):
    """No answer, or one that says: later. One sentence."""

    def __init__(self, problem: str, retry_after_s: int = 0) -> None:
        """`retry_after_s` is what the engine, or a proxy before it, asks for."""
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class RequestRefused(Exception):
    """The engine refuses the whole request (400, or 413: it is too large). One sentence."""


class Overloaded(EngineAway):
    """The engine has no room for the request (429): now, or for so large a one."""


class LoginRefused(EngineAway):
    """The engine does not take the login (401, 403)."""


class NoEngine(EngineAway):
    """Something else answers at the address."""


class _Answer(Struct, frozen=True):
    errors: bool
    items: list[dict[str, Item]] = []


class _Refusal(Struct, frozen=True):
    """The body of a request that the engine refuses; the filter of paths does not concern it."""

    error: msgspec.Raw


class _UntilDeadline(io.RawIOBase):
    """Reads of a socket that have one deadline together. They raise TimeoutError after it."""

    def __init__(self, raw: Any, connected: socket.socket, until_s: float) -> None:
        self._raw, self._socket, self._until_s = raw, connected, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(_left_s(self._until_s))
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()


class Engine:
    """Asks one node after the other, if one does not answer. For one thread. A new one has opened nothing."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._context: ssl.SSLContext | None = None
        self._urls = [urlsplit(each) for each in config.urls]
        self._connection: http.client.HTTPConnection | None = None
        self._is_interrupted = False
        self._headers = {"Accept": "application/json", "User-Agent": "kraft-sink", **_login(config)}
        self._decode = msgspec.json.Decoder(_Answer).decode

    def check(self) -> None:
        """Ask who is there. Raises EngineAway, LoginRefused, and NoEngine."""
        self._asked("GET", "/", b"", {})

    def bulk(self, documents: Sequence[Document]) -> tuple[list[Item], int]:
        """Index the documents. Return what became of each, and the bytes sent. Raises EngineAway, RequestRefused."""
        body = b"".join([each.lines for each in documents])
        headers = {"Content-Type": "application/x-ndjson"}
        if self._config.compression is Compression.GZIP:
            body, headers["Content-Encoding"] = gzip.compress(body, _GZIP_LEVEL), "gzip"
        answered = self._asked("POST", f"/_bulk?filter_path={_WANTED}", body, headers)
        try:
            answer = self._decode(answered)
        except msgspec.MsgspecError as error:
            raise self._no_engine(f"its answer is not that of the _bulk API: {error}") from None
        items = [item for each in answer.items for item in each.values()]
        if len(items) != len(documents):
            raise self._no_engine(f"its answer has {len(items)} items for {len(documents)} documents")
        return items, len(body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """End a request that another thread waits for, and each later one: they raise EngineAway."""
        self._is_interrupted = True
        if (connection := self._connection) is not None and (connected := connection.sock) is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def _asked(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        url, until_s = self._urls[0], time.monotonic() + self._config.timeout_s
        is_kept = self._connection is not None
        try:
            try:
                answer = self._answer(url, method, path, body, headers, until_s)
            except ConnectionError:
                if not is_kept:
                    raise
                # The node, or a proxy, has closed it since: nothing is wrong with that.
                self.close()
                answer = self._answer(url, method, path, body, headers, until_s)
            read = answer.read(ANSWER_BYTES_MAX + 1)
            if len(read) > ANSWER_BYTES_MAX:
                raise EngineAway(f"{url.netloc}: its answer is longer than 64 MiB")
            if answer.length:
                raise EngineAway(f"{url.netloc}: its answer broke off")
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self._ask_next()
            ended = url.scheme == "https" and isinstance(error, _ENDED)
            raise EngineAway(f"{url.netloc}: {_reason(error)}{_CERTIFICATE_NEEDED if ended else ''}") from None
        except EngineAway:
            self._ask_next()
            raise
        if answer.will_close:
            self.close()
        return self._checked(answer, read, url)

    def _answer(
        self, url: SplitResult, method: str, path: str, body: bytes, headers: dict[str, str], until_s: float
    ) -> http.client.HTTPResponse:
        """Send a request and return the beginning of its answer."""
        if self._is_interrupted:
            raise EngineAway("the sink ends")
        if self._connection is None:
            self._connection = self._dialled(url)
        connection = self._connection
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(_left_s(until_s))

        def answer(connected: socket.socket, *given: Any, **named: Any) -> http.client.HTTPResponse:
            found = http.client.HTTPResponse(connected, *given, **named)
            found.fp = io.BufferedReader(_UntilDeadline(found.fp.detach(), connected, until_s))
            return found

        connection.response_class = answer  # type: ignore[assignment]  # It is only called.
        length = {"Content-Length": str(len(body))} if body else {}
        parts = _parts(body, connection.sock, until_s) if body else None
        try:
            connection.request(method, f"{url.path}{path}", parts, {**self._headers, **length, **headers})
        except ConnectionError:
            # One that finds a request too large may say so, and read no more of it.
            found = connection.getresponse()
            found.will_close = True
            return found
        return connection.getresponse()

    def _checked(self, answer: http.client.HTTPResponse, body: bytes, url: SplitResult) -> bytes:
        status = answer.status
        if status == http.HTTPStatus.OK:
            return body
        said = printable(body[:_REASON_MAX].decode(errors="replace")).strip()
        problem = f"{url.netloc}: status {status}: {said}"
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise LoginRefused(problem)
        if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise RequestRefused(problem)
        if status == http.HTTPStatus.BAD_REQUEST:
            if _is_of_engine(body):
                raise RequestRefused(problem)
            # A proxy says it of every request: documents have nothing to do with it.
            raise self._no_engine(problem)
        if (place := answer.getheader("Location")) is not None and 300 <= status < 400:
            raise self._no_engine(f"{url.netloc}: status {status}: not followed to {printable(place[:_REASON_MAX])}")
        # The node may be the one that is overloaded or in trouble.
        self._ask_next()
        kind = Overloaded if status == http.HTTPStatus.TOO_MANY_REQUESTS else EngineAway
        raise kind(problem, _retry_after_s(answer))

    def _no_engine(self, problem: str) -> NoEngine:
        self._ask_next()
        return NoEngine(problem)

    def _ask_next(self) -> None:
        self.close()
        self._urls = [*self._urls[1:], self._urls[0]]

    def _dialled(self, url: SplitResult) -> http.client.HTTPConnection:
        host, timeout_s = url.hostname or "", self._config.timeout_s
        if url.scheme == "http":
            return http.client.HTTPConnection(host, url.port or 80, timeout=timeout_s)
        if self._context is None:
            tls = self._config.tls
            self._context = ssl.create_default_context() if tls is None else client_context(tls)
        return http.client.HTTPSConnection(host, url.port or 443, timeout=timeout_s, context=self._context)


def _login(config: EngineConfig) -> dict[str, str]:
    if config.api_key.text:
        return {"Authorization": f"ApiKey {config.api_key.text}"}
    if config.user:
        pair = base64.b64encode(f"{config.user}:{config.password.text}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return printable((getattr(error, "strerror", None) or str(error) or type(error).__name__)[:_REASON_MAX])


def _retry_after_s(answer: http.client.HTTPResponse) -> int:
    """Return the seconds of Retry-After; 0 without them. A date is left out: clocks may differ."""
    text = answer.getheader("Retry-After", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _is_of_engine(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _parts(body: bytes, connected: socket.socket, until_s: float) -> Iterator[memoryview]:
    """Yield the body bit by bit. Raises TimeoutError once the deadline is over, however slowly the other end reads."""
    view = memoryview(body)
    for start in range(0, len(body), _SENT_AT_ONCE_BYTES):
        connected.settimeout(_left_s(until_s))
        yield view[start : start + _SENT_AT_ONCE_BYTES]


def _left_s(until_s: float) -> float:
    """Return the time until then. Raises TimeoutError if there is none."""
    if (left_s := until_s - time.monotonic()) <= 0:
        raise TimeoutError
    return left_s
