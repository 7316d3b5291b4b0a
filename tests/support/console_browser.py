"""The console as a process of its own, and somebody who uses it over HTTP, as a browser without scripts does."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from kraft.local.free_ports import ReservedPorts
from kraft.server.config.properties import serialize
from tests.support.waiting import until

_DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Browser:
    """One person; cookies are kept."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        return self._ask("POST", path, urlencode(fields), headers)

    def send(self, path: str, value: object, **headers: str) -> Answer:
        """Send JSON, as a script does."""
        return self._ask("POST", path, json.dumps(value), {"Content-Type": "application/json", **headers})

    def log_in(self, cluster: str, user: str, password: str) -> Answer:
        form = self.get(f"/login?cluster={cluster}")
        fields = {"cluster": cluster, "user": user, "password": password, "token": token_in(form.text)}
        return self.post("/login", fields)

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_DEADLINE_S)
        try:
            sent = {"Host": f"localhost:{self.port}", **headers}
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            for line in response.headers.get_all("set-cookie", []):
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[name] = morsel.value
            answered = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, answered, response.read().decode())
        finally:
            connection.close()


def token_in(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


@contextmanager
def console(directory: Path, settings: Mapping[str, str]) -> Iterator[int]:
    """Run `kraft console`; its port on loopback."""
    with ReservedPorts(1) as ports:
        port = next(iter(ports))
        file = directory / "console.properties"
        # It may have a secret.
        file.touch(0o600)
        file.write_bytes(serialize({"listeners": f"HTTP://localhost:{port}", **settings}))
        command = [sys.executable, "-m", "kraft", "console", "-c", str(file)]
        log = directory / "console.log"
        with log.open("wb") as said, subprocess.Popen(command, stderr=said) as process:
            try:
                until(lambda: b"\n" in log.read_bytes(), "the console says where it serves", _DEADLINE_S)
                assert log.read_text().startswith(f"Console at http://localhost:{port}/"), log.read_text()
                yield port
            finally:
                process.terminate()
                process.wait(_DEADLINE_S)
