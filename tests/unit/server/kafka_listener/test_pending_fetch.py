from __future__ import annotations

from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartitionResult, FetchResponse
from kraft.server.kafka_listener.fetch_sessions import FetchKey
from kraft.server.kafka_listener.pending_fetch import FetchState, PendingFetch, WantedPartition
from kraft.wire.schema.fetch import FetchPartition


def wanted(number: int, topic: str | None = "orders") -> WantedPartition:
    partition = FetchPartition(partition=number, fetch_offset=10 + number, partition_max_bytes=1_000)
    return WantedPartition(FetchKey("", UUID(int=1 if topic else 2), number), topic, partition)


def pending(*partitions: WantedPartition) -> PendingFetch:
    return PendingFetch(
        wanted=partitions or [wanted(0)],
        session=None,
        reads_committed=False,
        min_bytes=1,
        max_bytes=5_000,
        records_wait_ms=100,
        room_wait_ms=500,
    )


def answer(*numbers: int, records: bytes = b"records") -> FetchResponse:
    results = [
        FetchPartitionResult(
            topic="orders", partition=number, error_code=ErrorCode.NONE, high_watermark=7, records=records
        )
        for number in numbers
    ]
    return FetchResponse(request_id=0, partitions=results)


def records_of(fetch: PendingFetch) -> list[bytes | None]:
    return [None if result is None else bytes(result.records) for _, result in fetch.results()]


def test_what_was_read_is_the_answer_when_there_is_room() -> None:
    fetch = pending()
    fetch.read(answer(0), has_room=True, now_s=1)
    assert (fetch.state, records_of(fetch)) == (FetchState.ANSWERED, [b"records"])


def test_without_room_it_waits_keeps_no_records_and_is_read_again() -> None:
    fetch = pending()
    fetch.read(answer(0), has_room=False, now_s=1)
    assert (fetch.state, fetch.deadline_s) == (FetchState.WAITING_FOR_ROOM, 1.5)
    fetch.waited(has_room=True)
    assert fetch.state is FetchState.READING
    fetch.read(answer(0, records=b"more"), has_room=True, now_s=1.2)
    assert (fetch.state, records_of(fetch)) == (FetchState.ANSWERED, [b"more"])


def test_when_the_time_is_over_the_answer_has_everything_but_records() -> None:
    fetch = pending()
    fetch.read(answer(0), has_room=False, now_s=1)
    fetch.waited(has_room=False)
    ((_, result),) = fetch.results()
    assert fetch.state is FetchState.ANSWERED
    assert result is not None
    assert (result.records, result.high_watermark) == (b"", 7)


def test_a_fetch_that_finds_no_room_again_keeps_its_deadline() -> None:
    fetch = pending()
    for now_s in (1, 1.2, 1.4):
        fetch.read(answer(0), has_room=False, now_s=now_s)
        assert (fetch.state, fetch.deadline_s) == (FetchState.WAITING_FOR_ROOM, 1.5)
        fetch.waited(has_room=True)


@pytest.mark.parametrize(("room_bytes", "max_bytes"), [(None, 5_000), (9_000, 5_000), (300, 300), (0, 1)])
def test_no_more_is_read_than_there_is_room_for_and_a_batch_always(room_bytes: int | None, max_bytes: int) -> None:
    request = pending().request(room_bytes)
    assert (request.max_bytes, request.max_wait_ms, request.min_bytes) == (max_bytes, 100, 1)


def test_results_belong_to_the_partitions_that_are_known_and_nothing_waits_for_others() -> None:
    fetch = pending(wanted(0), wanted(1, topic=None), wanted(2))
    request = fetch.request(None)
    assert [(each.topic, each.partition, each.fetch_offset) for each in request.partitions] == [
        ("orders", 0, 10),
        ("orders", 2, 12),
    ]
    assert request.max_wait_ms == 0
    fetch.read(answer(0, 2), has_room=True, now_s=1)
    found = [(key.partition, result.partition if result else None) for key, result in fetch.results()]
    assert found == [(0, 0), (1, None), (2, 2)]
