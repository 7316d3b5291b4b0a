"""The console as an application of ASGI: each address of the table of routes, behind the check of hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kraft.console import openapi
from kraft.console.asking import LoginOver
from kraft.console.config import ClusterConfig
from kraft.console.console import Console
from kraft.console.endpoints import Endpoints
from kraft.console.hosts import OnlyKnownHosts
from kraft.console.logins import Logins
from kraft.console.oidc.logins import OidcLogins
from kraft.console.own_sessions import OwnSessions
from kraft.console.routes import ACTIONS, CHANGES, PAGES, STREAMS
from kraft.console.sessions import Session

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Common:
    """What is no page of a cluster."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._files = dict(_files(resources.files("kraft.console").joinpath("static"), ""))

    async def home(self, request: Request) -> Response:
        return self._console.html(request, "clusters.html", {}, session=self._console.session_of(request))

    async def api(self, request: Request) -> Response:
        schemas = openapi.description()["components"]["schemas"]
        values = {
            "routes": openapi.listed(),
            "schemas": schemas,
            "type_name": openapi.type_name,
            "origin": self._console.config.origin,
        }
        return self._console.html(request, "api.html", values, session=self._console.session_of(request))

    async def openapi(self, _: Request) -> Response:
        return self._console.json(openapi.description())

    async def clusters(self, request: Request) -> Response:
        session = self._console.session_of(request)
        return self._console.json(
            [
                openapi.ClusterRow(cluster=each.name, needs_login=each.needs_login, logged_in=_has_login(session, each))
                for each in self._console.config.clusters.values()
            ]
        )

    async def static(self, request: Request) -> Response:
        found = self._files.get(request.path_params["file"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        content_type, content = found
        return Response(content, media_type=content_type, headers={"Cache-Control": "max-age=300"})


def _has_login(session: Session | None, cluster: ClusterConfig) -> bool:
    return session is not None and cluster.name in session.logins


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yield each file by its path: what is served is this, whatever an address says."""
    for each in directory.iterdir():
        if each.is_dir():
            yield from _files(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, (_TYPES["." + each.name.rpartition(".")[2]], each.read_bytes())


def application(console: Console) -> Any:
    """Return the application of ASGI."""
    endpoints = Endpoints(console)
    routes = [
        Route(prefix + page.path, _answered(endpoints.page, page, bool(prefix)), methods=["GET"])
        for page in PAGES
        for prefix in ("", "/api")
    ]
    routes += [
        Route(prefix + change.path, _answered(endpoints.change, change, bool(prefix)), methods=["POST"])
        for change in CHANGES
        for prefix in ("", "/api")
    ]
    routes += [Route(each.path, _answered(endpoints.stream, each), methods=["GET"]) for each in STREAMS]
    logins = Logins(console)
    places = (Common(console), logins, OidcLogins(console, logins), OwnSessions(console))
    for action in ACTIONS:
        place = next(each for each in places if hasattr(each, action.name))
        routes.append(Route(action.path, getattr(place, action.name), methods=[action.method]))
    app = Starlette(
        routes=routes,
        lifespan=console.lifespan,
        exception_handlers={
            HTTPException: console.refused,
            LoginOver: endpoints.login_over,
            Exception: console.failed,
        },
    )
    return OnlyKnownHosts(app, console.config)


def _answered(answer: Callable[..., Awaitable[Response]], *first: Any) -> Callable[[Request], Awaitable[Response]]:
    # Starlette takes a function for an endpoint, and a partial of a method for an application.
    async def endpoint(request: Request) -> Response:
        return await partial(answer, *first)(request)

    return endpoint
