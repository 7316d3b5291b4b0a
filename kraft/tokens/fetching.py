"""Fetches what an authorization server says, by https, or from a file. It blocks, up to a deadline."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kraft.fetching.bounded_http import HttpFailed, HttpRequest, fetch
from kraft.model.printable import readable_size
from kraft.tokens.token_keys import KEY_SET_BYTES_MAX, KeysUnavailable

FETCH_S_MAX: Final = 10.0


class NotFetched(Exception):
    """There is no answer that can be used; the message says why."""


class ErrorStatus(NotFetched):
    """The server answers with a status that is none of success, and with this body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the server answers {status}")
        self.status = status
        self.body = body


def fetch_keys(url: str) -> bytes:
    """Return what is at the URL, whose form was checked. Raises KeysUnavailable."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return _read(Path(unquote(parts.path)))
        request = HttpRequest(url=url, headers={"Accept": "application/jwk-set+json, application/json"})
        return fetched(request, KEY_SET_BYTES_MAX)
    except NotFetched as error:
        raise KeysUnavailable(str(error)) from None
    except (OSError, ValueError) as error:
        raise KeysUnavailable(str(error) or type(error).__name__) from None


def fetched(request: HttpRequest, bytes_max: int, context: ssl.SSLContext | None = None) -> bytes:
    """Return the body of the answer to a request by http or https. Raises NotFetched.

    `context` says which CAs are trusted; by default those of the system. A redirection is not followed, as it could
    lead to http, where anybody in between can name keys: it is an error.
    """
    try:
        answer = fetch(request, context, bytes_max, FETCH_S_MAX)
    except HttpFailed as error:
        raise NotFetched(str(error)) from None
    if not 200 <= answer.status < 300:
        raise ErrorStatus(answer.status, answer.body)
    return answer.body


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        found = file.read(KEY_SET_BYTES_MAX + 1)
    if len(found) > KEY_SET_BYTES_MAX:
        raise NotFetched(f"it is longer than {readable_size(KEY_SET_BYTES_MAX)}")
    return found
