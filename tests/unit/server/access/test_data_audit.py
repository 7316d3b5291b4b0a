from __future__ import annotations

from typing import Final

import pytest

from kraft.model.access import Operation, ResourceType
from kraft.model.principal import Principal
from kraft.server.access import data_audit
from kraft.server.access.audit import AuditEvent, line_of
from kraft.server.access.data_audit import DataAudit, data_audits
from kraft.server.config.access_settings import AuditSettings, DataAccess

ALICE: Final = Principal("alice")


class Uses:
    """What is noted of the uses of topics, of which only `orders` and those with a number exist."""

    def __init__(self, access: DataAccess = DataAccess.READS) -> None:
        self.events: list[AuditEvent] = []
        self.now_ms = 0
        self.audit = DataAudit(
            access, lambda event, _: self.events.append(event), "SASL", self.exists, lambda: self.now_ms, 60_000
        )

    def exists(self, name: str) -> bool:
        return name == "orders" or name.isdigit()

    def noted(self) -> list[tuple[str, str]]:
        return [(each.client.host, each.resource_name) for each in self.events]


def test_a_connections_uses_of_a_topic_within_an_interval_have_one_line() -> None:
    uses = Uses()
    for _ in range(3):
        uses.audit.used(ALICE, "10.0.0.7:5100", ["orders", "orders", "1"])
    assert uses.noted() == [("10.0.0.7", "orders"), ("10.0.0.7", "1")]
    uses.audit.used(ALICE, "10.0.0.7:5101", ["orders"])
    assert len(uses.events) == 3, "another connection"
    uses.now_ms = 59_999
    uses.audit.used(ALICE, "10.0.0.7:5100", ["orders"])
    assert len(uses.events) == 3
    uses.now_ms = 60_000
    uses.audit.used(ALICE, "10.0.0.7:5100", ["orders"])
    assert len(uses.events) == 4, "another interval"
    event = uses.events[0]
    assert (event.client.principal, event.listener) == (ALICE, "SASL")
    assert (event.operation, event.resource_type, event.error_code) == (Operation.READ, ResourceType.TOPIC, 0)
    assert b'"event": "use"' in line_of(event, "t")
    assert b'"api"' not in line_of(event, "t")


def test_topics_that_a_client_makes_up_have_no_lines() -> None:
    uses = Uses()
    uses.audit.used(ALICE, "10.0.0.7:5100", [f"made-up-{number}" for number in range(100)])
    assert uses.events == []


def test_groups_are_whatever_a_client_calls_them() -> None:
    uses = Uses(DataAccess.GROUPS)
    uses.audit.used(ALICE, "10.0.0.7:5100", ["billing"])
    assert [(each.resource_type, each.resource_name) for each in uses.events] == [(ResourceType.GROUP, "billing")]


def test_long_names_of_groups_take_no_memory_and_have_one_line() -> None:
    uses = Uses(DataAccess.GROUPS)
    for _ in range(2):
        uses.audit.used(ALICE, "10.0.0.7:5100", ["g" * 30_000])
    (event,) = uses.events
    assert event.resource_name == "g" * 249
    assert {len(name) for _, name in uses.audit._noted} == {249}


def test_uses_beyond_a_number_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_audit, "USES_KEPT_MAX", 2)
    uses = Uses()
    uses.audit.used(ALICE, "10.0.0.7:5100", ["1", "2", "3", "4"])
    assert len(uses.events) == 2
    uses.now_ms = 60_000
    uses.audit.used(ALICE, "10.0.0.7:5100", ["1"])
    assert [each.detail for each in uses.events[2:]] == ["2 more in the last interval", ""]


def test_only_what_is_switched_on_is_noted() -> None:
    settings = AuditSettings(data=frozenset({DataAccess.READS}))
    assert data_audits(settings, lambda *_: None, "SASL", bool, lambda: 0).keys() == {DataAccess.READS}
    assert data_audits(settings, None, "SASL", bool, lambda: 0) == {}
