"""Offsets of transactions wait for their marker, and count from the place of their records in the log."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS, CommittedOffsets
from kraft.coordinator.offsets.deletion import delete, delete_group, on_topics_deleted
from kraft.coordinator.offsets.expiry import expired
from kraft.coordinator.offsets.fetch import fetch, fetch_stable
from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP
from kraft.coordinator.offsets.pending_offsets import NO_PENDING_OFFSETS
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from tests.support.offset_commands import asking, deletions
from tests.unit.coordinator.offsets.building import ORDERS, ORDERS_AGAIN, contents, places, replayed


class Commit(Struct, frozen=True):
    """A record, of a producer's transaction if it has one. Without an offset it is a tombstone."""

    offset: int | None
    producer: int | None = None
    partition: int = 0
    topic_id: TopicId | None = None


class Marker(Struct, frozen=True):
    producer: int
    is_commit: bool = True


Step = Commit | Marker


def after(*steps: Step, offsets: CommittedOffsets = NO_OFFSETS) -> CommittedOffsets:
    return reduce(_after, steps, offsets)


def _after(offsets: CommittedOffsets, step: Step) -> CommittedOffsets:
    if isinstance(step, Marker):
        return offsets.replay_end_transaction(step.producer, step.is_commit)
    key = OffsetCommitKey(group="billing", topic="orders", partition=step.partition)
    if step.offset is None:
        return offsets.replay(key, None)
    topic_id = step.topic_id or TopicId(OffsetCommitValue(offset=0, metadata="", commit_timestamp=0).topic_id)
    value = OffsetCommitValue(offset=step.offset, metadata="", commit_timestamp=0, topic_id=topic_id)
    if step.producer is None:
        return offsets.replay(key, value)
    return offsets.replay_transactional(step.producer, key, value)


def committed(*steps: Step) -> int | None:
    """Return the offset of partition 0 that is committed after these records and markers."""
    found = after(*steps).offset("billing", "orders", 0)
    return None if found is None else found.offset


PENDING = after(Commit(5, producer=1))


# --- markers ---------------------------------------------------------------------------------------------------------


def test_an_offset_counts_once_its_transaction_is_committed() -> None:
    assert committed(Commit(3), Commit(5, producer=1)) == 3
    assert committed(Commit(3), Commit(5, producer=1), Marker(1)) == 5


def test_an_aborted_transaction_leaves_nothing() -> None:
    assert after(Commit(3), Commit(5, producer=1), Marker(1, is_commit=False)) == after(Commit(3))
    assert after(Commit(5, producer=1), Marker(1, is_commit=False)) == NO_OFFSETS


def test_the_last_offset_of_a_transaction_counts() -> None:
    assert committed(Commit(5, producer=1), Commit(4, producer=1), Marker(1)) == 4


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    offsets = after(Commit(5, producer=1), Commit(6, producer=2, partition=1), Marker(1))
    assert offsets.offset("billing", "orders", 1) is None
    assert offsets.pending.of("billing", "orders", 1)


def test_a_marker_without_offsets_changes_nothing() -> None:
    assert after(Marker(2), offsets=PENDING) is PENDING


@pytest.mark.parametrize("is_commit", [True, False])
def test_nothing_is_left_of_an_ended_transaction(is_commit: bool) -> None:
    offsets = after(Commit(1, partition=3), *(Commit(5, 1, partition) for partition in range(4)), Marker(1, is_commit))
    assert offsets.pending == NO_PENDING_OFFSETS


# --- the order of the log --------------------------------------------------------------------------------------------


def test_a_later_commit_without_transaction_overtakes() -> None:
    assert committed(Commit(5, producer=1), Commit(7), Marker(1)) == 7


def test_a_later_commit_of_another_transaction_overtakes_in_any_order_of_the_markers() -> None:
    both = Commit(5, producer=1), Commit(7, producer=2)
    assert committed(*both, Marker(1), Marker(2)) == 7
    assert committed(*both, Marker(2), Marker(1)) == 7


def test_an_aborted_transaction_overtakes_nothing() -> None:
    both = Commit(5, producer=1), Commit(7, producer=2)
    assert committed(*both, Marker(2, is_commit=False), Marker(1)) == 5


def test_a_repeated_offset_counts_from_its_new_place() -> None:
    assert committed(Commit(5, producer=1), Commit(7), Commit(6, producer=1), Marker(1)) == 6


def test_a_tombstone_deletes_what_is_pending() -> None:
    assert after(Commit(5, producer=1), Commit(6, producer=2), Commit(None)) == NO_OFFSETS
    assert committed(Commit(5, producer=1), Commit(None), Commit(6, producer=1), Marker(1)) == 6


_partitions, _producers = st.integers(0, 1), st.integers(1, 3)
steps = st.lists(
    st.builds(Commit, st.integers(0, 99) | st.none(), st.none(), _partitions)
    | st.builds(Commit, st.integers(0, 99), _producers, _partitions)
    | st.builds(Marker, _producers, st.booleans()),
    max_size=20,
)


