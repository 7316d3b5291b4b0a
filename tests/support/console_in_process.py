"""The console's application without a socket and without a cluster: what it refuses, it refuses before it asks one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote

from starlette.types import Message, Receive, Scope, Send

from kraft.client import Admin, ErrorCode, Refusal
from kraft.console.app import application
from kraft.console.clients import UserClient, WrongLogin
from kraft.console.config import ClusterConfig, console_config
from kraft.console.console import Console
from kraft.model.password import Password
from tests.support.console_browser import Answer, Browser

PASSWORD: Final = "secret"

_ANSWER_S_MAX: Final = 10.0

FILE: Final = {
    "clusters": "prod,test",
    **{
        f"cluster.{name}.{key}": value
        for name in ("prod", "test")
        for key, value in {
            "bootstrap.servers": "b:9094",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
        }.items()
    },
}


class NoAdmin:
    """Lets nobody do anything."""

    def __init__(self) -> None:
        self.closed = False
        self.refusal = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")

    def close(self) -> None:
        self.closed = True

    def __getattr__(self, name: str) -> Any:
        def refused(*_: object, **__: object) -> NoReturn:
            raise self.refusal

        return refused


@dataclass
class InProcess:
    runner: asyncio.Runner
    console: Console
    app: Any
    opened: list[UserClient] = field(default_factory=list)

    def browser(self) -> LocalBrowser:
        return LocalBrowser(self.console.config.port, world=self)

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@dataclass(slots=True)
class LocalBrowser(Browser):
    """A browser whose requests are calls; `set` has the lines by which the last answer set cookies."""

    world: InProcess = field(kw_only=True)
    set: list[str] = field(default_factory=list)

    def scope(self, method: str, path: str, headers: Mapping[str, str]) -> Scope:
        where, _, query = path.partition("?")
        sent = {"Host": f"localhost:{self.port}", **headers}
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": unquote(where),
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", self.port),
        }

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        return self.world.runner.run(self._asked(self.scope(method, path, headers), (body or "").encode()))

    async def _asked(self, scope: Scope, body: bytes) -> Answer:
        sent: list[Message] = []

        requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not requests:
                # The browser stays until it is answered.
                await asyncio.sleep(_ANSWER_S_MAX)
                return {"type": "http.disconnect"}
            return requests.pop()

        async def send(message: Message) -> None:
            sent.append(message)

        await self.world.ask(scope, receive, send)
        begin = sent[0]
        lines = [(name.decode(), value.decode()) for name, value in begin["headers"]]
        self.set = [value for name, value in lines if name == "set-cookie"]
        for line in self.set:
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        text = b"".join(each.get("body", b"") for each in sent[1:])
        return Answer(begin["status"], dict(lines), text.decode())


@contextmanager
def in_process(**settings: str) -> Iterator[InProcess]:
    """Run the application of a file with two clusters, where each user has the same password."""

    def log_in(cluster: ClusterConfig, user: str, password: str) -> UserClient:
        if password != PASSWORD:
            raise WrongLogin("no")
        admin = cast(Admin, NoAdmin())
        found.opened.append(UserClient(cluster=cluster, user=user, password=Password(password), admin=admin))
        return found.opened[-1]

    console = Console(console_config({**FILE, **settings}), log_in)
    with asyncio.Runner() as runner:
        found = InProcess(runner, console, application(console))
        yield found
