"""The console itself: sessions, clients and threads, and what every answer needs of them."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

from kraft.console import clients, protection, rendering
from kraft.console.asking import Asked
from kraft.console.config import ClusterConfig, ConsoleConfig
from kraft.console.connections import OutOfFiles
from kraft.console.forms import FIELDS_MAX, Form, WrongInput, form_of, form_of_body, form_of_json
from kraft.console.routes import NAVIGATION
from kraft.console.sessions import Login, Session, Sessions
from kraft.console.state import State
from kraft.console.streams import OpenStreams

log = structlog.get_logger()

THREADS_MAX: Final = 64
"""Questions to clusters at the same time: each waits for a few seconds at most."""

SWEEP_S: Final = 15.0
"""How often sessions whose time is over are ended, and their connections closed."""

BODY_S_MAX: Final = 30.0
"""Longest wait for the body of a request."""

SAID_S: Final = 60
"""How long what was done waits for the next page that says it."""

_SAID_BYTES_MAX: Final = 2_000
"""Browsers drop cookies of more than 4 KiB."""

OpenClient = Callable[[ClusterConfig, str, str], clients.UserClient]


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Console:
    """The state of the process: sessions, clients, and the threads that wait for clusters."""

    def __init__(self, config: ConsoleConfig, log_in: OpenClient = clients.logged_in) -> None:
        self.config = config
        self.log_in_at = log_in
        self.sessions = Sessions(config.session_idle_ms, config.session_lifetime_ms, partial(secrets.token_urlsafe, 32))
        self.streams = OpenStreams()
        self.state = State()
        self.is_secure = config.is_secure
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kraft-console")
        self._templates = rendering.environment()
        self._key = secrets.token_bytes(32)
        self._open: dict[str, Login] = {}
        """Clients of clusters that are open, which all share."""

        self._origins = config.origins

    # --- life ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(OutOfFiles())
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            self.state.close()
            await self.close([*self.sessions.end_all(), *self._open.values()])
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.close(self.sessions.end_old(now_ms()))
            tokens = [each.client.tokens for each in self.sessions.all_logins()]
            await asyncio.gather(*(self.in_thread(each.keep) for each in tokens if each is not None))

    async def close(self, logins: Iterable[Login]) -> None:
        closing = [self.in_thread(each.client.close) for each in logins]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("client of a session not closed", error=str(outcome))

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # --- who asks ------------------------------------------------------------------------------------------------

    def session_of(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(self.cookie("session")), now_ms())

    def login_of(self, session: Session | None, cluster: ClusterConfig) -> Login | None:
        if cluster.needs_login:
            return None if session is None else session.logins.get(cluster.name)
        if cluster.name not in self._open:
            self._open[cluster.name] = Login(user="", client=clients.open_client(cluster, "", ""))
        return self._open[cluster.name]

    def address_of(self, request: Request) -> str:
        """Return the address of who asks, as limits and the log have it."""
        peer = "?" if request.client is None else request.client.host
        return protection.client_address(peer, request.headers.getlist("x-forwarded-for"), self.config.trusted_proxies)

    async def end_login(self, session: Session, cluster: str) -> None:
        login = self.sessions.end_login(session, cluster)
        await self.close([] if login is None else [login])

    def cluster_of(self, name: str) -> ClusterConfig:
        found = self.config.clusters.get(name)
        if found is None:
            raise HTTPException(404, f"there is no cluster {name[:40]!r} here: the console's file names its clusters")
        return found

    def asked(self, request: Request, cluster: ClusterConfig, login: Login, form: Form | None = None) -> Asked:
        try:
            query = parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
        except ValueError:
            raise HTTPException(400, f"the address has more than {FIELDS_MAX} fields") from None
        return Asked(
            cluster=cluster,
            user=login.user,
            claims=login.claims,
            client=login.client,
            threads=self._threads,
            state=self.state,
            path=request.path_params,
            query=dict(reversed(query)),
            form=form_of(query) if form is None else form,
        )

    # --- forms ---------------------------------------------------------------------------------------------------

    def token_for(self, request: Request, session: Session | None) -> str:
        """Return the token of forms: of the session, or of this browser, which has none."""
        if session is not None:
            return session.csrf_token
        return protection.signature(self._key, "form", self._nonce_of(request))

    def _nonce_of(self, request: Request) -> str:
        """Return what is in the cookie of forms of a browser without a session, also if it is new."""
        if not hasattr(request.state, "nonce"):
            request.state.nonce = request.cookies.get(self.cookie("form"), "") or secrets.token_urlsafe(32)
        nonce: str = request.state.nonce
        return nonce

    def check_token(self, request: Request, given: str, session: Session | None) -> None:
        """Raise HTTPException if a form does not carry the token of this session, or this browser."""
        has_cookie = session is not None or bool(request.cookies.get(self.cookie("form")))
        if not has_cookie or not protection.is_same(given, self.token_for(request, session)):
            raise HTTPException(403, "this form is not of your session: go back, load the page again, and repeat")

    async def form_of(self, request: Request, bytes_max: int = protection.FORM_BYTES_MAX) -> Form:
        """Return the fields of a form that one of our pages sent. Raises HTTPException."""
        return self._read(form_of_body, await self._body_of(request, bytes_max))

    async def json_of(self, request: Request, bytes_max: int = protection.FORM_BYTES_MAX) -> Form:
        """Return the members of an object of JSON. Raises HTTPException.

        Browsers send this type from other origins only after a question that the console does not answer.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send JSON, with Content-Type: application/json")
        return self._read(form_of_json, await self._body_of(request, bytes_max))

    @staticmethod
    def _read(read: Callable[[bytes], Form], body: bytes) -> Form:
        try:
            return read(body)
        except WrongInput as error:
            raise HTTPException(400, str(error)) from None

    async def _body_of(self, request: Request, bytes_max: int) -> bytes:
        headers = request.headers
        if not protection.is_same_origin(headers.get("origin"), headers.get("sec-fetch-site"), self._origins):
            raise HTTPException(403, "this form was not sent from a page of the console")
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S_MAX):
                async for part in request.stream():
                    body += part
                    if len(body) > bytes_max:
                        raise HTTPException(413, f"the form is larger than {bytes_max} bytes")
        except TimeoutError:
            raise HTTPException(408, f"the form had not arrived after {BODY_S_MAX:g} s") from None
        except ClientDisconnect:
            # Nobody reads this; but it is no error of the console either.
            raise HTTPException(400, "the connection ended before the form had arrived") from None
        return bytes(body)

    # --- answers -------------------------------------------------------------------------------------------------

    def html(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        status: int = 200,
        session: Session | None = None,
    ) -> Response:
        shared = {
            "navigation": NAVIGATION,
            "clusters": list(self.config.clusters.values()),
            "csrf_token": self.token_for(request, session),
            "cluster": "",
            "user": "",
            "path": request.url.path,
            "logins": {} if session is None else session.logins,
            "is_logged_in": session is not None,
            "form": Form(),
            "problem": "",
            "said": self._said(request),
        }
        response = HTMLResponse(rendering.html_of(self._templates, template, {**shared, **values}), status)
        if session is None:
            self.set_cookie(response, "form", self._nonce_of(request))
        if shared["said"]:
            self.delete_cookie(response, "said")
        return response

    def json(self, value: object, status: int = 200) -> Response:
        return Response(rendering.json_of(value), status, media_type="application/json")

    def say(self, response: Response, text: str) -> None:
        """Let the next page of this browser show the sentence."""
        cut = text.encode()[:_SAID_BYTES_MAX].decode(errors="ignore")
        said = base64.urlsafe_b64encode(cut.encode()).decode()
        self.set_cookie(response, "said", f"{said}.{protection.signature(self._key, 'said', said)}", SAID_S)

    def _said(self, request: Request) -> str:
        said, _, token = request.cookies.get(self.cookie("said"), "").partition(".")
        if not said or not protection.is_same(token, protection.signature(self._key, "said", said)):
            return ""
        return base64.urlsafe_b64decode(said).decode()

    def cookie(self, purpose: str) -> str:
        return protection.cookie_name(purpose, self.is_secure)

    def set_cookie(
        self,
        response: Response,
        purpose: str,
        value: str,
        max_age_s: int | None = None,
        same_site: Literal["strict", "lax"] = "strict",
    ) -> None:
        response.set_cookie(
            self.cookie(purpose), value, max_age_s, path="/", secure=self.is_secure, httponly=True, samesite=same_site
        )

    def delete_cookie(self, response: Response, purpose: str) -> None:
        response.delete_cookie(self.cookie(purpose), "/", secure=self.is_secure, httponly=True, samesite="strict")

    # --- errors --------------------------------------------------------------------------------------------------

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._problem(request, error.status_code, str(error.detail), error.headers or {})

    async def failed(self, request: Request, error: Exception) -> Response:
        log.error("internal error", path=request.url.path, exc_info=error)
        return self._problem(request, 500, "internal error: the console's log has the details", {})

    def _problem(self, request: Request, status: int, text: str, headers: Mapping[str, str]) -> Response:
        if request.url.path.startswith("/api/"):
            response = self.json({"error": text}, status)
        else:
            response = self.html(request, "problem.html", {"problem": text}, status, self.session_of(request))
        response.headers.update(headers)
        return response
