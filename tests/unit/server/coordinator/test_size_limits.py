"""Limits of an internal topic that were lowered: the coordinator goes on, and what it cannot write is logged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.coordinator.shard_machine import RETRY_MS
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, TransactionState
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import split
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset, TopicPartition
from kraft.server.coordinator import record_sizes
from kraft.server.replica.partition import Partition
from tests.support.classic_requests import offered
from tests.support.counter_shard import Add, AddLater
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker, syncing
from tests.support.server.replicas import DEFAULTS
from tests.unit.server.coordinator.coordinating import Coordinating
from tests.unit.server.coordinator.transacting import Transacting

LOWERED = [{"max_message_bytes": 1_000}, {"segment_bytes": 1_000}, {"max_message_bytes": 0, "segment_bytes": 61}]


def configure(partition: Partition, **configs: Any) -> None:
    config = replace(DEFAULTS, **configs)
    partition.reconfigure(config)


def partitions(count: int) -> frozenset[TopicPartition]:
    """Return partitions whose names take 240 bytes each."""
    return frozenset(TopicPartition(f"{number:0240}", 0) for number in range(count))


@pytest.mark.parametrize("lowered", LOWERED)
async def test_a_transaction_ends_after_the_limits_of_its_topic_were_lowered(
    tmp_path: Path, lowered: dict[str, int]
) -> None:
    async with Transacting(tmp_path) as broker:
        producer = await broker.begin(partitions(100))
        configure(broker.partition, **lowered)
        assert isinstance(await broker.end(producer), ProducerIdAndEpoch)
        assert isinstance(await broker.init("another"), ProducerIdAndEpoch)


@pytest.mark.parametrize("lowered", LOWERED)
async def test_a_transaction_times_out_after_the_limits_of_its_topic_were_lowered(
    tmp_path: Path, lowered: dict[str, int]
) -> None:
    async with Transacting(tmp_path) as broker:
        await broker.begin(partitions(100))
        configure(broker.partition, **lowered)
        await asyncio.sleep(75)
        assert broker.transaction().state is not TransactionState.ONGOING


async def test_a_transaction_above_the_default_ends_after_the_limit_was_lowered_to_it(tmp_path: Path) -> None:
    """It grew while the limit was higher."""
    async with Transacting(tmp_path, settings=TransactionSettings(batch_bytes_max=lambda: 4 << 20)) as broker:
        configure(broker.partition, max_message_bytes=4 << 20)
        producer = await broker.begin(partitions(5_000))
        configure(broker.partition)
        assert isinstance(await broker.end(producer), ProducerIdAndEpoch)


@pytest.mark.parametrize("lowered", LOWERED)
async def test_a_group_rebalances_after_the_limits_of_its_topic_were_lowered(
    tmp_path: Path, lowered: dict[str, int]
) -> None:
    async with GroupBroker(tmp_path) as broker:
        configure(broker.partition, **lowered)
        joined = await broker.join(protocols=(offered("range", bytes(200_000)),))
        sync = syncing(GROUP, joined.member_id, {joined.member_id: b"all"})
        assert (await broker.handlers.classic.sync(sync, CONTEXT)).assignment == b"all"


async def test_only_the_size_of_coordinators_batches_is_exempt(tmp_path: Path) -> None:
    """They are recompressed as the topic demands, and the result may be of any size, too."""
    here = Coordinating(tmp_path)
    partition = await here.leading(compression_type="gzip", cleanup_policy=("compact",), max_message_bytes=0)
    assert await here.do(Add(1, padding=100_000)) == 1
    (batch,) = split(partition.log.read(Offset(0), 1 << 20, partition.log.log_end_offset))
    assert batch[0].codec is Codec.GZIP
    await here.close()


async def test_a_command_and_a_timer_that_are_too_large_are_logged_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_sizes, "BATCH_BYTES_MIN", 0)
    here = Coordinating(tmp_path)
    await here.leading(max_message_bytes=1_000)
    with capture_logs() as logs:
        for _ in range(3):
            assert await here.do(Add(1, padding=1_000)) is ErrorCode.UNKNOWN_SERVER_ERROR
        await asyncio.sleep(record_sizes.LOG_S)
        await here.do(AddLater("large", 10**1_000, 0))
        await asyncio.sleep(10 * RETRY_MS / 1_000)
    await here.close()
    refused = [event for event in logs if event["event"] == "coordinator write too large"]
    assert [event["task"] for event in refused] == ["Add", "timer str"]
    assert "raise max.message.bytes" in refused[0]["reason"]
