"""The description of /api in the words of OpenAPI 3.1: from the table of routes, and from the Structs of its answers.

Source: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from kraft.console.parameters import parameter
from kraft.console.route_kinds import Change, Page, Stream
from kraft.console.routes import CHANGES, PAGES, STREAMS

VERSION: Final = "1"
"""Of the API; it changes when something that a script reads is gone, or means something else."""

_REFS: Final = "#/components/schemas/"
IN_PATH: Final = re.compile(r"{(\w+)(?::\w+)?}")
_MODULES: Final = re.compile(r"kraft(\.[a-z_]+)*\.(?=[A-Z])")

_ABOUT: Final = """\
Each page of the console as JSON. A part of a page that could not be found out has `problem`, and Kafka's error in
`code`, while the others are there. A script logs in with POST /api/login, keeps the cookie, and sends the token of the
answer as X-Kraft-Token with each change. The brokers decide what its user may see and do."""


class LoggedIn(Struct, frozen=True, kw_only=True):
    """A login, which the cookie of the answer stands for from now on."""

    cluster: str
    user: str
    token: str
    """What a change carries as X-Kraft-Token."""


class LoginFields(Struct, frozen=True, kw_only=True):
    """What a script sends to log in."""

    cluster: str
    user: str
    password: str


class ClusterRow(Struct, frozen=True, kw_only=True):
    """A cluster of the console's file."""

    cluster: str
    needs_login: bool
    logged_in: bool


class Error(Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    error: str
    """One sentence."""

    code: str = ""
    """Kafka's name of the error, where it is one of the cluster."""


class Changed(Struct, frozen=True, kw_only=True):
    """A change that was made."""

    done: str
    """One sentence."""

    value: Any
    """What there is to say beside it; null if there is nothing."""


@cache
def description() -> Mapping[str, Any]:
    """Return the description, as JSON has it."""
    views = [_view_of(each) for each in PAGES]
    schemas, components = msgspec.json.schema_components(
        [*views, list[ClusterRow], LoggedIn, LoginFields, Error, Changed], ref_template=_REFS + "{name}"
    )
    _document(components, [*views, ClusterRow, LoggedIn, LoginFields, Error, Changed])
    paths: dict[str, dict[str, Any]] = {
        "/api/clusters": {"get": _open(_operation("clusters", "Clusters", "", [], schemas[len(views)]))},
        "/api/login": {"post": _open(_login())},
    }
    for page, schema in zip(PAGES, schemas, strict=False):
        _path_of(paths, "/api" + page.path)["get"] = _of_page(page, schema)
    for change in CHANGES:
        _path_of(paths, "/api" + change.path)["post"] = _of_change(change)
    for stream in STREAMS:
        _path_of(paths, stream.path)["get"] = _of_stream(stream)
    found = {
        "openapi": "3.1.0",
        "info": {"title": "Kraft console", "version": VERSION, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "kraft-session"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Kraft-Token"},
            },
        },
        # Clusters that ask for no login are open to scripts as well.
        "security": [{"session": []}, {}],
    }
    renamed: Mapping[str, Any] = _renamed(found, _short_names(components))
    return renamed


# --- operations ----------------------------------------------------------------------------------------------------


def _path_of(paths: dict[str, dict[str, Any]], path: str) -> dict[str, Any]:
    return paths.setdefault(IN_PATH.sub(r"{\1}", path), {})


def _operation(name: str, tag: str, asks: str, parameters: list[Any], answer: Any) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": name.replace("_", " ").capitalize(),
        "description": f"Brokers ask for {asks}." if asks else "Asks no broker.",
        "tags": [tag],
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer", "content": {"application/json": {"schema": answer}}},
            "default": _failure(_ref("Error")),
        },
    }


def _open(operation: dict[str, Any]) -> dict[str, Any]:
    return operation | {"security": [{}]}


def _of_page(page: Page, schema: Mapping[str, Any]) -> dict[str, Any]:
    found = _operation(page.load.__name__, _tag(page.path), page.asks, _parameters(page), schema)
    # The main part of a page could not be found out, and the others may have been.
    found["responses"]["default"] = _failure({"anyOf": [schema, _ref("Error")]})
    return found


def _of_change(change: Change) -> dict[str, Any]:
    found = _operation(
        f"do_{change.perform.__name__}",
        _tag(change.path),
        change.asks,
        [each for each in _parameters(change) if each["in"] == "path"],
        _ref("Changed"),
    )
    fields = {each: parameter(change.path, each).schema() for each in change.takes}
    body = {"schema": {"type": "object", "properties": fields, "additionalProperties": False}}
    found["requestBody"] = {"required": True, "content": {"application/json": body}}
    found["security"] = [{"session": [], "token": []}, {}]
    return found


