from __future__ import annotations

from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, LeaderEpoch, Offset, TopicId
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    RestartAt,
    Retry,
    SetHighWatermark,
    TruncatedBelowHighWatermark,
    TruncateTo,
    WaitForMetadata,
)
from kraft.replication.follower import PartitionFollower
from tests.unit.replication.epoch_log import EpochLog

TOPIC = TopicId(UUID(int=1))
RETRY = Retry(after_ms=50)


def following(log: EpochLog, *, durable_end: int | None = None, high_watermark: int = 0) -> PartitionFollower:
    """Return a follower of broker 1 in leader epoch 5."""
    return PartitionFollower(
        topic_id=TOPIC,
        partition=0,
        leader_id=BrokerId(1),
        leader_epoch=LeaderEpoch(5),
        log=log,
        durable_end=Offset(log.log_end_offset if durable_end is None else durable_end),
        high_watermark=Offset(high_watermark),
        retry_backoff_ms=50,
    )


def result(
    error_code: ErrorCode = ErrorCode.NONE,
    *,
    leader_epoch: int = 5,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    records: bytes = b"",
    diverging: tuple[int, int] = (-1, -1),
) -> ReplicaFetchResult:
    return ReplicaFetchResult(
        topic_id=TOPIC,
        partition=0,
        error_code=error_code,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=records,
        diverging_epoch=diverging[0],
        diverging_end_offset=diverging[1],
    )


def answered(follower: PartitionFollower, answer: ReplicaFetchResult) -> list[FollowerEffect]:
    position = follower.next_fetch()
    assert position is not None
    return follower.answered(position, answer)


def high_watermark(offset: int) -> SetHighWatermark:
    return SetHighWatermark(high_watermark=Offset(offset))


# --- fetching and appending ------------------------------------------------------------------------------------


def test_it_fetches_from_the_end_of_its_log_with_the_epoch_of_its_last_record() -> None:
    position = following(EpochLog(2, 2, 4, log_start_offset=7), high_watermark=8).next_fetch()

    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch, position.current_leader_epoch) == (10, 4, 5)
    assert (position.high_watermark, position.log_start) == (8, 7)


def test_an_empty_log_sends_no_epoch() -> None:
    position = following(EpochLog()).next_fetch()

    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (0, -1)


def test_it_does_not_fetch_before_its_tail_is_synced() -> None:
    follower = following(EpochLog(1, 1, 1), durable_end=1)
    assert follower.needs_sync
    assert follower.next_fetch() is None

    follower.appended(Offset(3), Offset(3))
    assert follower.next_fetch() is not None


def test_records_are_appended_and_the_next_fetch_waits_for_the_sync() -> None:
    log = EpochLog(1)
    follower = following(log)
    assert answered(follower, result(records=b"two", high_watermark=2)) == [AppendRecords(records=b"two")]
    assert follower.next_fetch() is None
    log.epochs += [5, 5]

    assert follower.appended(Offset(3), Offset(1)) == [high_watermark(1)]
    assert follower.next_fetch() is None
    assert follower.appended(Offset(3), Offset(3)) == [high_watermark(2)]
    position = follower.next_fetch()
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (3, 5)


def test_records_that_the_log_refuses_are_fetched_again() -> None:
    follower = following(EpochLog(1))
    answered(follower, result(records=b"damaged"))

    assert follower.append_refused() == [RETRY]
    assert follower.next_fetch() is not None


# --- the high watermark ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "leaders", "expected"),
    [
        pytest.param(1, 2, [high_watermark(2)], id="follows the leader"),
        pytest.param(1, 9, [high_watermark(3)], id="never past its own log"),
        pytest.param(2, 1, [], id="never back, though a new leader may know less"),
        pytest.param(3, 3, [], id="says nothing twice"),
    ],
)
def test_the_high_watermark(own: int, leaders: int, expected: list[FollowerEffect]) -> None:
    follower = following(EpochLog(1, 1, 1), high_watermark=own)

    assert answered(follower, result(high_watermark=leaders)) == expected


def test_a_high_watermark_from_a_checkpoint_is_cut_to_the_log() -> None:
    assert following(EpochLog(1, 1), high_watermark=9).high_watermark == 2
    assert following(EpochLog(1, 1, log_start_offset=5), high_watermark=0).high_watermark == 5


# --- truncation ------------------------------------------------------------------------------------------------


def test_r1_nothing_is_truncated_to_the_high_watermark() -> None:
    position = following(EpochLog(1, 1, 1), high_watermark=1).next_fetch()

    assert position is not None
    assert position.fetch_offset == 3


def test_r2_a_diverging_tail_is_truncated_and_the_fetch_repeated() -> None:
    log = EpochLog(1, 1, 2, 2)
    follower = following(log, high_watermark=2)
    assert answered(follower, result(diverging=(1, 2))) == [TruncateTo(offset=Offset(2))]
    assert follower.next_fetch() is None

    log.truncate_to(2)
    assert follower.truncated(Offset(2), Offset(2)) == []
    position = follower.next_fetch()
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (2, 1)


def test_r3_an_epoch_that_the_leader_lacks_is_truncated_to_its_start() -> None:
    follower = following(EpochLog(1, 1, 3, 3, 3))

    assert answered(follower, result(diverging=(2, 4))) == [TruncateTo(offset=Offset(2))]


