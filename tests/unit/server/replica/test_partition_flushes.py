"""A replica asks for syncs that nobody waits for, and rolls its segment for retention and compaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from tests.support.server.replicas import Broker, append_to, batch, lead, made, outcome

pytestmark = pytest.mark.real_time


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


# --- flushing with the page cache ----------------------------------------------------------------------------


def test_with_the_page_cache_a_sync_is_requested_after_flush_messages(broker: Broker) -> None:
    broker.sync_before_ack = False
    partition = broker.open(flush_messages=3)
    lead(partition, replicas=(1,))
    append_to(partition, batch("a", "b"), 1)
    assert broker.unsynced == []
    partition.append(batch("c"), 1)
    assert broker.unsynced == [partition.replica_log]
    broker.sync()
    partition.append(batch("d", "e"), 1)
    assert broker.unsynced == []


def test_with_the_page_cache_unsynced_bytes_are_limited(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.server.replica.replica_log.UNSYNCED_BYTES_MAX", 2 * len(batch("a")))
    broker.sync_before_ack = False
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    assert broker.unsynced == []
    append_to(partition, batch("b"), 1)
    assert broker.unsynced == [partition.replica_log]
    assert partition.high_watermark == 2, "nobody waits for it"


def test_a_record_that_waits_for_its_flush_is_counted_from_its_own_time(broker: Broker) -> None:
    broker.sync_before_ack = False
    partition = broker.open(flush_ms=1_000)
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.now_ms = 600
    append_to(partition, batch("b"), 1)
    partition.replica_log.flush_if_due()
    assert broker.unsynced == []
    broker.now_ms = 1_000
    partition.replica_log.flush_if_due()
    assert broker.unsynced == [partition.replica_log]
    broker.sync()
    partition.append(batch("c"), 1)
    broker.now_ms = 1_900
    partition.replica_log.flush_if_due()
    assert broker.unsynced == []


def test_with_syncs_before_acks_nothing_waits_to_be_flushed(broker: Broker) -> None:
    partition = broker.open(flush_ms=0, flush_messages=1)
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync()
    broker.now_ms = 50_000
    partition.replica_log.flush_if_due()
    assert broker.unsynced == []


# --- upkeep --------------------------------------------------------------------------------------------------


async def test_a_roll_for_retention_completes_produces_that_wait_for_a_sync(broker: Broker) -> None:
    partition = broker.open(segment_ms=1)
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), -1)
    waiting = partition.park_produce(Offset(1))
    broker.wall_ms += 2
    made(partition, partition.apply_retention())
    assert len(partition.log.segments()) == 2
    assert outcome(waiting) is ErrorCode.NONE


def test_the_active_segment_is_rolled_when_a_record_has_waited_too_long_to_be_compacted(broker: Broker) -> None:
    partition = broker.open(cleanup_policy=("compact",), max_compaction_lag_ms=10_000, segment_ms=10**15)
    lead(partition, replicas=(1,))
    append_to(partition, build_batch([Record(0, broker.wall_ms, b"k", b"v")]), 1)
    broker.sync()
    broker.wall_ms += 10_000
    made(partition, partition.apply_retention())
    assert len(partition.log.segments()) == 1
    broker.wall_ms += 1
    made(partition, partition.apply_retention())
    assert len(partition.log.segments()) == 2


async def test_an_append_without_room_after_its_roll_leaves_no_produce_waiting(broker: Broker) -> None:
    partition = broker.open(segment_bytes=250)
    lead(partition, replicas=(1,))
    append_to(partition, batch("a" * 100), -1)
    waiting = partition.park_produce(Offset(1))
    broker.disk.appends_left = 0
    with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
        append_to(partition, batch("b" * 100), -1)
    assert not partition.log.dirty
    broker.sync()
    assert outcome(waiting) is ErrorCode.NONE
