"""One connection to a search engine, which is kept open, and its `_bulk` API (Elasticsearch, OpenSearch and alike).

By Python's own HTTP client: a kept connection, one request at a time, TLS and gzip are all that is needed of it, so the
package has no further dependency. Redirects and proxies are not followed.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from kraft.model.printable import printable
from kraft.sink.config import Compression, EngineConfig
from kraft.sink.documents import Document, Item
from kraft.tls.contexts import client_context

ANSWER_BYTES_MAX: Final = 64 << 20
_WANTED: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason"
_REASON_MAX: Final = 300
_GZIP_LEVEL: Final = 1


class EngineAway(Exception):
    """No answer, or one that says: later. One sentence."""


class RequestRefused(Exception):
    """The engine refuses the whole request (400, or 413: it is too large). One sentence."""


class LoginRefused(EngineAway):
    """The engine does not take the login (401, 403)."""


class _Answer(Struct, frozen=True):
    errors: bool
    items: list[dict[str, Item]] = []


class Engine:
    """Asks one node after the other, if one does not answer. For one thread. A new one has opened nothing."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._context: ssl.SSLContext | None = None
        self._urls = [urlsplit(each) for each in config.urls]
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"Accept": "application/json", "User-Agent": "kraft-sink", **_login(config)}
        self._decode = msgspec.json.Decoder(_Answer).decode

    def check(self) -> None:
        """Ask who is there. Raises EngineAway, and LoginRefused."""
        self._asked("GET", "/", None, {})

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
            raise EngineAway(f"its answer is not that of the _bulk API: {error}") from None
        items = [item for each in answer.items for item in each.values()]
        if len(items) != len(documents):
            raise EngineAway(f"its answer has {len(items)} items for {len(documents)} documents")
        return items, len(body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _asked(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        url = self._urls[0]
        try:
            if self._connection is None:
                self._connection = self._dialled(url)
            self._connection.request(method, f"{url.path}{path}", body, {**self._headers, **headers})
            answer = self._connection.getresponse()
            read = answer.read(ANSWER_BYTES_MAX + 1)
            if len(read) > ANSWER_BYTES_MAX:
                raise EngineAway("its answer is longer than 64 MiB")
        except (OSError, http.client.HTTPException) as error:
            self._ask_next()
            raise EngineAway(f"{url.netloc}: {_reason(error)}") from None
        except EngineAway:
            self._ask_next()
            raise
        if answer.will_close:
            self.close()
        return self._checked(answer.status, read, url)

    def _checked(self, status: int, body: bytes, url: SplitResult) -> bytes:
        if status == http.HTTPStatus.OK:
            return body
        said = printable(body[:_REASON_MAX].decode(errors="replace")).strip()
        problem = f"{url.netloc}: status {status}: {said}"
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise LoginRefused(problem)
        if status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            raise RequestRefused(problem)
        # The node may be the one that is overloaded or in trouble.
        self._ask_next()
        raise EngineAway(problem)

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
