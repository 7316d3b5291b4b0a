"""What an audit tells: who did something, or was refused it, from where and on which listener.

A stranger chooses how often it is refused, and with which names. So of what one principal at one host is refused within
a second only the first lines are written, and the rest is counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS
from kraft.rpc.on_behalf import Client

SECOND_MS: Final = 1_000

FAILURES_WRITTEN_MAX: Final = 10
"""Different failures of one client within a second that have a line each."""

CLIENTS_COUNTED_MAX: Final = 256
"""Clients whose failures are told apart at the same time: further ones are counted together."""

STRANGERS_WRITTEN_MAX: Final = 20
"""Refused connections, failed logins and refusals without a login, of all addresses within a second, that have a line
each: anybody can have any number of them, and addresses are cheap. At 300 bytes a line that is 500 MB in a day, and not
more. Nor do they take the room of clients that are told apart."""

NAME_CHARACTERS_MAX: Final = 249
DETAIL_CHARACTERS_MAX: Final = 1_000


class AuditEvent(Struct, frozen=True):
    """What one client did, or was refused, with one resource. It names things, and has no values of configs."""

    client: Client
    listener: str
    operation: Operation | None
    """None, and no resource: a login."""

    resource_type: ResourceType | None
    resource_name: str
    error_code: int = ErrorCode.NONE
    """What the client was told; NONE: it is done."""

    api: str = ""
    """The call of an administrator, such as CreateAcls, or LOGIN, CONNECTION or USE; empty: something was refused."""

    detail: str = ""
    """What was changed, if the resource does not say it: an ACL, a user, a broker. Of a login its mechanism, or why it
    failed."""

    client_id: str = ""
    """What the client of an administrator's call says that it is, such as kraft-console; it may say anything."""


Audit = Callable[[AuditEvent, int], None]
"""Notes an event that happened so many times. It never waits, and never fails."""

LOGIN: Final = "Login"

USE: Final = "Use"
"""Data was read or written, or a group used, where such lines are wanted."""

CONNECTION: Final = "Connection"
"""A connection that was refused before any login: nobody knows whose it is."""

OTHERS: Final = None
"""The clients that are not told apart."""


class _Failures(Struct):
    """The failures of one client within a second."""

    began_ms: int
    seen: set[AuditEvent] = field(default_factory=set)
    repeated: int = 0


def login_event(client: Client, listener: str, error_code: int, detail: str) -> AuditEvent:
    """Return the event of a login that succeeded (NONE), or did not."""
    return AuditEvent(client, listener, None, None, "", error_code, LOGIN, detail[:DETAIL_CHARACTERS_MAX])


def refused_connection(address: str, listener: str, reason: str) -> AuditEvent:
    """Return the event of a connection that was refused before its client could log in."""
    client, reason = Client(ANONYMOUS, address), reason[:DETAIL_CHARACTERS_MAX]
    return AuditEvent(client, listener, None, None, "", ErrorCode.NETWORK_EXCEPTION, CONNECTION, reason)


class FailureCounts:
    """Decides which failures, and which logins, have a line of their own, and counts the others."""

    def __init__(self) -> None:
        self._of: dict[Client | None, _Failures] = {}
        self._strangers_began_ms = 0
        self._strangers = 0
        """Lines of strangers since then."""

    def has_line(self, event: AuditEvent, now_ms: int, times: int = 1) -> bool:
        """Return whether the event is written as it is, and count how often it happened besides."""
        if event.error_code == ErrorCode.NONE and event.api != LOGIN:
            return True
        failures = self._of.get(event.client)
        is_stranger = event.error_code != ErrorCode.NONE and (
            event.api in (LOGIN, CONNECTION) or event.client.principal == ANONYMOUS
        )
        has_room = not is_stranger or self._have_strangers_room(now_ms)
        if failures is None:
            is_told_apart = has_room and len(self._of) < CLIENTS_COUNTED_MAX
            client = event.client if is_told_apart else OTHERS
            failures = self._of.setdefault(client, _Failures(now_ms))
            if not is_told_apart:
                failures.repeated += times
                return False
        if event in failures.seen or len(failures.seen) >= FAILURES_WRITTEN_MAX or not has_room:
            failures.repeated += times
            return False
        failures.seen.add(event)
        self._strangers += is_stranger
        failures.repeated += times - 1
        return True

    def _have_strangers_room(self, now_ms: int) -> bool:
        if now_ms - self._strangers_began_ms >= SECOND_MS:
            self._strangers_began_ms, self._strangers = now_ms, 0
        return self._strangers < STRANGERS_WRITTEN_MAX

    def ended(self, now_ms: int, *, all_of_them: bool = False) -> list[tuple[Client | None, int]]:
        """Return how many more failures each client had whose second is over; they begin anew."""
        over = [each for each, found in self._of.items() if all_of_them or now_ms - found.began_ms >= SECOND_MS]
        counts = [(each, self._of.pop(each).repeated) for each in over]
        return [(client, count) for client, count in counts if count]


def line_of(event: AuditEvent, time: str) -> bytes:
    """Return the line of an event at a time."""
    fields = {
        "time": time,
        "event": _kind_of(event),
        **_client_fields(event.client),
        "listener": event.listener,
        "outcome": _outcome_of(event),
    }
    if event.operation is not None and event.resource_type is not None:
        fields["operation"] = event.operation.name
        fields["resource_type"] = event.resource_type.name
        fields["resource_name"] = event.resource_name[:NAME_CHARACTERS_MAX]
    if event.api and event.api not in _KINDS:
        fields["api"] = event.api
    if event.client_id:
        fields["client_id"] = event.client_id[:NAME_CHARACTERS_MAX]
    if event.detail:
        fields["detail"] = event.detail[:DETAIL_CHARACTERS_MAX]
    return _line(fields)


_KINDS: Final = {LOGIN: "login", USE: "use", CONNECTION: "connection", "": "refusal"}


def _kind_of(event: AuditEvent) -> str:
    return _KINDS.get(event.api, "action")


def _outcome_of(event: AuditEvent) -> str:
    if event.error_code == ErrorCode.NONE:
        return "OK"
    # No error of Kafka's was sent: the connection has ended.
    return "REFUSED" if event.api == CONNECTION else _name_of(event.error_code)


def line_of_count(client: Client | None, count: int, time: str) -> bytes:
    """Return the line that says how many more failures a client had; None: clients that are not told apart."""
    return _line({"time": time, "event": "repeated", **_client_fields(client), "count": count})


def line_of_lost(count: int, time: str) -> bytes:
    """Return the line that says how many lines are missing before it."""
    return _line({"time": time, "event": "lost", "count": count})


def _client_fields(client: Client | None) -> dict[str, str]:
    if client is None:
        return {}
    return {"principal": str(client.principal)[:DETAIL_CHARACTERS_MAX], "host": client.host}


def _name_of(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return str(error_code)


def _line(fields: dict[str, Any]) -> bytes:
    # Every character outside of printable ASCII is an escape: no name can move a terminal's cursor or reverse its text.
    return json.dumps(fields).encode() + b"\n"
