from __future__ import annotations

import pytest

from kraft.coordinator.offsets.commit import commit
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.coordinator.offsets.fetch import fetch
from kraft.model.ids import TopicId
from kraft.wire.schema.offset_fetch import (
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.support import offset_commands
from tests.support.offset_commands import asking
from tests.unit.coordinator.offsets.building import ORDERS, ORDERS_AGAIN, committing, replayed, with_commit


def test_offsets_are_returned_as_they_were_committed_in_the_order_of_the_request() -> None:
    topics = [offset_commands.offsets("orders", committing(3, 7, 2, "mine"), committing(4, 8))]
    offsets = replayed(commit("billing", topics, now_ms=1000, metadata_length_max=10).records)
    assert fetch(offsets, "billing", [asking("orders", 4, 3)]) == (
        OffsetFetchResponseTopics(
            name="orders",
            partitions=(
                OffsetFetchResponsePartitions(partition_index=4, committed_offset=8, metadata="", error_code=0),
                OffsetFetchResponsePartitions(
                    partition_index=3, committed_offset=7, committed_leader_epoch=2, metadata="mine", error_code=0
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("group", "topic", "partition"), [("x", "orders", 3), ("billing", "x", 3), ("billing", "orders", 4)]
)
def test_a_missing_offset_is_minus_one_without_epoch_or_metadata(group: str, topic: str, partition: int) -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 3)
    (fetched,) = fetch(offsets, group, [asking(topic, partition, topic_id=ORDERS)])
    missing = OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, metadata="", error_code=0)
    assert fetched == OffsetFetchResponseTopics(name=topic, topic_id=ORDERS, partitions=(missing,))


@pytest.mark.parametrize(
    ("committed_id", "fetched_id", "offset"),
    [
        (ORDERS, ORDERS, 5),
        (ORDERS, ORDERS_AGAIN, -1),
        (ORDERS, None, 5),
        (None, ORDERS, 5),
        (None, None, 5),
    ],
)
def test_an_offset_of_another_topic_id_counts_as_missing(
    committed_id: TopicId | None, fetched_id: TopicId | None, offset: int
) -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, topic_id=committed_id)
    (fetched,) = fetch(offsets, "billing", [asking("orders", 0, topic_id=fetched_id)])
    assert fetched.partitions[0].committed_offset == offset
