from __future__ import annotations

import json
from typing import Any, Final

import pytest

from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc.on_behalf import Client
from kraft.server.access.audit import (
    CLIENTS_COUNTED_MAX,
    DETAIL_CHARACTERS_MAX,
    FAILURES_WRITTEN_MAX,
    STRANGERS_WRITTEN_MAX,
    AuditEvent,
    FailureCounts,
    line_of,
    line_of_count,
    login_event,
    refused_connection,
)
from tests.support.acl_entries import entry
from tests.unit.server.access.world import World

ALICE: Final = Client(Principal("alice"), "10.0.0.7")
REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def event(name: str = "orders", client: Client = ALICE, code: int = REFUSED, **more: Any) -> AuditEvent:
    return AuditEvent(client, "SASL", Operation.WRITE, ResourceType.TOPIC, name, code, **more)


# --- what is counted -------------------------------------------------------------------------------------------------


def test_what_is_done_always_has_a_line() -> None:
    counts = FailureCounts()
    assert all(counts.has_line(event(code=ErrorCode.NONE), 0) for _ in range(100))
    assert counts.ended(5_000) == []


def test_a_failure_that_repeats_within_a_second_is_counted() -> None:
    counts = FailureCounts()
    assert counts.has_line(event(), 1_000)
    assert not counts.has_line(event(), 1_500)
    assert not counts.has_line(event(), 1_900, times=3)
    assert counts.ended(1_999) == []
    assert counts.ended(2_000) == [(ALICE, 4)]
    assert counts.has_line(event(), 2_000), "a new second"
    assert counts.ended(3_000) == [], "one that did not repeat needs no count"


def test_a_stranger_that_varies_the_name_gets_no_more_lines() -> None:
    counts = FailureCounts()
    assert sum(counts.has_line(event(f"t-{number}"), 0) for number in range(50)) == FAILURES_WRITTEN_MAX
    assert counts.has_line(event(client=Client(Principal("bob"), "10.0.0.7")), 0), "others have lines of their own"
    assert counts.ended(1_000) == [(ALICE, 50 - FAILURES_WRITTEN_MAX)]


def test_strangers_from_many_hosts_are_counted_together() -> None:
    counts = FailureCounts()
    hosts = [Client(Principal("alice"), str(number)) for number in range(CLIENTS_COUNTED_MAX + 5)]
    assert sum(counts.has_line(event(client=each), 0) for each in hosts) == CLIENTS_COUNTED_MAX
    assert counts.ended(1_000) == [(None, 5)]


def test_clients_without_a_login_hide_nothing_that_others_do() -> None:
    """Anybody can be one, from any number of addresses, and it is refused as often as it likes."""
    counts = FailureCounts()
    unknown = [Client(ANONYMOUS, f"2001:db8::{number:x}") for number in range(2 * CLIENTS_COUNTED_MAX)]
    refused = [event(f"t-{number}", client=each) for each in unknown for number in range(3)]
    assert sum(counts.has_line(each, 0) for each in refused) == STRANGERS_WRITTEN_MAX
    assert counts.has_line(event(code=ErrorCode.NONE, client=unknown[-1]), 0), "what they do has its line"
    assert counts.has_line(event(), 0)
    assert counts.has_line(login_event(ALICE, "SASL", ErrorCode.NONE, "PLAIN"), 0)
    assert sum(count for _, count in counts.ended(1_000)) == len(refused) - STRANGERS_WRITTEN_MAX


# --- lines -----------------------------------------------------------------------------------------------------------


def test_a_line_says_who_was_refused_what_and_from_where() -> None:
    assert json.loads(line_of(event(), "2026-11-27T15:00:00.000Z")) == {
        "time": "2026-11-27T15:00:00.000Z",
        "event": "refusal",
        "principal": "User:alice",
        "host": "10.0.0.7",
        "listener": "SASL",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "outcome": "TOPIC_AUTHORIZATION_FAILED",
    }


def test_an_action_names_its_call_and_what_it_changed() -> None:
    line = json.loads(line_of(event(code=0, api="CreateAcls", detail="ALLOW"), "t"))
    assert (line["event"], line["api"], line["detail"], line["outcome"]) == ("action", "CreateAcls", "ALLOW", "OK")


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\x7f", "\x85", "\u202e", "\u2028", '"}', "\ud800"])
def test_no_name_forges_a_line_or_moves_a_cursor(name: str) -> None:
    line = line_of(event(name), "t")
    assert line.endswith(b"\n")
    assert all(0x20 <= each < 0x7F for each in line[:-1])
    assert json.loads(line)["resource_name"] == name


