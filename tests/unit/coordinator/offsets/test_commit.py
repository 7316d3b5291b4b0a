from __future__ import annotations

import pytest

from kraft.coordinator.group_record_codec import encode
from kraft.coordinator.offsets.commit import NO_RETENTION_TIME, commit, commit_bytes_min
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset, TopicId
from kraft.wire.schema.offset_commit import OffsetCommitRequestPartition
from tests.support.offset_commands import offsets
from tests.unit.coordinator.offsets.building import METADATA_MAX, committing, replayed


def commit_orders(
    *partitions: OffsetCommitRequestPartition,
    retention_time_ms: int = NO_RETENTION_TIME,
    topic_id: TopicId | None = None,
) -> DecidedOffsets:
    topics = [offsets("orders", *partitions, topic_id=topic_id)]
    return commit("billing", topics, now_ms=1000, metadata_length_max=METADATA_MAX, retention_time_ms=retention_time_ms)


def committed(decided: DecidedOffsets, partition: int = 0) -> CommittedOffset | None:
    return replayed(decided.records).offset("billing", "orders", partition)


def test_only_the_partition_with_too_long_metadata_is_refused() -> None:
    decided = commit_orders(committing(0, metadata="x" * 11), committing(1, metadata="x" * 10))
    assert decided.codes == (
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    )
    assert list(replayed(decided.records).topics("billing")["orders"]) == [1]


@pytest.mark.parametrize(("metadata", "fits"), [("é" * 10, True), ("😀" * 5, True), ("😀" * 5 + "x", False)])
def test_the_length_of_metadata_is_counted_in_utf_16(metadata: str, fits: bool) -> None:
    assert bool(commit_orders(committing(metadata=metadata)).records) is fits


def test_metadata_that_fits_into_no_old_record_is_refused_whatever_the_limit() -> None:
    topics = [offsets("orders", committing(0, metadata="é" * 16_384), committing(1))]
    decided = commit("billing", topics, now_ms=1000, metadata_length_max=2**31 - 1)
    assert decided.codes == (
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    )


def test_no_metadata_is_stored_as_an_empty_text() -> None:
    assert committed(commit_orders(committing(metadata=None))) == CommittedOffset(
        offset=Offset(5), commit_timestamp_ms=1000
    )


def test_a_negative_offset_is_stored_like_any_other() -> None:
    found = committed(commit_orders(committing(offset=-1), committing(1, offset=-7)), partition=1)
    assert found is not None
    assert found.offset == -7


def test_a_retention_time_sets_the_expire_timestamp() -> None:
    found = committed(commit_orders(committing(), retention_time_ms=500))
    assert found is not None
    assert found.expire_timestamp_ms == 1500


@pytest.mark.parametrize(("retention_time_ms", "expected"), [(2**63 - 1, 2**63 - 1), (-(2**63), 1000 - 2**63)])
def test_any_retention_time_gives_a_timestamp_that_fits_into_a_record(retention_time_ms: int, expected: int) -> None:
    found = committed(commit_orders(committing(), retention_time_ms=retention_time_ms))
    assert found is not None
    assert found.expire_timestamp_ms == expected


def test_the_least_size_of_a_commit_is_below_what_it_writes() -> None:
    topics = [offsets("orders", *(committing(each, metadata="") for each in range(100)))]
    decided = commit("billing", topics, now_ms=1000, metadata_length_max=METADATA_MAX)
    written = sum(len(key) + len(value or b"") for key, value in map(encode, decided.records))
    assert written * 2 // 3 < commit_bytes_min("billing", topics) <= written
