"""Logging in at a provider: out to its page, and back with a code."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kraft.console import clients
from kraft.console.config import ClusterConfig
from kraft.console.console import Console, now_ms
from kraft.console.logins import Logins, NotLoggedIn, where_to
from kraft.console.oidc.access_tokens import AccessTokens
from kraft.console.oidc.begun import LIFE_S, Begun, NotBegunHere, begun, begun_of, challenge
from kraft.console.oidc.provider import Away, Provider, Refused, said_of
from kraft.console.sessions import Login
from kraft.model.printable import printable

log = structlog.get_logger()

T = TypeVar("T")

THREADS_MAX: Final = 8
"""Logins that wait for providers at the same time, so that a provider that hangs takes no thread from pages."""

WAIT_S_MAX: Final = 30.0
"""Longest wait for a provider and the cluster: document, tokens, keys and login, one after the other."""

_COOKIE: Final = "oidc"
_CODE_LENGTH_MAX: Final = 4_096


class OidcLogins:
    def __init__(self, console: Console, logins: Logins) -> None:
        self._console = console
        self._logins = logins
        self._key = secrets.token_bytes(32)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kraft-oidc")
        self._providers: dict[str, Provider] = {}

    async def oidc_begin(self, request: Request) -> Response:
        """Send the browser to the provider of this cluster."""
        console, key = self._console, self._key
        cluster, provider = self._asked_for(request)
        after, session = request.query_params.get("next", ""), console.session_of(request)
        origin = console.config.public_origin
        if request.headers.get("host", "").lower() != urlsplit(origin).netloc and "moved" not in request.query_params:
            # The cookie has to be of the name that the callback has.
            return RedirectResponse(f"{origin}{request.url.path}?{urlencode({'next': after, 'moved': 1})}", 303)
        browser = request.cookies.get(console.cookie(_COOKIE), "") or secrets.token_urlsafe(32)
        handle = "" if session is None else session.handle
        login = begun(cluster.name, after, handle, int(time.time()), secrets.token_urlsafe(16))
        begin = partial(
            provider.authorization_url,
            login.state(key, browser),
            login.nonce(key, browser),
            challenge(login.verifier(key, browser)),
        )
        try:
            where = await self._waited(begin)
        except Away as away:
            log.warning("provider not reached", cluster=cluster.name, reason=str(away))
            return self._logins.form(request, cluster, _is_away(provider, away), after, 504)
        response = RedirectResponse(where, 303)
        # Lax: the browser comes back from another site, and has to show it then.
        console.set_cookie(response, _COOKIE, browser, LIFE_S, same_site="lax")
        return response

    async def oidc_end(self, request: Request) -> Response:
        """Take what the provider sent the browser back with, and log in at the cluster."""
        console = self._console
        cluster, provider = self._asked_for(request)
        browser = request.cookies.get(console.cookie(_COOKIE), "")
        try:
            begun_here = begun_of(request.query_params.get("state", ""), self._key, browser, int(time.time()))
        except NotBegunHere:
            begun_here = None
        if begun_here is None or begun_here.cluster != cluster.name:
            said = "This login was not begun in this browser, or is too old: log in again."
            return self._logins.form(request, cluster, said, "", 403)
        address = console.address_of(request)
        try:
            self._logins.count(address, cluster, "")
            login = await self._waited(
                partial(self._logged_in, request, cluster, provider, begun_here, browser), _closed
            )
            self._logins.limits.succeeded(address, cluster.name, "")
            before = console.session_of(request) or console.sessions.by_handle(begun_here.handle, now_ms())
            session = await self._logins.begun(request, cluster, login, before)
        except (Refused, Away, clients.WrongLogin, clients.NoAnswer) as error:
            log.warning("user not logged in", cluster=cluster.name, address=address, reason=str(error)[:500])
            said, status = _why_not(provider, error)
            return self._logins.form(request, cluster, said, begun_here.after, status)
        except NotLoggedIn as refused:
            return self._logins.refused(request, cluster, refused, begun_here.after)
        # A page that leads on, as browsers do not show a strict cookie to what another site led to.
        values = {"where": where_to(begun_here.after, cluster)}
        response = console.html(request, "logged_in.html", values, session=session)
        console.set_cookie(response, "session", session.session_id)
        console.delete_cookie(response, _COOKIE)
        return response

    def _logged_in(
        self, request: Request, cluster: ClusterConfig, provider: Provider, begun_here: Begun, browser: str
    ) -> Login:
        """Ask provider and cluster; this blocks. Raises Refused, Away, WrongLogin and NoAnswer."""
        query = request.query_params
        provider.check_issuer(query.get("iss"))
        if "error" in query:
            raise Refused(said_of(query["error"], query.get("error_description", "")))
        code = query.get("code", "")
        if not 0 < len(code) <= _CODE_LENGTH_MAX:
            raise Refused("it sent no code")
        verifier, nonce = begun_here.verifier(self._key, browser), begun_here.nonce(self._key, browser)
        tokens, identity = provider.exchange(code, verifier, nonce)
        access = AccessTokens(provider, provider.settings.host, tokens)
        client = clients.checked(clients.open_client_with_tokens(cluster, identity.user, access))
        return Login(user=identity.user, client=client, claims=identity.claims)

    def _asked_for(self, request: Request) -> tuple[ClusterConfig, Provider]:
        cluster = self._console.cluster_of(request.path_params["cluster"])
        if cluster.oidc is None:
            raise HTTPException(404, f"users of {cluster.name} log in at no OpenID provider: see its login page")
        if cluster.name not in self._providers:
            callback = f"{self._console.config.public_origin}/login/oidc/{cluster.name}/callback"
            self._providers[cluster.name] = Provider(cluster.oidc, callback)
        return cluster, self._providers[cluster.name]

    async def _waited(self, call: Callable[[], T], give_back: Callable[[T], None] | None = None) -> T:
        """Return what the function does, which blocks. Raises Away when that takes too long.

        What it returns after that, or when nobody waits any more, is given back.
        """
        waiting = self._threads.submit(call)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(waiting), WAIT_S_MAX)
        except (TimeoutError, asyncio.CancelledError) as error:
            # A thread that runs already cannot be stopped.
            waiting.add_done_callback(partial(_gave_back, give_back))
            if isinstance(error, asyncio.CancelledError):
                raise
            raise Away(f"it did not answer within {WAIT_S_MAX:g} s") from None


def _gave_back(give_back: Callable[[T], None] | None, waiting: Future[T]) -> None:
    if give_back is not None and not waiting.cancelled() and waiting.exception() is None:
        give_back(waiting.result())


def _closed(login: Login) -> None:
    login.client.close()


def _is_away(provider: Provider, away: Away) -> str:
    return f"{provider.settings.host} cannot be asked: {away}. Try again later."


def _why_not(provider: Provider, error: Exception) -> tuple[str, int]:
    """Return why somebody is not logged in, for this person, and the status of HTTP."""
    host = provider.settings.host
    match error:
        case Refused():
            return f"{host} refuses the login: {error}.", 401
        case Away():
            return _is_away(provider, error), 504
        case clients.WrongLogin():
            said = f"{host} knows you, but the cluster refuses its token: {printable(str(error))}."
            return f"{said} An administrator may compare sasl.oauthbearer.* of the brokers with the token.", 401
        case _:
            return f"The login could not be checked: {error}", 504
