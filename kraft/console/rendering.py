"""Pages as HTML: templates whose values are always escaped, and JSON of the same values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from kraft.model.printable import counted, printable, readable_size

_UNIT_MS: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))
_UNLIMITED: Final = 2**63 - 1
"""The largest number that a config holds."""


def environment() -> Environment:
    found = Environment(
        loader=PackageLoader("kraft.console"),
        # Everywhere, whatever a template is called: group ids, client ids, hosts and configs are of strangers.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.filters |= {"segment": segment, "size": readable_size, "number": number, "in_words": in_words}
    found.filters |= {"lines": lines, "percent": percent, "duration": duration, "utc": utc, "ago": ago, "path": path}
    found.globals |= {"counted": counted, "address": address}
    return found


def _shown(value: object) -> object:
    """Return text without characters that turn the text around them, or move it."""
    return printable(value) if type(value) is str and not value.isprintable() and "\n" not in value else value


def lines(text: str) -> str:
    """Return text of several lines without other characters that turn the text around them, or move it."""
    kept = (each if each in "\n\t" or each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return text if text.isprintable() else "".join(kept)


def segment(text: str) -> str:
    """Return the text as one segment of a path."""
    return quote(text, safe="")


def path(text: str) -> str:
    """Return a path as an address has it."""
    return quote(text)


def number(value: int) -> str:
    return f"{value:,}"


def percent(value: int) -> str:
    """Return by how many percent something is above or below: with its sign."""
    return f"{value:+,} %" if value else "±0 %"


def address(path: str, **query: object) -> str:
    given = {name: value for name, value in query.items() if value not in ("", None, False)}
    return f"{path}?{urlencode(given)}" if given else path


def in_words(value: str | None, name: str) -> str:
    """Return what a config in milliseconds or bytes says, for people; empty for others."""
    if value is None or not value.isdigit():
        return ""
    if int(value) == _UNLIMITED:
        return "no limit"
    if name.endswith(".ms"):
        return _duration(int(value))
    return readable_size(int(value)) if name.endswith(".bytes") and int(value) >= 1024 else ""


def _duration(value_ms: int) -> str:
    if value_ms >= _UNLIMITED or value_ms < 1_000:
        return ""
    for unit, of_unit in _UNIT_MS:
        if value_ms >= of_unit:
            return (
                counted(value_ms // of_unit, unit) if value_ms % of_unit == 0 else f"{value_ms / of_unit:.1f} {unit}s"
            )
    return ""


def duration(value_ms: int) -> str:
    """Return a duration for people: seconds with a decimal place below a minute."""
    if value_ms < 60_000:
        return f"{value_ms / 1_000:.1f} s" if value_ms % 1_000 else f"{value_ms // 1_000} s"
    return _duration(value_ms)


def utc(value_ms: int) -> str:
    """Return a time since 1970 in UTC; what no calendar has stays a number."""
    try:
        return f"{datetime.fromtimestamp(value_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return f"{value_ms} ms"


def ago(value_ms: int) -> str:
    """Return how long ago a time since 1970 was."""
    passed_ms = time.time_ns() // 1_000_000 - value_ms
    return "just now" if passed_ms < 1_000 else f"{duration(passed_ms // 1_000 * 1_000)} ago"


def json_of(view: object) -> bytes:
    return msgspec.json.encode(view)


def html_of(templates: Environment, name: str, values: Mapping[str, Any]) -> str:
    return templates.get_template(name).render(**values)