def test_a_count_names_its_client_if_it_is_one() -> None:
    assert json.loads(line_of_count(ALICE, 7, "t")) == {
        "time": "t",
        "event": "repeated",
        "principal": "User:alice",
        "host": "10.0.0.7",
        "count": 7,
    }
    assert json.loads(line_of_count(None, 7, "t")) == {"time": "t", "event": "repeated", "count": 7}


def test_a_login_has_neither_operation_nor_resource_and_repeats_are_counted() -> None:
    login = login_event(ALICE, "SASL", ErrorCode.NONE, "PLAIN")
    assert json.loads(line_of(login, "t")) == {
        "time": "t",
        "event": "login",
        "principal": "User:alice",
        "host": "10.0.0.7",
        "listener": "SASL",
        "outcome": "OK",
        "detail": "PLAIN",
    }
    counts = FailureCounts()
    assert [counts.has_line(login, 0) for _ in range(3)] == [True, False, False]


# --- strangers -------------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_of_nobody_and_has_a_reason() -> None:
    assert json.loads(line_of(refused_connection("10.9.9.9", "SASL", "too many " * 500), "t")) == {
        "time": "t",
        "event": "connection",
        "principal": "User:ANONYMOUS",
        "host": "10.9.9.9",
        "listener": "SASL",
        "outcome": "REFUSED",
        "detail": ("too many " * 500)[:DETAIL_CHARACTERS_MAX],
    }


def test_strangers_of_all_addresses_together_get_few_lines_and_the_rest_is_counted() -> None:
    counts = FailureCounts()
    addresses = [f"10.0.{number // 256}.{number % 256}" for number in range(1_000)]
    refused = [refused_connection(each, "SASL", "it is not TLS") for each in addresses]
    failed = [login_event(each.client, "SASL", ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong") for each in refused]
    assert sum(counts.has_line(each, 0) for each in refused + failed) == STRANGERS_WRITTEN_MAX
    assert counts.has_line(event(), 0), "others have lines nevertheless"
    assert counts.has_line(login_event(ALICE, "SASL", ErrorCode.NONE, "PLAIN"), 0)
    ended = counts.ended(1_000)
    assert sum(count for _, count in ended) == 2_000 - STRANGERS_WRITTEN_MAX
    assert len(ended) <= STRANGERS_WRITTEN_MAX + 1, "they are counted in few lines, too"
    assert counts.has_line(refused[0], 1_000), "a new second"


# --- askers ----------------------------------------------------------------------------------------------------------


def test_an_asker_has_its_refusals_noted_with_principal_host_and_listener() -> None:
    noted: list[tuple[AuditEvent, int]] = []
    askers = World().askers.told_to(lambda event, times: noted.append((event, times)), "SASL")
    for asker in (askers.of(Principal("alice"), "10.0.0.7"), askers.at(Principal("alice"), "10.0.0.7:99")):
        assert not asker.may(Operation.WRITE, ResourceType.TOPIC, "orders")
        assert noted == [], "a question alone is no refusal"
        asker.refusal(Operation.WRITE, ResourceType.TOPIC, "orders")
        assert noted == [(event(), 1)]
        noted.clear()


def test_thousands_of_names_are_noted_in_a_few_steps() -> None:
    noted: list[tuple[AuditEvent, int]] = []
    askers = World().askers.told_to(lambda event, times: noted.append((event, times)), "SASL")
    asker = askers.of(Principal("alice"), "10.0.0.7")
    asker.is_refused(Operation.READ, ResourceType.TOPIC, ())
    assert noted == []
    asker.is_refused(Operation.READ, ResourceType.TOPIC, [f"t-{number}" for number in range(5_000)])
    assert len(noted) == FAILURES_WRITTEN_MAX + 1
    assert sum(times for _, times in noted) == 5_000


def test_an_asker_of_later_acls_has_its_refusals_noted_too() -> None:
    noted: list[AuditEvent] = []
    world = World()
    asker = world.askers.told_to(lambda event, _: noted.append(event), "SASL").of(Principal("alice"), "10.0.0.7")
    world.change([entry("orders", Operation.READ)])
    assert asker.now() is not asker
    asker.now().refusal(Operation.WRITE, ResourceType.TOPIC, "orders")
    assert noted == [event()]


def test_failures_of_known_clients_take_no_room_of_strangers() -> None:
    counts = FailureCounts()
    known = [
        event(client=Client(Principal(f"user-{number}"), "10.0.0.7")) for number in range(2 * STRANGERS_WRITTEN_MAX)
    ]
    assert all(counts.has_line(each, 0) for each in known)
    assert counts.has_line(refused_connection("10.0.0.9", "SASL", "it is not TLS"), 0)


def test_what_happened_many_times_at_once_is_one_line_and_a_count() -> None:
    counts = FailureCounts()
    assert counts.has_line(event(), 0, times=7)
    assert counts.ended(1_000) == [(ALICE, 6)]