def _of_stream(stream: Stream) -> dict[str, Any]:
    found = _operation(f"stream_{stream.events.__name__}", _tag(stream.path), stream.asks, _parameters(stream), {})
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    found["responses"]["200"] = {"description": "Server-sent events, whose data is JSON", "content": content}
    return found


def _login() -> dict[str, Any]:
    found = _operation("log_in", "Login", "", [], _ref("LoggedIn"))
    found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref("LoginFields")}}}
    return found


def _parameters(route: Page | Change | Stream) -> list[dict[str, Any]]:
    in_path = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
        for each in IN_PATH.findall(route.path)
    ]
    in_query = [
        {"name": each, "in": "query", "description": found.what, "schema": found.schema(False)}
        for each in route.takes
        for found in [parameter(route.path, each)]
    ]
    return [*in_path, *in_query]


def _tag(path: str) -> str:
    parts = path.split("/")
    return parts[3].capitalize() if len(parts) > 3 else "Overview"


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REFS + name}


def _failure(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": "Why there is no answer", "content": {"application/json": {"schema": schema}}}


# --- schemas -------------------------------------------------------------------------------------------------------


def _view_of(page: Page) -> Any:
    return get_type_hints(page.load)["return"]


def _document(components: dict[str, Any], views: list[Any]) -> None:
    """Add the sentences below the fields of the Structs."""
    kinds: set[type[Struct]] = set()
    for each in views:
        kinds.update(_structs(each, kinds))
    check_names(kinds)
    for component in components.values():
        properties = component.get("properties", {})
        for kind in kinds:
            if kind.__name__ == component["title"].partition("[")[0] and set(kind.__struct_fields__) == set(properties):
                for name, text in _sentences(kind).items():
                    properties[name] = properties[name] | {"description": text}


def check_names(kinds: Iterable[type[Struct]]) -> None:
    """Raise TypeError if two Structs have one name: the API calls its schemas by them."""
    by_name: dict[str, type[Struct]] = {}
    for kind in kinds:
        other = by_name.setdefault(kind.__name__, kind)
        if other is not kind:
            raise TypeError(
                f"two Structs of pages are called {kind.__name__}, in {other.__module__} and"
                f" {kind.__module__}: rename one, as the API names its schemas by them"
            )


def _structs(kind: Any, known: set[type[Struct]]) -> Iterator[type[Struct]]:
    """Yield each Struct that a value of this type may hold, once."""
    plain = get_origin(kind) or kind
    if isinstance(plain, type) and issubclass(plain, Struct) and plain not in known:
        known.add(plain)
        yield plain
        for each in get_type_hints(plain).values():
            yield from _structs(each, known)
    for each in get_args(kind):
        yield from _structs(each, known)


def _sentences(kind: type[Struct]) -> dict[str, str]:
    """Return the docstrings of fields, which are in the source only."""
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, SyntaxError):
        return {}
    assert isinstance(found, ast.ClassDef)
    texts = {}
    for field, after in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            texts[field.target.id] = inspect.cleandoc(str(ast.literal_eval(after.value)))
    return texts


def _short_names(components: Mapping[str, Any]) -> dict[str, str]:
    """Return names without the modules that msgspec puts into those of generic Structs."""
    found: dict[str, str] = {}
    for name in components:
        short = re.sub("_+", "_", _MODULES.sub("", name)).strip("_")
        found[name] = name if short in found.values() else short
    return found


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    found = {names.get(key, key): _renamed(each, names) for key, each in value.items()}
    ref, title = value.get("$ref"), value.get("title")
    if isinstance(ref, str):
        found["$ref"] = _REFS + names[ref.removeprefix(_REFS)]
    if isinstance(title, str):
        found["title"] = _MODULES.sub("", title)
    return found


# --- for people ----------------------------------------------------------------------------------------------------


class Listed(Struct, frozen=True, kw_only=True):
    """A line of the page that lists the API."""

    method: str
    path: str
    what: str
    takes: str
    """Names of what is asked for with it."""

    answer: str
    """Name of the schema."""


def listed() -> list[Listed]:
    """Return what the description has, a line for each address."""
    return [
        _listed(method.upper(), path, operation)
        for path, methods in description()["paths"].items()
        for method, operation in methods.items()
    ]


def _listed(method: str, path: str, operation: Mapping[str, Any]) -> Listed:
    takes = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    takes += body.get("properties", {})
    if "$ref" in body:
        takes += description()["components"]["schemas"][body["$ref"].removeprefix(_REFS)]["properties"]
    ((_, content),) = operation["responses"]["200"]["content"].items()
    return Listed(
        method=method,
        path=path,
        what=operation["description"],
        takes=", ".join(takes),
        answer=type_name(content["schema"]),
    )


def type_name(schema: Mapping[str, Any]) -> str:
    """Return the type in short: the name of a schema, or what JSON has."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REFS)
    if "anyOf" in schema:
        return " or ".join(map(type_name, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {type_name(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_name(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))
