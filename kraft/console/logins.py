"""Logging in, at the cluster itself, and out."""

from __future__ import annotations

from functools import partial

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kraft.console import clients, protection
from kraft.console.config import ClusterConfig
from kraft.console.console import Console, now_ms
from kraft.console.login_limits import LoginLimits
from kraft.console.sessions import Login, TooManySessions

log = structlog.get_logger()


class Logins:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._limits = LoginLimits()

    async def login_form(self, request: Request) -> Response:
        console = self._console
        cluster = console.cluster_of(request.query_params.get("cluster", next(iter(console.config.clusters))))
        if not cluster.needs_login:
            return RedirectResponse(f"/clusters/{cluster.name}", 303)
        return self._form(request, cluster, "", request.query_params.get("next", ""))

    def _form(self, request: Request, cluster: ClusterConfig, problem: str, after: str, status: int = 200) -> Response:
        values = {"for_cluster": cluster.name, "problem": problem, "next": protection.safe_next(after)}
        return self._console.html(request, "login.html", values, status, self._console.session_of(request))

    async def log_in(self, request: Request) -> Response:
        console = self._console
        form = await console.form_of(request)
        cluster = console.cluster_of(form.text("cluster"))
        user, after = form.text("user"), form.text("next")
        try:
            console.check_token(request, form.text("token"), console.session_of(request))
        except HTTPException:
            return self._form(request, cluster, "This form is too old: please log in again.", after, 403)
        if not cluster.needs_login or not user or len(user) > 255:
            return self._form(request, cluster, "Give the name of a user.", after, 400)
        address = "?" if request.client is None else request.client.host
        if wait_ms := self._limits.wait_ms(address, cluster.name, user, now_ms()):
            wait_s = -(-wait_ms // 1_000)
            response = self._form(request, cluster, f"Too many logins failed: wait for {wait_s} s.", after, 429)
            response.headers["Retry-After"] = str(wait_s)
            return response
        try:
            client = await console.in_thread(partial(console.log_in_at, cluster, user, form.raw("password")))
        except clients.WrongLogin:
            log.warning("user not logged in", cluster=cluster.name, user=user[:100], address=address, reason="refused")
            return self._form(request, cluster, "The cluster refuses this user or this password.", after, 401)
        except clients.NoAnswer as error:
            self._limits.succeeded(address, cluster.name, user)
            log.warning("user not logged in", cluster=cluster.name, user=user[:100], address=address, reason=str(error))
            return self._form(request, cluster, f"The login could not be checked: {error}", after, 504)
        self._limits.succeeded(address, cluster.name, user)
        return await self._begin(request, cluster, Login(user=user, client=client), after)

    async def _begin(self, request: Request, cluster: ClusterConfig, login: Login, after: str) -> Response:
        console = self._console
        await console.close(console.sessions.end_old(now_ms()))
        try:
            session, replaced = console.sessions.log_in(console.session_of(request), cluster.name, login, now_ms())
        except TooManySessions:
            await console.close([login])
            return self._form(request, cluster, "Too many people are logged in: try again later.", after, 503)
        await console.close([] if replaced is None else [replaced])
        log.info("user logged in", cluster=cluster.name, user=login.user)
        where = protection.safe_next(after)
        response = RedirectResponse(where if where != "/" else f"/clusters/{cluster.name}", 303)
        console.set_cookie(response, "session", session.session_id)
        return response

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
        return response
