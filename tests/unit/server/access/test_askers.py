from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from kraft.metadata.authorizer import Requester
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.server.access import asker, group_guards
from kraft.server.access.asker import NAME_CHARACTERS_MAX
from kraft.server.access.group_askers import GROUP_CHARACTERS_MAX
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.acl_entries import entry
from tests.unit.server.access.world import World


async def test_a_heartbeat_that_is_refused_does_not_decide_what_its_group_may_see() -> None:
    of_everybody = entry("billing", Operation.READ, resource_type=ResourceType.GROUP, principal="User:*")
    world = World([of_everybody, entry("orders")])
    guard = group_guards.consumer_group_heartbeat(world.askers.of_groups)
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=1)

    async def refuse(_: Any) -> Any:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "it is no member")

    async def accept(request: Any) -> Any:
        return request

    async def heard(name: str, handler: Any) -> frozenset[str] | None:
        with suppress(Refusal):
            await guard(world.askers.of(Principal(name), "10.0.0.7"), heartbeat, handler)
        return await world.askers.of_groups.describable("billing", ["orders", "parcels"])

    assert await heard("mallory", refuse) is None
    assert await heard("alice", accept) == frozenset({"orders"})
    assert await heard("mallory", refuse) == frozenset({"orders"})
    assert await heard("mallory", accept) == frozenset()


def test_an_address_that_another_principal_has_next_is_asked_for_that_one() -> None:
    askers = World([entry("orders", Operation.READ)]).askers
    alice, bob = Principal("alice"), Principal("bob")
    assert askers.at(alice, "10.0.0.7:4000") is askers.at(alice, "10.0.0.7:4000")
    assert [askers.at(each, "10.0.0.7:4000").may_read("orders") for each in (alice, bob, alice)] == [True, False, True]


def test_nothing_is_kept_of_names_that_a_client_makes_up() -> None:
    reading = World([entry("*", Operation.ALL)]).askers.at(Principal("alice"), "10.0.0.7:4000")
    assert reading.may_read("orders")
    assert reading.may_write("parcels")
    assert reading.may_read("x" * (NAME_CHARACTERS_MAX + 1))
    assert reading.may_write("x" * (NAME_CHARACTERS_MAX + 1))
    assert (reading.readable, reading.writable) == ({"orders"}, {"parcels"})
    refused = World().askers.at(Principal("alice"), "10.0.0.7:4000")
    assert not refused.may_read("orders")
    assert not refused.may_write("orders")
    assert not refused.readable | refused.writable


async def test_members_of_groups_with_long_names_are_forgotten_sooner() -> None:
    askers = World([entry("orders", Operation.DESCRIBE)]).askers.of_groups
    alice = Requester("User:alice", "10.0.0.7")

    async def is_known(group_id: str) -> bool:
        return await askers.describable(group_id, ["orders"]) is not None

    long_names = [f"{number:02}" + "x" * (GROUP_CHARACTERS_MAX // 10) for number in range(20)]
    for name in ("short", *long_names):
        askers.heard(name, alice)
        askers.heard("in use", alice)
    assert [await is_known(each) for each in long_names] == [False] * 11 + [True] * 9
    assert await is_known("in use")
    assert not await is_known("short")
    # What is heard again counts once.
    for _ in range(20):
        askers.heard(long_names[-1], alice)
    assert [await is_known(each) for each in long_names] == [False] * 11 + [True] * 9


def test_the_asker_of_a_connection_ends_with_the_acls_that_it_was_made_by() -> None:
    """Produce and Fetch ask the one that is kept: a right that is taken away ends for connections that are open."""
    world = World([entry("orders", Operation.READ)])
    alice, peer = Principal("alice"), "10.0.0.7:4000"
    assert world.askers.at(alice, peer).may_read("orders")
    world.change([])
    assert not world.askers.at(alice, peer).may_read("orders")
    world.change([entry("orders", Operation.READ)])
    assert world.askers.at(alice, peer).may_read("orders")


def test_askers_of_two_listeners_are_not_confused() -> None:
    noted: list[str] = []
    askers = World().askers
    for listener in ("INSIDE", "OUTSIDE"):
        told = askers.told_to(lambda event, _: noted.append(event.listener), listener)
        told.at(Principal("alice"), "10.0.0.7:4000").refusal(Operation.READ, ResourceType.TOPIC, "orders")
    assert noted == ["INSIDE", "OUTSIDE"]


def test_so_many_askers_of_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "ASKERS_KEPT_MAX", 3)
    askers, alice = World().askers, Principal("alice")
    first = askers.at(alice, "10.0.0.7:1")
    kept = [askers.at(alice, f"10.0.0.7:{port}") for port in range(2, 5)]
    assert askers.at(alice, "10.0.0.7:4") is kept[-1]
    assert askers.at(alice, "10.0.0.7:1") is not first


def test_a_long_name_that_is_refused_is_not_kept_whole_for_the_audit() -> None:
    noted: list[str] = []
    askers = World().askers.told_to(lambda event, _: noted.append(event.resource_name), "SASL")
    askers.of(Principal("alice"), "10.0.0.7").refusal(Operation.READ, ResourceType.GROUP, "g" * 30_000)
    assert noted == ["g" * NAME_CHARACTERS_MAX]
