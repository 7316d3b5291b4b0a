"""Around the application: what comes from elsewhere is refused, and every response has the headers that protect it."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kraft.console import protection
from kraft.console.config import ConsoleConfig

_WRONG_HOST: Final = "The console does not serve this host name: its file may allow it, with allowed.hosts.\n"


_OTHER_SITE: Final = "A page of another site may lead to the console, and ask it for nothing else.\n"

_TWO_LENGTHS: Final = "A request has either Content-Length or Transfer-Encoding.\n"


class OnlyKnownHosts:
    def __init__(self, app: ASGIApp, config: ConsoleConfig) -> None:
        self._app = app
        self._allowed = config.allowed_hosts
        self._headers = {**protection.HEADERS, **(protection.OVER_TLS if config.is_secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may go by the one and we by the other: what follows could be somebody else's request (RFC 9112).
            refused = PlainTextResponse(_TWO_LENGTHS, 400, {"Connection": "close"})
            await refused(scope, receive, send_protected)
        elif not protection.is_known_host(headers.get("host"), self._allowed):
            await PlainTextResponse(_WRONG_HOST, 421)(scope, receive, send_protected)
        elif not protection.is_shown_as_page(*(headers.get(f"sec-fetch-{each}") for each in ("site", "mode", "dest"))):
            await PlainTextResponse(_OTHER_SITE, 403)(scope, receive, send_protected)
        else:
            await self._app(scope, receive, send_protected)
