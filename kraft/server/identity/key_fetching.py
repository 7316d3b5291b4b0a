"""Fetches the keys of an authorization server from a file, or by https. It blocks, up to a deadline."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from kraft.server.identity.token_keys import KEY_SET_BYTES_MAX, KeysUnavailable

FETCH_S_MAX: Final = 10.0

_SILENCE_S_MAX: Final = 5.0
_CHUNK_BYTES: Final = 16 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        # It could lead to http, where anybody in between can name keys. The status becomes an error.
        return None


def fetch_keys(url: str) -> bytes:
    """Return what is at the URL, whose form was checked. Raises KeysUnavailable."""
    until_s = time.monotonic() + FETCH_S_MAX
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            with Path(unquote(parts.path)).open("rb") as file:
                return _read(file, until_s)
        # The CAs are those of the system, or those that the variables SSL_CERT_FILE and SSL_CERT_DIR name.
        opener = urllib.request.build_opener(_NoRedirect)
        request = urllib.request.Request(url, headers={"Accept": "application/jwk-set+json, application/json"})
        with opener.open(request, timeout=_SILENCE_S_MAX) as response:
            return _read(response, until_s)
    except urllib.error.HTTPError as error:
        error.close()
        raise KeysUnavailable(f"the server answers {error.code}") from None
    except urllib.error.URLError as error:
        raise KeysUnavailable(str(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise KeysUnavailable(str(error) or type(error).__name__) from None


def _read(file: BinaryIO, until_s: float) -> bytes:
    found = bytearray()
    while chunk := file.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
        found += chunk
        if len(found) > KEY_SET_BYTES_MAX:
            raise KeysUnavailable(f"it is longer than {KEY_SET_BYTES_MAX} bytes")
        if time.monotonic() > until_s:
            raise KeysUnavailable(f"it had not arrived after {FETCH_S_MAX:g} s")
    return bytes(found)
