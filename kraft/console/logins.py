"""Logging in, at the cluster itself, and out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kraft.console import clients, protection
from kraft.console.config import ClusterConfig
from kraft.console.console import Console, now_ms
from kraft.console.login_limits import LoginLimits
from kraft.console.openapi import LoggedIn
from kraft.console.sessions import Login, Seen, Session, TooManySessions
from kraft.model.printable import printable

log = structlog.get_logger()

_AGENT_LENGTH_MAX: Final = 200


class NotLoggedIn(Exception):
    """Why there is no login, in a sentence, and the status of HTTP for it."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


class Logins:
    def __init__(self, console: Console) -> None:
        self._console = console
        self.limits = LoginLimits()

    async def login_form(self, request: Request) -> Response:
        console = self._console
        cluster = console.cluster_of(request.query_params.get("cluster", next(iter(console.config.clusters))))
        if not cluster.needs_login:
            return RedirectResponse(f"/clusters/{cluster.name}", 303)
        return self.form(request, cluster, "", request.query_params.get("next", ""))

    def form(self, request: Request, cluster: ClusterConfig, problem: str, after: str, status: int = 200) -> Response:
        """Return the page that asks for a login, with what is wrong with the last one."""
        values = {
            "for_cluster": cluster.name,
            "problem": problem,
            "next": protection.safe_next(after),
            "provider": "" if cluster.oidc is None else cluster.oidc.host,
        }
        return self._console.html(request, "login.html", values, status, self._console.session_of(request))

    async def log_in(self, request: Request) -> Response:
        console = self._console
        form = await console.form_of(request)
        cluster = console.cluster_of(form.text("cluster"))
        user, after = form.text("user"), form.text("next")
        try:
            console.check_token(request, form.text("token"), console.session_of(request))
        except HTTPException:
            return self.form(request, cluster, "This form is too old: please log in again.", after, 403)
        try:
            login = await self._checked(request, cluster, user, form.raw("password"))
            session = await self.begun(request, cluster, login, console.session_of(request))
        except NotLoggedIn as error:
            return self.refused(request, cluster, error, after)
        response = RedirectResponse(where_to(after, cluster), 303)
        console.set_cookie(response, "session", session.session_id)
        return response

    def refused(self, request: Request, cluster: ClusterConfig, error: NotLoggedIn, after: str) -> Response:
        response = self.form(request, cluster, str(error), after, error.status)
        response.headers.update(error.headers)
        return response

    async def log_in_by_api(self, request: Request) -> Response:
        """Log a script in: it gets the cookie of a session, and the token that its changes carry."""
        console = self._console
        fields = await console.json_of(request)
        cluster = console.cluster_of(fields.text("cluster"))
        try:
            login = await self._checked(request, cluster, fields.text("user"), fields.raw("password"))
            session = await self.begun(request, cluster, login, console.session_of(request))
        except NotLoggedIn as error:
            raise HTTPException(error.status, str(error), error.headers) from None
        response = console.json(LoggedIn(cluster=cluster.name, user=login.user, token=session.csrf_token))
        console.set_cookie(response, "session", session.session_id)
        return response

    async def _checked(self, request: Request, cluster: ClusterConfig, user: str, password: str) -> Login:
        """Log in at the cluster. Raises NotLoggedIn."""
        if cluster.oidc is not None:
            raise NotLoggedIn(400, f"Users of this cluster log in at {cluster.oidc.host}, in a browser.")
        if not cluster.needs_login or not user or len(user) > 255:
            raise NotLoggedIn(400, "Give the name of a user.")
        if not password:
            raise NotLoggedIn(400, "Give the password.")
        address = self._console.address_of(request)
        self.count(address, cluster, user)
        try:
            client = await self._console.in_thread(partial(self._console.log_in_at, cluster, user, password))
        except clients.WrongLogin:
            log.warning("user not logged in", cluster=cluster.name, user=user[:100], address=address, reason="refused")
            raise NotLoggedIn(401, "The cluster refuses this user or this password.") from None
        except clients.NoAnswer as error:
            self.limits.unanswered(address, cluster.name, user)
            log.warning("user not logged in", cluster=cluster.name, user=user[:100], address=address, reason=str(error))
            raise NotLoggedIn(504, f"The login could not be checked: {error}") from None
        self.limits.succeeded(address, cluster.name, user)
        return Login(user=user, client=client)

    async def begun(self, request: Request, cluster: ClusterConfig, login: Login, before: Session | None) -> Session:
        """Return the session that has this login from now on. Raises NotLoggedIn."""
        console = self._console
        await console.close(console.sessions.end_old(now_ms()))
        try:
            session, ended = console.sessions.log_in(before, cluster.name, login, now_ms(), self._seen(request))
        except TooManySessions:
            await console.close([login])
            raise NotLoggedIn(503, "Too many people are logged in: try again later.") from None
        await console.close(ended)
        log.info("user logged in", cluster=cluster.name, user=login.user)
        return session

    def count(self, address: str, cluster: ClusterConfig, user: str) -> None:
        """Note an attempt. Raises NotLoggedIn if there were too many."""
        if wait_ms := self.limits.wait_ms(address, cluster.name, user, now_ms()):
            wait_s = str(-(-wait_ms // 1_000))
            raise NotLoggedIn(429, f"Too many logins failed: wait for {wait_s} s.", {"Retry-After": wait_s})

    def _seen(self, request: Request) -> Seen:
        agent = printable(request.headers.get("user-agent", "")[:_AGENT_LENGTH_MAX])
        return Seen(address=self._console.address_of(request), agent=agent, at_s=int(time.time()))

    async def log_out(self, request: Request) -> Response:
        console = self._console
        session = console.session_of(request)
        if session is None:
            return RedirectResponse("/", 303)
        form = await console.form_of(request)
        console.check_token(request, form.text("token"), session)
        await console.close(console.sessions.log_out(session))
        response = RedirectResponse("/", 303)
        console.delete_cookie(response, "session")
        # What was done is for whoever did it, and not for the next one at this browser.
        console.delete_cookie(response, "said")
        return response


def where_to(after: str, cluster: ClusterConfig) -> str:
    """Return the page that a login leads to."""
    where = protection.safe_next(after)
    return where if where != "/" else f"/clusters/{cluster.name}"
