"""The sessions of whoever asks: from where and since when, and their end, for somebody whose session was stolen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kraft.console.console import Console, now_ms
from kraft.console.sessions import Session
from kraft.model.printable import counted

log = structlog.get_logger()


class SessionRow(Struct, frozen=True, kw_only=True):
    handle: str
    """What ends it; it opens nothing."""

    is_this: bool
    logins: list[str]
    """USER at CLUSTER, for those that are also of whoever asks."""

    begun: str
    """UTC."""

    idle_s: int
    address: str
    agent: str
    """What the browser calls itself."""


class OwnSessions:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def own_sessions(self, request: Request) -> Response:
        session = self._session_of(request)
        if session is None:
            return RedirectResponse("/", 303)
        return self._console.html(request, "sessions.html", {"rows": self._rows(session)}, session=session)

    async def end_session(self, request: Request) -> Response:
        """End another session, or all others, as far as they are of the same users."""
        console, session = self._console, self._session_of(request)
        if session is None:
            return RedirectResponse("/", 303)
        form = await console.form_of(request)
        console.check_token(request, form.text("token"), session)
        handle = form.text("handle")
        others = [each for each in self._of_same_users(session) if each is not session and handle in ("", each.handle)]
        for other in others:
            for cluster in console.sessions.shared_logins(session, other):
                log.info("session ended by its user", cluster=cluster, user=session.logins[cluster].user)
                await console.end_login(other, cluster)
        response = RedirectResponse("/sessions", 303)
        ended = f"Ended {counted(len(others), 'session')}." if others else "That session had ended already."
        console.say(response, ended)
        return response

    def _session_of(self, request: Request) -> Session | None:
        return self._console.session_of(request)

    def _of_same_users(self, session: Session) -> Sequence[Session]:
        return self._console.sessions.of_same_users(session, now_ms())

    def _rows(self, session: Session) -> list[SessionRow]:
        now = now_ms()
        return [
            SessionRow(
                handle=each.handle,
                is_this=each is session,
                logins=[
                    f"{session.logins[cluster].user} at {cluster}"
                    for cluster in self._console.sessions.shared_logins(session, each)
                ],
                begun=datetime.fromtimestamp(each.seen.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                idle_s=(now - each.used_ms) // 1_000,
                address=each.seen.address,
                agent=each.seen.agent,
            )
            for each in sorted(self._of_same_users(session), key=lambda each: (each is not session, -each.used_ms))
        ]
