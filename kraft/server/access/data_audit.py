"""What the audit says of reads and writes that are allowed, where that is switched on.

They are too many for a line each. Of one connection's uses of one topic or group the first within an interval has a
line, and the others have none: it says that the client was served, not how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from kraft.model.access import Operation, ResourceType
from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS, Principal
from kraft.model.request_context import host_of
from kraft.rpc.on_behalf import Client
from kraft.server.access.audit import NAME_CHARACTERS_MAX, USE, Audit, AuditEvent
from kraft.server.config.access_settings import AuditSettings, DataAccess

USES_KEPT_MAX: Final = 10_000
"""Connections with a topic or group that have a line within an interval, at one listener: further ones are counted."""

Exists = Callable[[str], bool]

_NOTED_AS: Final = {
    DataAccess.READS: (Operation.READ, ResourceType.TOPIC),
    DataAccess.WRITES: (Operation.WRITE, ResourceType.TOPIC),
    DataAccess.GROUPS: (Operation.READ, ResourceType.GROUP),
}


class DataAudit:
    """Notes the uses of one kind at one listener."""

    def __init__(
        self, access: DataAccess, audit: Audit, listener: str, exists: Exists, now_ms: NowMs, interval_ms: int
    ) -> None:
        """`exists` returns whether there is a topic of a name: a client can make up any number of them."""
        self._operation, self._resource_type = _NOTED_AS[access]
        self._audit = audit
        self._listener = listener
        self._exists = exists
        self._now_ms = now_ms
        self._interval_ms = interval_ms
        self._ends_ms = now_ms() + interval_ms
        self._noted: set[tuple[str, str]] = set()
        """Addresses with ports, and what was used from there within this interval."""

        self._left_out = 0

    def used(self, principal: Principal, peer: str, names: Iterable[str]) -> None:
        """Note that a client is served at an address, with its port. This is on the hot path."""
        if self._now_ms() >= self._ends_ms:
            self._begin_again()
        noted = self._noted
        for name in names:
            if (peer, name) not in noted:
                self._first(principal, peer, name)

    def _first(self, principal: Principal, peer: str, name: str) -> None:
        if self._resource_type is ResourceType.TOPIC and not self._exists(name):
            return
        # A group's name may have 32 KiB, of which as many as are kept here would take any memory.
        name = name[:NAME_CHARACTERS_MAX]
        if (peer, name) in self._noted:
            return
        if len(self._noted) >= USES_KEPT_MAX:
            self._left_out += 1
            return
        self._noted.add((peer, name))
        self._audit(self._event(Client(principal, host_of(peer)), name), 1)

    def _begin_again(self) -> None:
        self._ends_ms = self._now_ms() + self._interval_ms
        self._noted.clear()
        left_out, self._left_out = self._left_out, 0
        if left_out:
            self._audit(self._event(Client(ANONYMOUS, ""), "", f"{left_out} more in the last interval"), 1)

    def _event(self, client: Client, name: str, detail: str = "") -> AuditEvent:
        return AuditEvent(
            client, self._listener, self._operation, self._resource_type, name, ErrorCode.NONE, USE, detail
        )


DataAudits = Mapping[DataAccess, DataAudit]


def data_audits(
    settings: AuditSettings, audit: Audit | None, listener: str, exists: Exists, now_ms: NowMs
) -> DataAudits:
    """Return what notes uses at a listener: those that are switched on, if anything is audited."""
    if audit is None:
        return {}
    return {
        access: DataAudit(access, audit, listener, exists, now_ms, settings.data_interval_ms)
        for access in settings.data
    }


class Uses(Struct, frozen=True):
    """How an API uses data."""

    access: DataAccess
    names: Callable[[object, object], Iterable[str]]
    """Returns the topics or groups of a request that are used, by the response. There is none yet for what a request
    does before it is answered."""

    is_known_at_once: bool = False
    """The request alone says it."""
