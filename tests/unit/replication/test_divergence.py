from __future__ import annotations

from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition
from kraft.replication.divergence import DivergingEpoch, check_follower_fetch, last_epoch_below, truncation_offset
from tests.unit.replication.epoch_log import EpochLog

LEADER_EPOCH = LeaderEpoch(6)


def fetch(fetch_offset: int, last_fetched_epoch: int, current_leader_epoch: int = 6) -> ReplicaFetchPartition:
    return ReplicaFetchPartition(
        topic_id=UUID(int=1),
        partition=0,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        current_leader_epoch=current_leader_epoch,
        log_start_offset=0,
        high_watermark=0,
        partition_max_bytes=1,
    )


def diverging(epoch: int, end_offset: int) -> DivergingEpoch:
    return DivergingEpoch(epoch=LeaderEpoch(epoch), end_offset=Offset(end_offset))


@pytest.mark.parametrize(
    ("log", "request_", "expected"),
    [
        pytest.param(EpochLog(1, 1, 4), fetch(3, 4), None, id="equal logs"),
        pytest.param(EpochLog(1, 1, 4), fetch(1, 1), None, id="a prefix"),
        pytest.param(EpochLog(1, 1, 4), fetch(2, 1), None, id="a prefix that ends with an epoch"),
        pytest.param(EpochLog(), fetch(0, -1), None, id="two empty logs"),
        pytest.param(EpochLog(1, 1, 4), fetch(0, -1), None, id="an empty follower"),
        pytest.param(EpochLog(1, 1, 4), fetch(3, 1), diverging(1, 2), id="too much of a shared epoch"),
        pytest.param(EpochLog(1, 1, 4), fetch(3, 2), diverging(1, 2), id="an epoch that the leader never saw"),
        pytest.param(EpochLog(1, 1, 4), fetch(5, 4), diverging(4, 3), id="more of the latest epoch"),
        pytest.param(EpochLog(1, 1, 4), fetch(4, 5), diverging(4, 3), id="an epoch above all that the leader has"),
        pytest.param(EpochLog(1, 1, 4), fetch(2, 5), diverging(4, 3), id="such an epoch within the leader's offsets"),
        pytest.param(EpochLog(), fetch(5, 4), diverging(4, 0), id="a leader that has nothing"),
        pytest.param(EpochLog(4, 4, log_start_offset=10), fetch(11, 2), diverging(2, 10), id="only later epochs kept"),
        pytest.param(EpochLog(4, 4, log_start_offset=10), fetch(10, 2), diverging(2, 9), id="an unknown epoch deleted"),
        pytest.param(EpochLog(4, 4, log_start_offset=10), fetch(10, 4), None, id="deleted records of a known epoch"),
        pytest.param(EpochLog(log_start_offset=10), fetch(10, 2), diverging(2, 9), id="a leader that was restarted"),
    ],
)
def test_a_fetch_is_answered_with_the_epoch_where_the_logs_diverge(
    log: EpochLog, request_: ReplicaFetchPartition, expected: DivergingEpoch | None
) -> None:
    assert check_follower_fetch(log, LEADER_EPOCH, request_, Offset(0)) == expected


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(fetch(1, 4, current_leader_epoch=5), ErrorCode.FENCED_LEADER_EPOCH, id="of an ended epoch"),
        pytest.param(fetch(1, 4, current_leader_epoch=7), ErrorCode.UNKNOWN_LEADER_EPOCH, id="of a coming epoch"),
        pytest.param(fetch(9, 4), ErrorCode.OFFSET_OUT_OF_RANGE, id="below the log start"),
        pytest.param(fetch(9, -1), ErrorCode.OFFSET_OUT_OF_RANGE, id="below the log start, from an empty log"),
        pytest.param(fetch(13, -1), ErrorCode.OFFSET_OUT_OF_RANGE, id="past the log end, from an empty log"),
    ],
)
def test_a_fetch_is_refused(request_: ReplicaFetchPartition, code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        check_follower_fetch(EpochLog(4, 4, log_start_offset=10), LEADER_EPOCH, request_, Offset(20))

    assert refused.value.error_code is code


@pytest.mark.parametrize(
    ("log", "start", "empty_start_max"),
    [
        pytest.param(EpochLog(1, 6, 6), 2, 2, id="it begins at the last offset"),
        pytest.param(EpochLog(6, 6, log_start_offset=2), 2, 0, id="nothing below it is kept"),
        pytest.param(EpochLog(1, 6, 6), 0, 0, id="a new log"),
        pytest.param(EpochLog(-1, -1, -1), 2, 0, id="records of Kafka's from before it wrote leader epochs"),
    ],
)
def test_a_log_without_an_epoch_may_begin_there(log: EpochLog, start: int, empty_start_max: int) -> None:
    assert check_follower_fetch(log, LEADER_EPOCH, fetch(start, -1), Offset(empty_start_max)) is None


@pytest.mark.parametrize(
    ("log", "start", "empty_start_max"),
    [
        pytest.param(EpochLog(1, 6, 6), 2, 0, id="records below it are kept"),
        pytest.param(EpochLog(1, 6, 6), 2, 1, id="it begins after the last offset"),
        pytest.param(EpochLog(6, 6, log_start_offset=2), 3, 0, id="one record below it is kept"),
    ],
)
def test_a_log_without_an_epoch_that_lacks_what_is_kept_is_no_prefix(
    log: EpochLog, start: int, empty_start_max: int
) -> None:
    with pytest.raises(Refusal) as refused:
        check_follower_fetch(log, LEADER_EPOCH, fetch(start, -1), Offset(empty_start_max))

    assert refused.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("log", "answer", "expected"),
    [
        pytest.param(EpochLog(1, 1, 1, 1), diverging(1, 2), 2, id="the leader has less of a shared epoch"),
        pytest.param(EpochLog(1, 1, 5, 5), diverging(4, 9), 2, id="the follower left that epoch earlier"),
        pytest.param(EpochLog(1, 1, 3, 5), diverging(4, 2), 2, id="the smaller of both ends"),
        pytest.param(EpochLog(5, 5), diverging(4, 9), 0, id="the follower has later epochs only"),
        pytest.param(EpochLog(5, 5, log_start_offset=8), diverging(5, 3), 3, id="below the follower's log start"),
    ],
)
def test_the_follower_truncates_to_the_smaller_end(log: EpochLog, answer: DivergingEpoch, expected: int) -> None:
    assert truncation_offset(log, answer) == expected


@pytest.mark.parametrize(
    ("log", "offset", "epoch"),
    [(EpochLog(1, 3), 2, 3), (EpochLog(1, 3), 1, 1), (EpochLog(1, 3), 0, -1), (EpochLog(log_start_offset=7), 7, -1)],
)
def test_the_last_epoch_is_that_of_the_record_before(log: EpochLog, offset: int, epoch: int) -> None:
    assert last_epoch_below(log, Offset(offset)) == epoch


def test_any_two_logs_meet_where_their_common_part_ends() -> None:
    """Played to the end: each answer shortens the follower, until it is a prefix of the leader."""
    leader = EpochLog(1, 1, 2, 2, 4, 6)
    follower = EpochLog(1, 1, 2, 2, 2, 3, 3, 5)
    for _ in range(8):
        end = Offset(follower.log_end_offset)
        answer = check_follower_fetch(leader, LEADER_EPOCH, fetch(end, last_epoch_below(follower, end)), Offset(0))
        if answer is None:
            break
        follower.truncate_to(truncation_offset(follower, answer))

    assert follower.epochs == [1, 1, 2, 2]
