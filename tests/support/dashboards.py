"""What dashboards and alert rules of others ask Prometheus for: dashboards.toml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

_FILE: Final = Path(__file__).with_suffix(".toml")

_SERIES: Final = re.compile(r"(?<![$\w])(?:kafka|jvm|container|kubelet|process)_\w+")
"""Names of series in an expression. A variable begins with a dollar, and no label begins like this."""


class Variable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A choice above a dashboard's panels, such as the topics to show. Expressions have `$name` in its place."""

    name: str
    query: str
    """`query_result(expression)`, or `label_values(expression, label)`."""

    regex: str = ""
    all: str = ""
    every: bool = False


class Dashboard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    source: str
    series: tuple[str, ...] = ()
    """Series without an expression."""

    expressions: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()


class _Dashboards(Struct, frozen=True, forbid_unknown_fields=True):
    dashboard: tuple[Dashboard, ...]


def dashboards() -> tuple[Dashboard, ...]:
    return msgspec.toml.decode(_FILE.read_bytes(), type=_Dashboards).dashboard


def series_in(expression: str) -> set[str]:
    return set(_SERIES.findall(expression))


def asked_for() -> set[str]:
    """Return the names of all series that they ask for, in panels and in variables."""
    found: set[str] = set()
    for dashboard in dashboards():
        found.update(dashboard.series)
        for text in (*dashboard.expressions, *(variable.query for variable in dashboard.variables)):
            found |= series_in(text)
    return found