def test_a_truncation_below_the_high_watermark_is_reported_and_done() -> None:
    log = EpochLog(1, 1, 1)
    follower = following(log, high_watermark=3)
    assert answered(follower, result(diverging=(1, 1))) == [
        TruncatedBelowHighWatermark(offset=Offset(1), high_watermark=Offset(3)),
        TruncateTo(offset=Offset(1)),
    ]

    log.truncate_to(1)
    assert follower.truncated(Offset(1), Offset(1)) == [high_watermark(1)]


def test_a_divergence_below_the_whole_log_restarts_it() -> None:
    follower = following(EpochLog(4, 4, log_start_offset=8), high_watermark=9)

    assert answered(follower, result(diverging=(4, 3)))[-1] == RestartAt(offset=Offset(3))


def test_a_divergence_that_truncates_nothing_is_retried_after_a_pause() -> None:
    assert answered(following(EpochLog(1, 1)), result(diverging=(1, 9))) == [RETRY]


def test_a_late_answer_does_not_truncate_later_records() -> None:
    log = EpochLog(1, 1)
    follower = following(log)
    late = follower.next_fetch()
    assert late is not None
    answered(follower, result(records=b"more"))
    assert follower.answered(late, result(diverging=(1, 1))) == []
    log.epochs.append(5)
    follower.appended(Offset(3), Offset(3))

    assert follower.answered(late, result(diverging=(1, 1))) == []
    assert follower.answered(late, result(ErrorCode.FENCED_LEADER_EPOCH)) == []


# --- errors ----------------------------------------------------------------------------------------------------


def test_a_log_below_the_leaders_log_start_is_restarted_there() -> None:
    log = EpochLog(1, 1)
    follower = following(log, high_watermark=2)
    effects = answered(follower, result(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=20))
    assert effects == [RestartAt(offset=Offset(20))]

    log.epochs, log.log_start_offset = [], 20
    assert follower.truncated(Offset(20), Offset(20)) == [high_watermark(20)]
    position = follower.next_fetch()
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (20, -1)


@pytest.mark.parametrize("log_start_offset", [-1, 0, 2])
def test_an_offset_out_of_range_without_a_later_log_start_is_fetched_again(log_start_offset: int) -> None:
    answer = result(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=log_start_offset)

    assert answered(following(EpochLog(1, 1)), answer) == [RETRY]


def test_an_empty_log_beyond_the_leaders_end_is_restarted() -> None:
    """It has no committed record that it could lose: another leader may have deleted more than this one yet."""
    follower = following(EpochLog(log_start_offset=30), high_watermark=30)

    assert answered(follower, result(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=4)) == [
        RestartAt(offset=Offset(4))
    ]


def test_r4_a_fenced_follower_waits_for_metadata() -> None:
    follower = following(EpochLog(1))

    assert answered(follower, result(ErrorCode.FENCED_LEADER_EPOCH)) == [WaitForMetadata()]
    assert follower.next_fetch() is None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    ],
)
def test_a_transient_error_is_retried(code: ErrorCode) -> None:
    follower = following(EpochLog(1))

    assert answered(follower, result(code)) == [RETRY]
    assert follower.next_fetch() is not None


def test_an_answer_of_another_leader_epoch_is_not_taken() -> None:
    assert answered(following(EpochLog(1)), result(leader_epoch=4, records=b"x")) == [RETRY]


# --- the log start ---------------------------------------------------------------------------------------------


def log_start(offset: int) -> AdvanceLogStart:
    return AdvanceLogStart(offset=Offset(offset))


def test_its_log_begins_where_the_leaders_does() -> None:
    log = EpochLog(5, 5, 5, 5)
    follower = following(log, high_watermark=4)
    assert answered(follower, result(high_watermark=4, log_start_offset=3)) == [log_start(3)]
    log.epochs, log.log_start_offset = [5], 3

    assert answered(follower, result(high_watermark=4, log_start_offset=3)) == []
    position = follower.next_fetch()
    assert position is not None
    assert (position.log_start, position.fetch_offset) == (3, 4)


def test_its_log_start_does_not_exceed_its_high_watermark() -> None:
    log = EpochLog(5, 5)
    follower = following(log, high_watermark=0)
    assert answered(follower, result(records=b"two", high_watermark=4, log_start_offset=3)) == [
        AppendRecords(records=b"two")
    ]
    log.epochs += [5, 5]
    assert follower.appended(Offset(4), Offset(2)) == [high_watermark(2), log_start(2)]
    log.epochs, log.log_start_offset = [5, 5], 2
    assert follower.appended(Offset(4), Offset(4)) == [high_watermark(4), log_start(3)]


def test_its_log_start_stays_when_the_leaders_is_lower() -> None:
    follower = following(EpochLog(5, 5, log_start_offset=7), high_watermark=8)
    assert answered(follower, result(high_watermark=9, log_start_offset=2)) == [high_watermark(9)]


def test_an_answer_with_an_error_moves_no_log_start() -> None:
    follower = following(EpochLog(5, 5), high_watermark=2)
    assert answered(follower, result(ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=2)) == [RETRY]
    assert answered(follower, result(high_watermark=2)) == []


# --- what is committed -----------------------------------------------------------------------------------------


def test_whether_it_has_all_that_is_committed_is_known_from_an_answer_on() -> None:
    follower = following(EpochLog(5, 5), high_watermark=2)
    assert not follower.has_all_committed
    answered(follower, result(ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert not follower.has_all_committed
    answered(follower, result(high_watermark=3))
    assert not follower.has_all_committed
    answered(follower, result(high_watermark=2))
    assert follower.has_all_committed
