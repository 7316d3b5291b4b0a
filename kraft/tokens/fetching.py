"""Fetches what an authorization server says, by https, or from a file. It blocks, up to a deadline."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from kraft.tokens.token_keys import KEY_SET_BYTES_MAX, KeysUnavailable

FETCH_S_MAX: Final = 10.0

_SILENCE_S_MAX: Final = 5.0
_CHUNK_BYTES: Final = 16 * 1024
_ERROR_BYTES_MAX: Final = 16 * 1024


class NotFetched(Exception):
    """There is no answer that can be used; the message says why."""


class ErrorStatus(NotFetched):
    """The server answers with a status that is none of success, and with this body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the server answers {status}")
        self.status = status
        self.body = body


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        # It could lead to http, where anybody in between can name keys. The status becomes an error.
        return None


def fetch_keys(url: str) -> bytes:
    """Return what is at the URL, whose form was checked. Raises KeysUnavailable."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            with Path(unquote(parts.path)).open("rb") as file:
                return _read(file, KEY_SET_BYTES_MAX, time.monotonic() + FETCH_S_MAX)
        # The CAs are those of the system, or those that the variables SSL_CERT_FILE and SSL_CERT_DIR name.
        request = urllib.request.Request(url, headers={"Accept": "application/jwk-set+json, application/json"})
        return fetched(request, KEY_SET_BYTES_MAX)
    except NotFetched as error:
        raise KeysUnavailable(str(error)) from None
    except (OSError, ValueError) as error:
        raise KeysUnavailable(_reason(error)) from None


def fetched(request: urllib.request.Request, bytes_max: int, context: ssl.SSLContext | None = None) -> bytes:
    """Return the body of the answer to a request by http or https. No redirection is followed. Raises NotFetched.

    `context` says which CAs are trusted; by default those of the system.
    """
    until_s = time.monotonic() + FETCH_S_MAX
    try:
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=_SILENCE_S_MAX) as response:
            return _read(response, bytes_max, until_s)
    except urllib.error.HTTPError as error:
        with error:
            raise ErrorStatus(error.code, _start_of(error)) from None
    except urllib.error.URLError as error:
        raise NotFetched(str(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotFetched(_reason(error)) from None


def _start_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_ERROR_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return b""


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _read(file: BinaryIO, bytes_max: int, until_s: float) -> bytes:
    found = bytearray()
    # Responses of urllib have it, and their type does not say so: what has come is looked at before more is waited for.
    while chunk := file.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
        found += chunk
        if len(found) > bytes_max:
            raise NotFetched(f"it is longer than {bytes_max} bytes")
        if time.monotonic() > until_s:
            raise NotFetched(f"it had not arrived after {FETCH_S_MAX:g} s")
    return bytes(found)
