"""The console as an application of ASGI: who may ask, what is asked, and in which form it is answered."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from kraft.console import clients, protection, rendering
from kraft.console.asking import Asked
from kraft.console.config import ClusterConfig, ConsoleConfig
from kraft.console.hosts import OnlyKnownHosts
from kraft.console.login_limits import LoginLimits
from kraft.console.routes import ACTIONS, PAGES, Page
from kraft.console.sessions import Login, Session, Sessions, TooManySessions

log = structlog.get_logger()

THREADS_MAX: Final = 64
"""Questions to clusters at the same time: each waits for a few seconds at most."""

SWEEP_S: Final = 15.0
"""How often sessions whose time is over are ended, and their connections closed."""

_STATIC: Final = {"console.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}

OpenClient = Callable[[ClusterConfig, str, str], clients.UserClient]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Console:
    """The state of the process: sessions, clients, and the threads that wait for clusters."""

    def __init__(self, config: ConsoleConfig, log_in: OpenClient = clients.logged_in) -> None:
        self.config = config
        self._log_in_at = log_in
        self._sessions = Sessions(
            config.session_idle_ms, config.session_lifetime_ms, partial(secrets.token_urlsafe, 32)
        )
        self._limits = LoginLimits()
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kraft-console")
        self._templates = rendering.environment()
        self._form_key = secrets.token_bytes(32)
        self._open: dict[str, Login] = {}
        """Clients of clusters that are open, which all share."""

        self._is_secure = config.tls is not None
        scheme = "https" if self._is_secure else "http"
        self._origins = frozenset(f"{scheme}://{each}" for each in config.allowed_hosts)

    # --- life ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await self._close([*self._sessions.end_all(), *self._open.values()])
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self._close(self._sessions.end_old(_now_ms()))

    async def _close(self, logins: Iterable[Login]) -> None:
        loop = asyncio.get_running_loop()
        closing = [loop.run_in_executor(self._threads, each.client.close) for each in logins]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("client of a session not closed", error=str(outcome))

    # --- who asks ------------------------------------------------------------------------------------------------

    def session_of(self, request: Request) -> Session | None:
        name = protection.cookie_name("session", self._is_secure)
        return self._sessions.find(request.cookies.get(name), _now_ms())

    def login_of(self, session: Session | None, cluster: ClusterConfig) -> Login | None:
        if cluster.needs_login:
            return None if session is None else session.logins.get(cluster.name)
        if cluster.name not in self._open:
            self._open[cluster.name] = Login(user="", client=clients.open_client(cluster, "", ""))
        return self._open[cluster.name]

    def cluster_of(self, name: str) -> ClusterConfig:
        found = self.config.clusters.get(name)
        if found is None:
            raise HTTPException(404, f"there is no cluster {name[:40]!r} here: the console's file names its clusters")
        return found

    # --- pages ---------------------------------------------------------------------------------------------------

    async def page(self, page: Page, is_api: bool, request: Request) -> Response:
        cluster, session = self.cluster_of(request.path_params["cluster"]), self.session_of(request)
        login = self.login_of(session, cluster)
        if login is None:
            if is_api:
                raise HTTPException(401, f"log in to {cluster.name} first, at /login?cluster={cluster.name}")
            where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?{urlencode({'cluster': cluster.name, 'next': where})}", 303)
        view = await page.load(self._asked(request, cluster, login))
        if is_api:
            return Response(rendering.json_of(view), view.status, media_type="application/json")
        values = {"view": view, "cluster": cluster.name, "user": login.user, "path": request.url.path}
        return self.html(request, page.template, values, view.status, session)

    def _asked(self, request: Request, cluster: ClusterConfig, login: Login) -> Asked:
        return Asked(
            cluster=cluster,
            admin=login.client.admin,
            open_admin=login.client.elsewhere,
            threads=self._threads,
            path=request.path_params,
            query=dict(request.query_params),
        )

    def html(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        status: int = 200,
        session: Session | None = None,
    ) -> Response:
        shared = {
            "clusters": list(self.config.clusters.values()),
            "csrf_token": "" if session is None else session.csrf_token,
            "cluster": "",
            "user": "",
            "logins": {} if session is None else session.logins,
        }
        return HTMLResponse(rendering.html_of(self._templates, template, {**shared, **values}), status)

    # --- actions -------------------------------------------------------------------------------------------------

    async def home(self, request: Request) -> Response:
        return self.html(request, "clusters.html", {}, session=self.session_of(request))

    async def clusters(self, request: Request) -> Response:
        session = self.session_of(request)
        found = [
            {"cluster": each.name, "needs_login": each.needs_login, "logged_in": self._has_login(session, each)}
            for each in self.config.clusters.values()
        ]
        return Response(rendering.json_of(found), media_type="application/json")

    def _has_login(self, session: Session | None, cluster: ClusterConfig) -> bool:
        return session is not None and cluster.name in session.logins

    async def static(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in _STATIC:
            raise HTTPException(404, "there is no such file")
        content = resources.files("kraft.console").joinpath("static", name).read_bytes()
        return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=300"})

    async def login_form(self, request: Request) -> Response:
        cluster = self.cluster_of(request.query_params.get("cluster", next(iter(self.config.clusters))))
        if not cluster.needs_login:
            return RedirectResponse(f"/clusters/{cluster.name}", 303)
        return self._form(request, cluster, "", request.query_params.get("next", ""))

    def _form(self, request: Request, cluster: ClusterConfig, problem: str, after: str, status: int = 200) -> Response:
        nonce = secrets.token_urlsafe(32)
        values = {
            "for_cluster": cluster.name,
            "problem": problem,
            "next": protection.safe_next(after),
            "form_token": protection.form_token(self._form_key, nonce),
        }
        response = self.html(request, "login.html", values, status, self.session_of(request))
        self._set_cookie(response, "form", nonce)
        return response

    async def log_in(self, request: Request) -> Response:
        form = await self._form_of(request)
        nonce = request.cookies.get(protection.cookie_name("form", self._is_secure), "")
        expected = protection.form_token(self._form_key, nonce)
        cluster = self.cluster_of(form.get("cluster", ""))
        user, after = form.get("user", "").strip(), form.get("next", "")
        if not nonce or not protection.is_same(form.get("token", ""), expected):
            return self._form(request, cluster, "This form is too old: please log in again.", after, 403)
        if not cluster.needs_login or not user or len(user) > 255:
            return self._form(request, cluster, "Give the name of a user.", after, 400)
        address = "?" if request.client is None else request.client.host
        if wait_ms := self._limits.wait_ms(address, cluster.name, user, _now_ms()):
            wait_s = -(-wait_ms // 1_000)
            response = self._form(request, cluster, f"Too many logins failed: wait for {wait_s} s.", after, 429)
            response.headers["Retry-After"] = str(wait_s)
            return response
        try:
            client = await self._in_thread(partial(self._log_in_at, cluster, user, form.get("password", "")))
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
        await self._close(self._sessions.end_old(_now_ms()))
        try:
            session, replaced = self._sessions.log_in(self.session_of(request), cluster.name, login, _now_ms())
        except TooManySessions:
            await self._close([login])
            return self._form(request, cluster, "Too many people are logged in: try again later.", after, 503)
        await self._close([] if replaced is None else [replaced])
        log.info("user logged in", cluster=cluster.name, user=login.user)
        where = protection.safe_next(after)
        response = RedirectResponse(where if where != "/" else f"/clusters/{cluster.name}", 303)
        self._set_cookie(response, "session", session.session_id)
        return response

    async def log_out(self, request: Request) -> Response:
        session = self.session_of(request)
        if session is None:
            return RedirectResponse("/", 303)
        form = await self._form_of(request)
        if not protection.is_same(form.get("token", ""), session.csrf_token):
            raise HTTPException(403, "this form is not of your session: go back, load the page again, and repeat")
        await self._close(self._sessions.log_out(session))
        response = RedirectResponse("/", 303)
        response.delete_cookie(protection.cookie_name("session", self._is_secure), path="/", secure=self._is_secure)
        return response

    async def _form_of(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that one of our pages sent. Raises HTTPException."""
        headers = request.headers
        if not protection.is_same_origin(headers.get("origin"), headers.get("sec-fetch-site"), self._origins):
            raise HTTPException(403, "this form was not sent from a page of the console")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > protection.FORM_BYTES_MAX:
                raise HTTPException(413, "the form is too large")
        try:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
        except ValueError:
            raise HTTPException(400, "the form cannot be read") from None

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _set_cookie(self, response: Response, purpose: str, value: str) -> None:
        name = protection.cookie_name(purpose, self._is_secure)
        response.set_cookie(name, value, path="/", secure=self._is_secure, httponly=True, samesite="strict")

    # --- errors --------------------------------------------------------------------------------------------------

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._problem(request, error.status_code, str(error.detail), error.headers or {})

    async def failed(self, request: Request, error: Exception) -> Response:
        log.error("internal error", path=request.url.path, exc_info=error)
        return self._problem(request, 500, "internal error: the console's log has the details", {})

    def _problem(self, request: Request, status: int, text: str, headers: Mapping[str, str]) -> Response:
        response: Response
        if request.url.path.startswith("/api/"):
            response = Response(rendering.json_of({"error": text}), status, media_type="application/json")
        else:
            response = self.html(request, "problem.html", {"problem": text}, status, self.session_of(request))
        response.headers.update(headers)
        return response


def application(console: Console) -> Any:
    """Return the application of ASGI: the table of routes, behind the check of hosts."""
    routes = [
        Route(prefix + page.path, _endpoint(console, page, bool(prefix)), methods=["GET"])
        for page in PAGES
        for prefix in ("", "/api")
    ]
    routes += [Route(each.path, getattr(console, each.name), methods=[each.method]) for each in ACTIONS]
    app = Starlette(
        routes=routes,
        lifespan=console.lifespan,
        exception_handlers={HTTPException: console.refused, Exception: console.failed},
    )
    return OnlyKnownHosts(app, console.config)


def _endpoint(console: Console, page: Page, is_api: bool) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await console.page(page, is_api, request)

    return answer
