from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.consumer.checks import check_offset_commit, check_offset_fetch
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.offsets.committer import Committer
from kraft.model.errors import ErrorCode, Refusal
from tests.unit.coordinator.consumer.coordinator import GROUP, Coordinator, pair, partitions


def single() -> ConsumerGroup:
    """A group whose only member is in epoch 1."""
    group = Coordinator(a=1)
    group.join("m1", "a")
    return group.group


def check_commit(group: ConsumerGroup, member_id: str, epoch: int, **fields: Any) -> None:
    owned = fields.pop("partitions", partitions("a", 0))
    check_offset_commit(group, Committer(member_id=member_id, generation=epoch, **fields), owned)


def test_a_member_commits_and_fetches_offsets_in_its_epoch() -> None:
    check_commit(single(), "m1", 2)
    check_offset_fetch(single(), "m1", 2)


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("m1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("m9", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_and_fetches_of_others_and_of_other_epochs_are_refused(
    member_id: str, epoch: int, error: ErrorCode
) -> None:
    with pytest.raises(Refusal) as committed:
        check_commit(single(), member_id, epoch)
    with pytest.raises(Refusal) as fetched:
        check_offset_fetch(single(), member_id, epoch)
    assert committed.value.error_code is fetched.value.error_code is error


def test_anybody_commits_offsets_of_an_empty_group() -> None:
    check_commit(ConsumerGroup(group_id=GROUP), "", -1)


def test_anybody_fetches_offsets_who_names_no_member() -> None:
    check_offset_fetch(single(), None, -1)


def test_a_commit_without_a_place_for_the_epoch_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        check_commit(single(), "m1", 3, api_version=8)
    assert refusal.value.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_a_producer_that_names_no_member_commits_in_its_transaction() -> None:
    check_commit(single(), "", -1, is_transactional=True)
    check_commit(single(), "m1", 2, is_transactional=True, api_version=3)
    with pytest.raises(Refusal) as refusal:
        check_commit(single(), "m9", 2, is_transactional=True)
    assert refusal.value.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_lags_commits_what_it_has_owned_since_its_epoch_and_nothing_else() -> None:
    group = pair()
    first, second = group.member("m1"), group.member("m2")
    assert (first.epoch, second.epoch) == (3, 3)
    check_commit(group.group, "m1", 3, partitions=first.assigned)
    for member_id, epoch, committed in (
        ("m1", 2, first.assigned | second.assigned),
        ("m1", 2, second.assigned),
        ("m2", 2, second.assigned),
        ("m1", 1, first.assigned),
    ):
        with pytest.raises(Refusal) as refusal:
            check_commit(group.group, member_id, epoch, partitions=committed)
        assert refusal.value.error_code is ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_still_commits_what_it_is_about_to_give_up() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    assert group.member("m1").pending_revocation
    check_commit(group.group, "m1", 2, partitions=partitions("a", 0, 1, 2, 3))


def test_a_late_commit_of_what_another_member_owns_now_is_refused_in_the_same_epoch_too() -> None:
    """A member that has to give up partitions again, before it has reached its target, stays in its epoch."""
    group = Coordinator(a=6)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    given_up = group.member("m1").pending_revocation
    group.join("m3", "a")
    group.heartbeat("m1", 2, owned=group.member("m1").assigned)
    group.heartbeat("m2", group.member("m2").epoch, owned=frozenset())
    taken = given_up & group.member("m2").assigned
    assert taken
    assert group.member("m1").epoch == 2
    with pytest.raises(Refusal) as refusal:
        check_commit(group.group, "m1", 3, partitions=taken)
    assert refusal.value.error_code is ErrorCode.STALE_MEMBER_EPOCH
    check_commit(group.group, "m1", 2, partitions=group.member("m1").owned)
