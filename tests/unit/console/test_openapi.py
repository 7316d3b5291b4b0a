"""The description of the API: it is one, it has every route, and it names all that is asked for with a request."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import defstruct
from openapi_spec_validator import validate

import kraft.console
from kraft.console import openapi
from kraft.console.parameters import MEANINGS, PARAMETERS
from kraft.console.route_kinds import Change, Page, Stream
from kraft.console.routes import CHANGES, PAGES, STREAMS
from tests.support.console_api import described

SOURCE = Path(kraft.console.__file__).parent / "pages"


@pytest.mark.slow
def test_the_description_is_one_of_openapi() -> None:
    validate(described())


def test_every_route_is_described_and_listed() -> None:
    expected = {("GET", f"/api{each.path}") for each in PAGES} | {("POST", f"/api{each.path}") for each in CHANGES}
    expected |= {("GET", each.path) for each in STREAMS} | {("GET", "/api/clusters"), ("POST", "/api/login")}
    listed = [(each.method, each.path) for each in openapi.listed()]
    assert set(listed) == {(method, openapi.IN_PATH.sub(r"{\1}", path)) for method, path in expected}
    assert len(listed) == len(expected)
    names = [each["operationId"] for methods in described()["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)


def test_fields_have_the_sentences_of_their_structs() -> None:
    panel = described()["components"]["schemas"]["Panel_Health"]
    assert panel["properties"]["code"]["description"] == "Kafka's name of the error."
    assert "kraft." not in str(list(described()["components"]["schemas"]))


def test_two_structs_of_one_name_are_refused() -> None:
    first, second = (defstruct("Row", [("name", str)], module=module) for module in ("one", "other"))
    openapi.check_names([first, defstruct("Table", []), first])
    with pytest.raises(TypeError, match="two Structs of pages are called Row, in one and other: rename one"):
        openapi.check_names([first, second])


def test_every_name_that_a_page_asks_for_is_described() -> None:
    routes: tuple[Page | Change | Stream, ...] = (*PAGES, *CHANGES, *STREAMS)
    taken = {name for route in routes for name in route.takes}
    asked_for = {name for file in SOURCE.rglob("*.py") for name in _asked_for(ast.parse(file.read_text()))}
    assert asked_for <= taken | {"token"}, "routes.py says with `takes` what a route asks for"
    assert taken <= set(PARAMETERS), "parameters.py says what each name means"
    assert set(PARAMETERS) <= taken


def test_what_a_name_means_at_one_address_is_of_a_route_that_takes_it() -> None:
    routes: tuple[Page | Change, ...] = (*PAGES, *CHANGES)
    taken = {(route.path, name) for route in routes for name in route.takes}
    assert {(path, name) for path, names in MEANINGS.items() for name in names} <= taken
    fields = described()["paths"]["/api/clusters/{cluster}/topics/{topic}/produce"]["post"]["requestBody"]
    assert "Key of the record" in str(fields)


def _asked_for(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are read from forms and queries."""
    for each in ast.walk(tree):
        if not (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.args):
            continue
        first, of = each.args[0], ast.unparse(each.func.value)
        is_form = of.endswith("form") and each.func.attr in ("text", "raw", "number", "flag", "all")
        is_query = of.endswith("query") and each.func.attr == "get"
        if (is_form or is_query) and isinstance(first, ast.Constant):
            yield str(first.value)
