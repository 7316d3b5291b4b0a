"""A small OpenID provider as a process of its own, over real HTTP on loopback: it logs everybody in as one user.

`python -m tests.support.openid_provider PORT KEYS` serves it, and writes its public keys into the file KEYS, as brokers
take them. What it does wrong is set by PUT /control with an object of JSON.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT
from tests.support.token_issuer import AUDIENCE, TokenIssuer

CLIENT: Final = "kraft-console"
CLIENT_SECRET: Final = "a secret, with : and %"
_DEADLINE_S: Final = 30.0


class ProviderState:
    """What the server knows: codes, refresh tokens, and what it was told to do."""

    def __init__(self, url: str, keys: Path) -> None:
        self.url = url
        self.issuer = TokenIssuer()
        self.issuer.write(keys)
        self.control: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: dict[str, str] = {}
        self.counts = {"token": 0, "refresh": 0}

    def told(self, name: str, default: Any) -> Any:
        return self.control.get(name, default)

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "authorization_response_iss_parameter_supported": True,
            **self.told("document", {}),
        }

    def authorized(self, asked: dict[str, str]) -> str:
        """Return where the browser is sent back to."""
        answer = {"state": asked["state"], "iss": self.url}
        if error := self.told("error", ""):
            answer |= {"error": error, "error_description": "<script>alert(1)</script>"}
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = {**asked, "user": self.told("user", "alice")}
            answer |= {"code": code}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def tokens(self, asked: dict[str, str]) -> dict[str, Any] | None:
        """Return the answer of the token endpoint; None: invalid_grant."""
        self.counts["token"] += 1
        if asked["grant_type"] == "refresh_token":
            self.counts["refresh"] += 1
            # Each serves once.
            user = self.refresh_tokens.pop(asked["refresh_token"], None)
            return None if user is None or self.told("refuses_refresh", False) else self._issued(user, "")
        begun = self.codes.pop(asked["code"], None)
        digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if begun is None or begun["code_challenge"] != challenge or begun["redirect_uri"] != asked["redirect_uri"]:
            return None
        return self._issued(begun["user"], begun["nonce"])

    def _issued(self, user: str, nonce: str) -> dict[str, Any]:
        lifetime_s = self.told("lifetime_s", 3_600)
        refresh = secrets.token_urlsafe(16)
        self.refresh_tokens[refresh] = user
        now_s = time.time()
        of_user = {"iss": self.url, "nonce": nonce, "roles": ["viewer"], **self.told("claims", {})}
        found = {
            "access_token": self.issuer.token(user, iss=self.url, aud=AUDIENCE, exp=now_s + lifetime_s),
            "token_type": "Bearer",
            "expires_in": lifetime_s,
            "id_token": self.issuer.token(user, **{"aud": CLIENT, **of_user}),
        }
        return found if self.told("has_no_refresh", False) else found | {"refresh_token": refresh}


class _Handler(BaseHTTPRequestHandler):
    provider: ProviderState

    def do_GET(self) -> None:
        parts, provider = urlsplit(self.path), self.provider
        if parts.path == "/.well-known/openid-configuration":
            self._answer(200, provider.document())
        elif parts.path == "/keys":
            self._answer(200, json.loads(provider.issuer.jwks()))
        elif parts.path == "/counts":
            self._answer(200, provider.counts)
        elif parts.path == "/authorize":
            asked = dict(parse_qsl(parts.query))
            assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT, "S256")
            self.send_response(302)
            self.send_header("Location", provider.authorized(asked))
            self.end_headers()
        else:
            self._answer(404, {})

    def do_PUT(self) -> None:
        self.provider.control = json.loads(self._body())
        self._answer(200, {})

    def do_POST(self) -> None:
        asked = dict(parse_qsl(self._body().decode()))
        pair = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if [unquote(each) for each in pair.split(":")] != [CLIENT, CLIENT_SECRET]:
            self._answer(401, {"error": "invalid_client"})
        elif redirect := self.provider.told("redirects_tokens_to", ""):
            self.send_response(307)
            self.send_header("Location", redirect)
            self.end_headers()
        else:
            found = self.provider.tokens(asked)
            self._answer(*((400, {"error": "invalid_grant"}) if found is None else (200, found)))

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class OpenIdProvider:
    """The process, as tests use it."""

    def __init__(self, port: int, keys: Path) -> None:
        self.port = port
        self.url = f"http://localhost:{port}"
        self.keys = keys

    def told(self, **control: Any) -> None:
        """Let it do this from now on, and nothing that it was told before."""
        self._asked("PUT", "/control", json.dumps(control))

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self._asked("GET", "/counts")[1])
        return found

    def visit(self, url: str) -> str:
        """Open its page as a browser does; return where that leads to."""
        assert url.startswith(self.url), url
        return self._asked("GET", url.removeprefix(self.url))[0]

    def _asked(self, method: str, path: str, body: str | None = None) -> tuple[str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_DEADLINE_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.headers.get("Location", ""), response.read().decode()
        finally:
            connection.close()


@contextmanager
def openid_provider(directory: Path) -> Iterator[OpenIdProvider]:
    with ReservedPorts(1) as (port,):
        keys = directory / "keys.json"
        command = [KRAFT[0], "-m", "tests.support.openid_provider", str(port), str(keys)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield OpenIdProvider(port, keys)
            finally:
                process.terminate()
                process.wait(_DEADLINE_S)


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def main(port: str, keys: str) -> None:
    _Handler.provider = ProviderState(f"http://localhost:{port}", Path(keys))
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