@given(steps)
def test_the_committed_record_with_the_greatest_offset_counts(log: list[Step]) -> None:
    """The definition in Kafka, by the offsets of records."""
    held: dict[int, tuple[int, int | None]] = {}
    pending: dict[tuple[int, int], tuple[int, int]] = {}
    for position, step in enumerate(log):
        if isinstance(step, Marker):
            for producer, partition in [key for key in pending if key[0] == step.producer]:
                ended = pending.pop((producer, partition))
                if step.is_commit and (partition not in held or held[partition] < ended):
                    held[partition] = ended
        elif step.producer is not None and step.offset is not None:
            pending[step.producer, step.partition] = (position, step.offset)
        else:
            held[step.partition] = (position, step.offset)
            if step.offset is None:
                for key in [key for key in pending if key[1] == step.partition]:
                    del pending[key]
    offsets = after(*log)
    assert {place[2]: each.offset for place, each in contents(offsets).items()} == {
        partition: offset for partition, (_, offset) in held.items() if offset is not None
    }
    waiting = {
        (each.producer_id, partition)
        for partition in range(2)
        for each in offsets.pending.of("billing", "orders", partition)
    }
    assert waiting == set(pending)
    assert set(offsets.pending.producers) == {producer for producer, _ in pending}


# --- what depends on them --------------------------------------------------------------------------------------------


def test_a_fetch_of_stable_offsets_waits_for_the_marker_also_of_an_offset_that_was_overtaken() -> None:
    asked = [asking("orders", 0, 1)]
    for offsets in (PENDING, after(Commit(7), offsets=PENDING)):
        ((first, second),) = (topic.partitions for topic in fetch(offsets, "billing", asked, require_stable=True))
        assert (first.error_code, first.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert (second.error_code, second.committed_offset) == (ErrorCode.NONE, -1)
    (topic,) = fetch(after(Commit(7), offsets=PENDING), "billing", asked)
    assert topic.partitions[0].committed_offset == 7


@pytest.mark.parametrize("decided", [(), (Marker(1),), (Marker(1), Commit(None)), (Marker(1), Commit(7), Commit(None))])
def test_a_fetch_of_stable_offsets_waits_until_what_ends_the_transaction_is_committed(
    decided: tuple[Step, ...],
) -> None:
    asked = [asking("orders", 0, 1)]
    ((first, second),) = (
        topic.partitions for topic in fetch_stable(PENDING, after(*decided, offsets=PENDING), "billing", asked)
    )
    assert first.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert second.error_code is ErrorCode.NONE


def test_a_fetch_of_stable_offsets_returns_what_is_committed() -> None:
    asked = [asking("orders", 0)]
    ended = after(Marker(1), offsets=PENDING)
    (topic,) = fetch_stable(ended, ended, "billing", asked)
    assert topic.partitions[0].committed_offset == 5


def test_a_group_with_pending_offsets_does_not_expire() -> None:
    offsets = after(Commit(7, partition=1), offsets=PENDING)
    (found,) = expired(offsets, [("billing", SIMPLE_GROUP)], now_ms=10**9, retention_ms=1)
    assert places(found.tombstones.records) == [("billing", "orders", 1)]
    assert not found.group_removable


def test_an_expired_offset_is_kept_while_another_is_pending() -> None:
    offsets = after(Commit(3), Commit(5, producer=1))
    (found,) = expired(offsets, [("billing", SIMPLE_GROUP)], now_ms=10**9, retention_ms=1)
    assert not found.tombstones.records
    assert not found.group_removable


def test_pending_offsets_are_deleted_on_request_and_with_their_group() -> None:
    topics = [deletions("orders", 0, 1)]
    offsets = after(Commit(3, partition=2), offsets=PENDING)
    assert places(delete(offsets, "billing", SIMPLE_GROUP, topics).records) == [("billing", "orders", 0)]
    tombstones = delete_group(offsets, "billing").records
    assert sorted(places(tombstones)) == [("billing", "orders", 0), ("billing", "orders", 2)]
    assert replayed(tombstones, offsets) == NO_OFFSETS


def test_pending_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_its_successor() -> None:
    log = Commit(3, topic_id=ORDERS), Commit(5, producer=1, topic_id=ORDERS), Commit(6, 1, 1, ORDERS)
    (found,) = on_topics_deleted(after(*log), ["billing"], {"orders": ORDERS})
    assert places(found.records) == [("billing", "orders", 0), ("billing", "orders", 1)]
    again = after(*log, Commit(7, producer=2, topic_id=ORDERS_AGAIN))
    (found,) = on_topics_deleted(again, ["billing"], {"orders": ORDERS})
    assert places(found.records) == [("billing", "orders", 1)], "the tombstone would delete offset 7, too"


def test_a_group_may_have_nothing_but_pending_offsets() -> None:
    assert PENDING.has_group("billing")
    assert list(PENDING.all_groups()) == ["billing"]
    assert list(after(Commit(3), offsets=PENDING).all_groups()) == ["billing"]
    assert not after(Marker(1, is_commit=False), offsets=PENDING).has_group("billing")
