"""The estimate of the memory of classic groups follows what is large in them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember, add_member
from kraft.coordinator.classic.memory import GROUP_BYTES, added_bytes, wanted_bytes
from kraft.metadata.persistent_maps import PersistentMap
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning, join_command, offered

LARGE = 30_000
SMALL = 5_000
EMPTY = ClassicGroup(group_id="billing")


def member(**fields: Any) -> ClassicGroupMember:
    values: dict[str, Any] = {
        "member_id": "m",
        "client_id": "client",
        "client_host": "/10.0.0.1",
        "rebalance_timeout_ms": 1,
        "session_timeout_ms": 1,
        "protocols": (offered("range", b"topics"),),
    }
    return ClassicGroupMember(**{**values, **fields})


def group_of(each: ClassicGroupMember, **fields: Any) -> ClassicGroup:
    return replace(add_member(EMPTY, each, "consumer"), **fields)


@pytest.mark.parametrize(
    "group",
    [
        ClassicGroup(group_id="x" * LARGE),
        replace(EMPTY, rebalance_reason="x" * LARGE),
        replace(EMPTY, protocol_type="x" * LARGE),
        replace(EMPTY, pending_joins=PersistentMap({"x" * LARGE: True})),
        group_of(member(member_id="x" * LARGE)),
        group_of(member(group_instance_id="x" * LARGE)),
        group_of(member(client_id="x" * LARGE)),
        group_of(member(client_host="x" * LARGE)),
        group_of(member(assignment=b"x" * LARGE)),
        group_of(member(protocols=(offered("x" * LARGE, b""),))),
        group_of(member(protocols=(offered("range", b"x" * LARGE),))),
    ],
)
def test_the_estimate_counts_every_text_of_a_group(group: ClassicGroup) -> None:
    assert LARGE < added_bytes(None, group) < LARGE + SMALL
    assert added_bytes(group, None) == -added_bytes(None, group)
    assert added_bytes(group, group) == 0


def test_a_text_outside_ascii_counts_as_the_memory_it_may_take() -> None:
    assert added_bytes(None, ClassicGroup(group_id="\N{GRINNING FACE}" * 1_000)) == GROUP_BYTES + 4_000


def test_a_join_wants_what_it_adds_at_most() -> None:
    join = join_command(group_id="billing", member_id="m", session_timeout_ms=1, protocols=member().protocols)
    assert wanted_bytes(None, join) == added_bytes(None, group_of(member()))
    assert wanted_bytes(group_of(member()), join) == 0
    given_out = replace(EMPTY, protocol_type="consumer", pending_joins=PersistentMap({"m": True}))
    assert wanted_bytes(given_out, join) == added_bytes(given_out, add_member(given_out, member(), "consumer"))


def test_a_sync_wants_the_assignments_in_place_of_the_earlier_ones() -> None:
    sync = SyncGroupRequest(
        group_id="billing", generation_id=1, member_id="m", assignments=assigning({"m": b"x" * 100})
    )
    assert wanted_bytes(group_of(member(assignment=b"x" * 30)), sync) == 70
    assert wanted_bytes(None, sync) == 0
