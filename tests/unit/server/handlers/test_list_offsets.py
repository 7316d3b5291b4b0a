from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.requests import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
)
from kraft.server.handlers.list_offsets import PARTITIONS_AT_ONCE, ListOffsetsHandler
from tests.unit.server.replicas import Broker, batch, fetched, follow, lead, leaders_batch


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def ask(broker: Broker, timestamp_ms: int, *, epoch: int = -1) -> ListOffsetsPartitionResult:
    wanted = ListOffsetsPartition(topic="orders", partition=0, timestamp_ms=timestamp_ms, current_leader_epoch=epoch)
    response = asyncio.run(ListOffsetsHandler(broker.partitions).handle(ListOffsetsRequest(partitions=[wanted])))
    (result,) = response.partitions
    return result


def with_three_of_four_committed(broker: Broker) -> None:
    """Records at 1000, 1001, 1000 and 1001 ms; the last one is not committed."""
    partition = broker.open()
    lead(partition, epoch=2)
    partition.append(batch("a", "b"), 1)
    partition.append(batch("c", "d"), 1)
    broker.sync()
    fetched(partition, 3)
    assert partition.high_watermark == 3


@pytest.mark.parametrize(
    ("timestamp_ms", "offset", "at_ms"),
    [
        (EARLIEST_TIMESTAMP, 0, -1),
        (LATEST_TIMESTAMP, 3, -1),
        (MAX_TIMESTAMP, 1, 1_001),
        (0, 0, 1_000),
        (1_001, 1, 1_001),
        (1_002, -1, -1),
    ],
)
def test_offsets_are_those_that_consumers_may_see(broker: Broker, timestamp_ms: int, offset: int, at_ms: int) -> None:
    with_three_of_four_committed(broker)
    result = ask(broker, timestamp_ms)
    assert (result.error_code, result.offset, result.timestamp_ms, result.leader_epoch) == (
        ErrorCode.NONE,
        offset,
        at_ms,
        2,
    )


@pytest.mark.parametrize(
    ("timestamp_ms", "epoch"),
    [(EARLIEST_TIMESTAMP, 2), (1_001, 2), (MAX_TIMESTAMP, 2), (LATEST_TIMESTAMP, 5), (9_000, 5)],
)
def test_the_epoch_is_that_of_the_record_and_at_the_end_the_leaders(
    broker: Broker, timestamp_ms: int, epoch: int
) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,), epoch=2)
    partition.append(batch("a", "b"), 1)
    broker.sync()
    follow(partition, epoch=4)
    lead(partition, replicas=(1,), epoch=5)
    assert ask(broker, timestamp_ms).leader_epoch == epoch


def test_a_record_that_is_not_committed_is_not_found(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    partition.append(batch("a"), 1)
    assert (ask(broker, 0).offset, ask(broker, MAX_TIMESTAMP).offset) == (-1, -1)


def test_an_empty_log_begins_and_ends_at_its_start(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    assert [ask(broker, special).offset for special in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, 5)] == [
        0,
        0,
        -1,
        -1,
    ]


def test_a_new_leader_that_does_not_know_yet_what_was_committed_does_not_guess(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    partition.append_as_follower(leaders_batch("a", "b", at=0))
    broker.sync()
    lead(partition, epoch=1)
    assert ask(broker, LATEST_TIMESTAMP).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(broker, EARLIEST_TIMESTAMP).error_code is ErrorCode.NONE
    fetched(partition, 2)
    assert ask(broker, LATEST_TIMESTAMP).offset == 2


def test_other_negative_timestamps_stand_for_nothing_here(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    assert ask(broker, -7).error_code is ErrorCode.UNSUPPORTED_VERSION


def test_the_local_log_begins_where_the_log_does_and_nothing_is_tiered(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    assert (ask(broker, EARLIEST_LOCAL_TIMESTAMP).error_code, ask(broker, EARLIEST_LOCAL_TIMESTAMP).offset) == (0, 0)
    for timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        assert (ask(broker, timestamp).error_code, ask(broker, timestamp).offset) == (0, -1)


def test_only_the_leader_in_the_epoch_that_the_client_knows_answers(broker: Broker) -> None:
    assert ask(broker, LATEST_TIMESTAMP).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = broker.open()
    follow(partition)
    assert ask(broker, LATEST_TIMESTAMP).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition, epoch=2)
    assert ask(broker, LATEST_TIMESTAMP, epoch=1).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert ask(broker, LATEST_TIMESTAMP, epoch=3).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_others_have_their_turn_while_very_many_partitions_are_looked_up(broker: Broker) -> None:
    async def scenario() -> None:
        wanted = [ListOffsetsPartition(topic="orders", partition=0, timestamp_ms=LATEST_TIMESTAMP)] * 2_000
        asked = ListOffsetsHandler(broker.partitions).handle(ListOffsetsRequest(partitions=wanted))
        looking = asyncio.ensure_future(asked)
        turns = 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 2_000 // PARTITIONS_AT_ONCE

    asyncio.run(scenario())
