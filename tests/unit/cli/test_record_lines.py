"""Lines as records with keys and headers."""

from __future__ import annotations

import pytest
import typer

from kraft.cli.record_lines import line_format
from kraft.client import KraftError

HEADERS = {"parse.headers": "true"}


def test_a_line_has_headers_then_a_key_then_a_value_as_in_kafka() -> None:
    lines = line_format(None, {**HEADERS, "parse.key": "true"}, {})
    found = lines.records([b"a:1,b:\tk\tv", b"\tk2\tv\t2"], 0)
    assert found.headers == [(("a", b"1"), ("b", b"")), ()]
    assert (found.keys, found.values) == ([b"k", b"k2"], [b"v", b"v\t2"])


def test_separators_are_those_of_the_properties_and_every_record_has_the_headers_of_the_option() -> None:
    separators = {"headers.delimiter": "|", "headers.separator": ";", "headers.key.separator": "="}
    found = line_format(None, HEADERS | separators, {"source": "shop"}).records([b"a=1;b=2|v"], 0)
    assert found.headers == [(("source", b"shop"), ("a", b"1"), ("b", b"2"))]
    assert line_format(None, {}, {"source": "shop"}).records([b"v"], 0).headers == [(("source", b"shop"),)]


def test_a_line_without_its_headers_is_named() -> None:
    with pytest.raises(KraftError, match=r"line 8 has no headers delimiter"):
        line_format(None, HEADERS, {}).records([b"\tv", b"v"], 6)
    with pytest.raises(KraftError, match="line 1 has no separator of a header's key and value ':'"):
        line_format(None, HEADERS, {}).records([b"a\tv"], 0)


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match=r"ignore\.error is unknown"):
        line_format(None, {"ignore.error": "true"}, {})
