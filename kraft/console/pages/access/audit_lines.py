"""Lines of the brokers' audit: decoded, and chosen by what somebody looks for. docs/authorization.md has the format."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from kraft.console.forms import WrongInput
from kraft.model.moments import parse_datetime

EVENTS: Final = ("action", "refusal", "login", "connection", "use", "repeated", "lost")
RESULTS: Final = ("OK", "failed")

TEXT_CHARS_MAX: Final = 1_000
"""Of a field of a line that is longer than brokers write, the beginning is shown."""


class AuditLine(Struct, frozen=True, kw_only=True):
    time: str
    event: str = ""
    principal: str = ""
    host: str = ""
    listener: str = ""
    outcome: str = ""
    operation: str = ""
    resource_type: str = ""
    resource_name: str = ""
    api: str = ""
    detail: str = ""
    client_id: str = ""
    count: int = 0
    """How often it happened besides, or how many lines are missing."""

    offset: int = -1


class Sought(Struct, frozen=True, kw_only=True):
    """What somebody looks for; empty is anything."""

    principal: str = ""
    operation: str = ""
    """Part of the operation, or of the call."""

    result: str = ""
    """OK, failed, or part of Kafka's error."""

    event: str = ""
    text: str = ""
    """Part of the resource's name, or of the detail."""

    since_ms: int | None = None
    until_ms: int | None = None

    def finds(self, line: AuditLine) -> bool:
        return (
            self.principal.lower() in line.principal.lower()
            and self._finds_operation(line)
            and self._finds_result(line.outcome)
            and self.event in ("", line.event)
            and self.text.lower() in f"{line.resource_name} {line.detail} {line.client_id} {line.host}".lower()
        )

    def _finds_operation(self, line: AuditLine) -> bool:
        wanted = self.operation.lower().replace(" ", "_")
        return wanted in line.operation.lower() or wanted in line.api.lower()

    def _finds_result(self, outcome: str) -> bool:
        if self.result.lower() == "failed":
            return outcome not in ("", "OK")
        if self.result.upper() == "OK":
            return outcome == "OK"
        return self.result.lower() in outcome.lower()


def moment_ms(text: str, name: str) -> int | None:
    """Return a time, `2026-11-27T15:00` in UTC, in milliseconds since the epoch; None for none. Raises WrongInput."""
    if not text:
        return None
    try:
        return parse_datetime(text)
    except ValueError:
        raise WrongInput(f"{name}={text[:40]!r} is no time: give one such as 2026-11-27T15:00, in UTC") from None


def line_of(value: bytes | None, offset: int) -> AuditLine:
    """Return the line of a record. Of one that is none of ours, the detail says so."""
    try:
        found = msgspec.json.decode(value or b"")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        return AuditLine(time="", event="", detail="this record is no line of an audit", offset=offset)
    texts = {name: _text(found[name]) for name in _TEXTS if name in found}
    count = found.get("count")
    return AuditLine(**{"time": "", **texts}, count=count if type(count) is int else 0, offset=offset)


_TEXTS: Final = tuple(each for each in AuditLine.__struct_fields__ if each not in ("count", "offset"))


def _text(value: Any) -> str:
    return str(value)[:TEXT_CHARS_MAX]
