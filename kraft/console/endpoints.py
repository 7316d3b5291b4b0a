"""How pages, changes and streams of a cluster are answered: to browsers, and below /api as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from kraft.console.asking import LoginOver, Panel, problem_of
from kraft.console.config import ClusterConfig
from kraft.console.console import Console, now_ms
from kraft.console.forms import Changed, Form, NoAnswerInTime, WrongInput
from kraft.console.route_kinds import Change, Page, Stream
from kraft.console.routes import PAGES
from kraft.console.sessions import Login, Session
from kraft.console.streams import TooManyStreams, written
from kraft.model.errors import KraftError
from kraft.model.printable import printable

log = structlog.get_logger()


class Endpoints:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._pages = {each.path: each for each in PAGES}

    # --- pages ---------------------------------------------------------------------------------------------------

    async def page(self, page: Page, is_api: bool, request: Request) -> Response:
        found = await self._who(request, is_api)
        if isinstance(found, Response):
            return found
        cluster, session, login = found
        if is_api:
            view = await page.load(self._console.asked(request, cluster, login))
            response = self._console.json(view, view.status)
        else:
            response = await self._shown(page, request, cluster, session, login)
        # The client may have noticed it meanwhile: then this is said, and not what each panel lacks.
        return await self._to_login(request, cluster, session, login, is_api) if login.client.ended else response

    async def _shown(
        self,
        page: Page,
        request: Request,
        cluster: ClusterConfig,
        session: Session | None,
        login: Login,
        typed: Form | None = None,
        problem: Panel[Any] | None = None,
    ) -> Response:
        asked = self._console.asked(request, cluster, login, typed)
        view = await page.load(asked)
        values = {"view": view, "cluster": cluster.name, "user": login.user, "form": asked.form}
        if problem is None:
            return self._console.html(request, page.template, values, view.status, session)
        values["problem"] = problem.problem
        return self._console.html(request, page.template, values, problem.status, session)

    async def _who(
        self, request: Request, is_api: bool, has_page: bool = True
    ) -> tuple[ClusterConfig, Session | None, Login] | Response:
        """Return the cluster of the address and who asks; or the way to the login. Raises HTTPException."""
        console = self._console
        cluster, session = console.cluster_of(request.path_params["cluster"]), console.session_of(request)
        login = console.login_of(session, cluster)
        if login is not None and not login.client.ended:
            return cluster, session, login
        return await self._to_login(request, cluster, session, login, is_api, has_page)

    async def _to_login(
        self,
        request: Request,
        cluster: ClusterConfig,
        session: Session | None,
        login: Login | None,
        is_api: bool,
        has_page: bool = True,
    ) -> Response:
        """Return the way to the login, which leads back here; a login that has ended is gone. Raises HTTPException."""
        said = "" if login is None else login.client.ended
        if session is not None and said:
            log.info("login ended", cluster=cluster.name, user="" if login is None else login.user, reason=said)
            await self._console.end_login(session, cluster.name)
        if is_api:
            raise HTTPException(401, said or f"log in to {cluster.name} first, at /login?cluster={cluster.name}")
        query = f"?{request.url.query}" if request.url.query else ""
        # Not every form has a page of its own.
        where = request.url.path + query if has_page else f"/clusters/{cluster.name}"
        response = RedirectResponse(f"/login?{urlencode({'cluster': cluster.name, 'next': where})}", 303)
        if request.method == "POST":
            said = f"{said or 'You are not logged in any more.'} Nothing was changed: log in, and repeat it."
        if said:
            self._console.say(response, said)
        return response

    async def login_over(self, request: Request, error: Exception) -> Response:
        """Answer a request whose user the cluster does not let in any more: with the way to the login."""
        assert isinstance(error, LoginOver)
        console = self._console
        cluster, session = console.cluster_of(request.path_params["cluster"]), console.session_of(request)
        if session is not None:
            await console.close(console.sessions.log_out_of(session, cluster.name, error.client))
        user = error.client.user
        log.info("login ended", cluster=cluster.name, user=user)
        changed = f"{cluster.name} does not let {user} in any more: the password or the user has changed. Log in again."
        said = f"{error.done} Log in again." if error.done else error.client.ended or changed
        if request.url.path.startswith("/api/"):
            if error.done:
                return console.json({"done": error.done, "value": None})
            return console.json({"error": said, "code": "SASL_AUTHENTICATION_FAILED"}, 401)
        # Only a page can be returned to, and not every form has one.
        query = f"?{request.url.query}" if request.url.query else ""
        where = request.url.path + query if request.method == "GET" else f"/clusters/{cluster.name}"
        response = RedirectResponse(f"/login?{urlencode({'cluster': cluster.name, 'next': where})}", 303)
        console.say(response, said)
        return response

    # --- changes -------------------------------------------------------------------------------------------------

    async def change(self, change: Change, is_api: bool, request: Request) -> Response:
        found = await self._who(request, is_api, change.path in self._pages)
        if isinstance(found, Response):
            return found
        cluster, session, login = found
        console = self._console
        if is_api:
            form = await console.json_of(request, change.form_bytes_max)
            if session is not None:
                console.check_token(request, request.headers.get("x-kraft-token", ""), session)
        else:
            form = await console.form_of(request, change.form_bytes_max)
            console.check_token(request, form.text("token"), session)
        told: dict[str, Any] = {"cluster": cluster.name, "user": login.user, "path": request.url.path}
        try:
            if is_api:
                form.check_names(change.takes)
            done = await change.perform(console.asked(request, cluster, login, form))
        except KraftError as error:
            problem = problem_of_change(error)
            log.info("change refused", **told, reason=problem.problem)
            if is_api:
                return console.json({"error": problem.problem, "code": problem.code}, problem.status)
            page = self._pages.get(change.path)
            if page is None:
                raise HTTPException(problem.status, problem.problem) from None
            return await self._shown(page, request, cluster, session, login, form, problem)
        log.info("change made", **told, said=done.said)
        if is_api:
            return console.json({"done": done.said, "value": done.value})
        response = RedirectResponse(done.where, 303)
        console.say(response, done.said)
        return response

    # --- streams -------------------------------------------------------------------------------------------------

    async def stream(self, stream: Stream, request: Request) -> Response:
        # A script that reads events cannot follow the way to the login.
        found = await self._who(request, is_api=True)
        assert not isinstance(found, Response)
        cluster, session, login = found
        console = self._console
        session_id = "" if session is None else session.session_id
        asked, user = console.asked(request, cluster, login), (cluster.name, login.whom)

        def is_open() -> bool:
            if session is None or not cluster.needs_login:
                return True
            # Of several logins of a session one may end alone.
            has_login = session.logins.get(cluster.name) is login
            return has_login and console.sessions.is_open(session_id, now_ms()) and not login.client.ended

        async def body() -> AsyncIterator[bytes]:
            with console.streams.one_more(user):
                async for each in written(stream.events(asked), is_open):
                    yield each

        try:
            console.streams.check(user)
        except TooManyStreams as error:
            raise HTTPException(503, str(error)) from None
        return StreamingResponse(body(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def problem_of_change(error: KraftError) -> Panel[Any]:
    """Return why a change was not made, with Kafka's code; the status of HTTP comes with it."""
    if isinstance(error, WrongInput):
        return Panel(problem=printable(str(error)), code="INVALID_REQUEST")
    if isinstance(error, Changed):
        return Panel(problem=printable(str(error)), code="CHANGED")
    if isinstance(error, NoAnswerInTime):
        return Panel(problem=str(error), code="NO_ANSWER")
    return problem_of(error, "you may not do this")
