from __future__ import annotations

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.groups.queries import (
    check_fetch,
    describe_classic,
    describe_consumer,
    list_groups,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.list_groups import ListedGroup
from tests.unit.coordinator.groups.coordinator import Coordinator


@pytest.fixture
def shard() -> Coordinator:
    """One group of each kind, with an offset each."""
    shard = Coordinator()
    shard.commit(group_id="classic", member_id=shard.stable("classic"), generation=1)
    shard.join_consumer(group_id="consumer")
    shard.commit(group_id="consumer", member_id="m", generation=1)
    shard.commit(group_id="simple")
    return shard


def test_every_group_is_listed_with_type_and_state(shard: Coordinator) -> None:
    def listed(group_id: str, group_type: str, protocol_type: str, state: str) -> ListedGroup:
        return ListedGroup(group_id=group_id, group_type=group_type, protocol_type=protocol_type, group_state=state)

    assert sorted(list_groups(shard.groups, shard.volatile), key=lambda each: each.group_id) == [
        listed("classic", "classic", "consumer", "Stable"),
        listed("consumer", "consumer", "consumer", "Stable"),
        listed("simple", "classic", "", "Empty"),
    ]


def test_a_group_that_changes_its_protocol_is_listed_once(shard: Coordinator) -> None:
    committed = shard.groups
    shard.leave_consumer(group_id="consumer")
    shard.stable("consumer")
    listed = [each.group_id for each in list_groups(committed, shard.volatile)]
    assert sorted(listed) == ["classic", "consumer", "simple"]


@pytest.mark.parametrize(
    ("group_id", "state"), [("classic", ClassicGroupState.STABLE), ("simple", ClassicGroupState.EMPTY)]
)
def test_classic_groups_are_described(shard: Coordinator, group_id: str, state: ClassicGroupState) -> None:
    assert describe_classic(shard.groups, shard.volatile, group_id).group_state == state.value


@pytest.mark.parametrize("group_id", ["consumer", "none"])
def test_only_classic_groups_are_described_as_such(shard: Coordinator, group_id: str) -> None:
    with pytest.raises(Refusal, match=f"there is no group '{group_id}' of the classic protocol") as caught:
        describe_classic(shard.groups, shard.volatile, group_id)
    assert caught.value.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_consumer_groups_are_described_as_such(shard: Coordinator) -> None:
    described = describe_consumer(shard.groups, shard.volatile, "consumer", shard.settings)
    assert [each.member.member_id for each in described.members] == ["m"]
    for group_id, message in (
        ("classic", "there is no group 'classic' of the consumer protocol"),
        ("simple", "there is no group 'simple' of the consumer protocol"),
        ("none", "there is no group 'none'"),
    ):
        with pytest.raises(Refusal) as raised:
            describe_consumer(shard.groups, shard.volatile, group_id, shard.settings)
        assert (raised.value.error_code, raised.value.message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


def test_anybody_fetches_offsets_of_any_group(shard: Coordinator) -> None:
    for group_id in ("classic", "consumer", "simple", "none"):
        check_fetch(shard.groups, group_id)


def test_a_member_of_the_consumer_protocol_fetches_in_its_epoch(shard: Coordinator) -> None:
    check_fetch(shard.groups, "consumer", "m", 2)
    for member_id, epoch, expected in (
        ("m", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("other", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(Refusal) as raised:
            check_fetch(shard.groups, "consumer", member_id, epoch)
        assert raised.value.error_code is expected
