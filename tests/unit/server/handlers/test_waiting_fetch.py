"""Fetches that wait: what they read again, what they keep, and what they return."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartitionResult
from kraft.server.handlers import fetch as fetch_module
from kraft.server.handlers import fetch_results
from kraft.server.handlers.fetch import FetchHandler, Room
from kraft.server.handlers.fetch_results import FetchResults, PartitionRead, ReadBounds
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.server.replica.partition import Partition
from kraft.server.replica.replica_log import ReplicaLog
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.replicas import Broker, append_to, batch, follow, made, remove_directory, settle, values_of
from tests.support.virtual_time import run_virtually
from tests.unit.server.handlers.fetches import asking, codes, committed, request, values


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


class Reads:
    """Number of reads of each partition's log, and the values that each read found."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counted: Counter[int] = Counter()
        self.found: list[list[str]] = []
        read = ReplicaLog.read

        def counting(log: ReplicaLog, *arguments: Any) -> bytes:
            self.counted[log.log.topic_partition.partition] += 1
            records = read(log, *arguments)
            self.found.append(values_of(records))
            return records

        monkeypatch.setattr(ReplicaLog, "read", counting)


def append(broker: Broker, partition: Partition, *values: str) -> None:
    for value in values:
        append_to(partition, batch(value), 1)
    broker.sync()


@pytest.mark.parametrize("turn_s_max", [fetch_module.TURN_S_MAX, 0.0])
async def test_a_consumer_that_waits_in_vain_reads_every_partition_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, turn_s_max: float
) -> None:
    monkeypatch.setattr(fetch_module, "TURN_S_MAX", turn_s_max)
    for number in range(3):
        committed(broker, "a", number=number)
    reads = Reads(monkeypatch)
    wanted = request(*[asking(1, number=number) for number in range(3)], max_wait_ms=500)
    begun = fetch_handler(broker.partitions).begin(wanted)
    assert isinstance(begun, Awaitable)
    assert values(await begun) == [[], [], []]
    assert reads.counted == {0: 1, 1: 1, 2: 1}


async def test_a_consumer_that_waits_reads_again_only_what_has_changed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [committed(broker, number=number) for number in range(3)]
    reads = Reads(monkeypatch)
    size = len(batch("a"))
    asked = [asking(number=number) for number in range(3)]
    wanted = request(*asked, max_wait_ms=60_000, min_bytes=3 * size, max_bytes=1 << 21)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    for number, value in ((1, "a"), (0, "b"), (1, "c")):
        assert not waiting.done()
        append(broker, held[number], value)
        await settle()
    assert values(await waiting) == [["b"], ["a", "c"], []]
    assert reads.counted == {0: 2, 1: 3, 2: 1}


async def test_a_consumer_that_waits_for_more_does_not_read_again_what_it_has(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = committed(broker, "a")
    reads = Reads(monkeypatch)
    wanted = request(asking(), max_wait_ms=60_000, min_bytes=4 * len(batch("a")), max_bytes=1 << 21)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    for value in "bcd":
        assert not waiting.done()
        append(broker, partition, value)
        await settle()
    assert values(await waiting) == [["a", "b", "c", "d"]]
    assert reads.found == [["a"], ["b"], ["c"], ["d"]]


async def test_waiting_fetches_keep_so_many_records_and_no_more(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, size = committed(broker, "a"), len(batch("a"))
    reads = Reads(monkeypatch)
    handler = fetch_handler(broker.partitions, waiting_bytes_max=2 * size)
    wanted = request(asking(), max_wait_ms=60_000, min_bytes=3 * size, max_bytes=1 << 21)
    waiting = [asyncio.ensure_future(handler.handle(wanted)) for _ in range(4)]
    await settle()
    assert handler._waiting_bytes.held == 2 * size, "two of the four"
    reads.found.clear()
    append(broker, partition, "b")
    await settle()
    assert reads.found == [["b"]] * 4, "what was counted is not read again during the wait"
    assert handler._waiting_bytes.held <= 2 * size
    assert not any(fetch.done() for fetch in waiting)
    append(broker, partition, "c")
    assert [values(response) for response in await asyncio.gather(*waiting)] == [[["a", "b", "c"]]] * 4
    assert reads.found.count(["a", "b", "c"]) >= 2, "what was dropped is read for the response"
    assert handler._waiting_bytes.held == 0


async def test_a_fetch_that_drops_its_records_leaves_their_room_to_others(broker: Broker) -> None:
    partition, size = committed(broker, "a"), len(batch("a"))
    handler = fetch_handler(broker.partitions, waiting_bytes_max=size)
    waiting = asyncio.ensure_future(handler.handle(request(asking(), max_wait_ms=500, min_bytes=1 << 20)))
    await settle()
    assert handler._waiting_bytes.held == size
    append(broker, partition, "b")
    await settle()
    assert handler._waiting_bytes.held == 0
    assert values(await waiting) == [["a", "b"]]


@pytest.mark.parametrize("waiting_bytes_max", [0, 1 << 20])
async def test_a_wait_that_ends_in_time_gives_what_it_found(broker: Broker, waiting_bytes_max: int) -> None:
    committed(broker, "a", "b")
    handler = fetch_handler(broker.partitions, waiting_bytes_max)
    waiting = asyncio.ensure_future(handler.handle(request(asking(), max_wait_ms=500, min_bytes=1 << 20)))
    await settle()
    assert handler._waiting_bytes.held == (2 * len(batch("a")) if waiting_bytes_max else 0)
    assert values(await waiting) == [["a", "b"]]
    waiting = asyncio.ensure_future(handler.handle(request(asking(), max_wait_ms=500, min_bytes=1 << 20)))
    await settle()
    waiting.cancel()
    await settle()
    assert handler._waiting_bytes.held == 0


async def test_small_batches_that_came_one_by_one_are_answered_at_the_limit_of_a_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_results, "READ_BATCHES_MAX", 3)
    partition = committed(broker, "a")
    wanted = request(asking(), max_wait_ms=60_000, min_bytes=1 << 20)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    for value in "bc":
        await settle()
        assert not waiting.done()
        append(broker, partition, value)
    assert values(await waiting) == [["a", "b", "c"]]


async def test_what_a_consumer_has_is_dropped_when_another_leads(broker: Broker) -> None:
    partition = committed(broker, "a")
    wanted = request(asking(), max_wait_ms=60_000, min_bytes=1 << 20)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    follow(partition, epoch=1)
    assert codes(await waiting) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_log_that_begins_later_by_now_is_read_again(broker: Broker) -> None:
    first, second = [committed(broker, "a", "b", number=number) for number in range(2)]
    wanted = request(asking(2), asking(2, number=1), max_wait_ms=60_000)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    made(second, second.delete_records(1)[1])
    append(broker, first, "c")
    response = await waiting
    assert values(response) == [["c"], []]
    assert [result.log_start_offset for result in response.partitions] == [0, 1]


async def test_an_offset_below_a_log_start_that_has_advanced_is_refused(broker: Broker) -> None:
    first, second = [committed(broker, "a", "b", number=number) for number in range(2)]
    wanted = request(asking(2), asking(0, number=1), max_wait_ms=60_000, min_bytes=1 << 20)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    made(second, second.delete_records(1)[1])
    append(broker, first, "c")
    assert codes(await waiting) == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_nothing_of_a_topic_that_was_deleted_is_given_when_another_has_its_name(broker: Broker) -> None:
    deleted = committed(broker, "old")
    waiting = asyncio.ensure_future(
        fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=1_000, min_bytes=1 << 20))
    )
    await settle()
    broker.partitions.remove(deleted)
    deleted.retire()
    remove_directory(deleted)
    committed(broker, "new")
    assert values(await waiting) == [["new"]]


async def test_what_changes_while_partitions_are_read_again_is_not_missed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is read in a turn of its own, and the first one changes once more when its turn is over."""
    monkeypatch.setattr(fetch_module, "TURN_S_MAX", 0.0)
    held = [committed(broker, number=number) for number in range(20)]
    size, loop = len(batch("a")), asyncio.get_running_loop()
    wanted = request(*[asking(number=number) for number in range(20)], max_wait_ms=60_000, min_bytes=2 * size)
    reads = Reads(monkeypatch)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    began = loop.time()
    append(broker, held[0], "a")
    for _ in range(50):
        if ["a"] not in reads.found:
            await asyncio.sleep(0)
    append(broker, held[0], "b")
    assert values(await waiting)[0] == ["a", "b"]
    assert loop.time() == began


async def test_a_wait_that_is_over_ends_though_changes_go_on(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at the partitions takes several turns of the loop, and in each of them one changes."""
    monkeypatch.setattr(fetch_module, "TURN_S_MAX", 0.0)
    held = [committed(broker, "a", number=number) for number in range(3)]
    wanted = request(*[asking(number=number) for number in range(3)], max_wait_ms=0, min_bytes=1 << 20)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    for _ in range(20):
        held[1].committed.notify()
        await asyncio.sleep(0)
    assert waiting.done()


# --- room for the response ---------------------------------------------------------------------------------------

BYTES_MAX = 100_000
LARGE = "a" * 20_000


def without_room() -> UnreadResponses:
    unread = UnreadResponses(BYTES_MAX)
    unread.note("who does not read", BYTES_MAX)
    return unread


def begun(handler: FetchHandler, unread: UnreadResponses, wait_ms: int = 5_000, **fields: int) -> asyncio.Future[Any]:
    begun = handler.begin(request(asking(), **fields), Room(unread, wait_ms))
    assert isinstance(begun, Awaitable), "there was room"
    return asyncio.ensure_future(begun)


async def test_without_room_no_records_are_kept_and_they_are_read_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, unread = committed(broker, LARGE), without_room()
    reads, handler = Reads(monkeypatch), fetch_handler(broker.partitions)
    waiting = begun(handler, unread, max_wait_ms=500, min_bytes=1 << 19)
    await asyncio.sleep(0.5)
    await settle()
    assert (reads.found, handler._waiting_bytes.held) == ([[LARGE]], 0)
    append(broker, partition, LARGE)
    unread.note("who does not read", 0)
    assert values(await waiting) == [[LARGE, LARGE]]
    assert reads.found == [[LARGE], [LARGE, LARGE]]


def test_a_result_that_replaces_another_takes_its_room() -> None:
    """Records are dropped if the aborted transactions among them cannot be looked up in time."""

    def read(records: bytes) -> PartitionRead:
        result = FetchPartitionResult(topic="orders", partition=0, error_code=ErrorCode.NONE, records=records)
        return PartitionRead(result, None, ReadBounds(100, at_least_one=True))

    results = FetchResults(request(asking(), asking(number=1)), 100)
    results.add(read(b"ten bytes."))
    results.add(read(b"five."))
    results.replace(0, read(b""))
    assert results.found_bytes == 5


async def test_no_more_is_read_than_there_is_room_for_and_a_batch_always(broker: Broker) -> None:
    committed(broker, LARGE, LARGE)
    for room_bytes, count in ((BYTES_MAX, 2), (len(batch(LARGE)) + 1, 1), (1, 1)):
        unread = UnreadResponses(BYTES_MAX)
        unread.note("who does not read", BYTES_MAX - room_bytes)
        response = fetch_handler(broker.partitions).begin(request(asking()), Room(unread, 0))
        assert not isinstance(response, Awaitable)
        assert values(response) == [[LARGE] * count]


async def test_when_no_room_comes_the_answer_has_everything_but_records(broker: Broker) -> None:
    committed(broker, LARGE)
    loop = asyncio.get_running_loop()
    began = loop.time()
    response = await begun(fetch_handler(broker.partitions), without_room(), max_wait_ms=60_000)
    (result,) = response.partitions
    assert loop.time() - began == pytest.approx(5)
    assert (result.records, result.high_watermark, result.error_code) == (b"", 1, ErrorCode.NONE)


async def test_a_fetch_that_finds_no_room_again_keeps_its_deadline(broker: Broker) -> None:
    committed(broker, LARGE)
    loop, unread = asyncio.get_running_loop(), without_room()
    began = loop.time()
    waiting = begun(fetch_handler(broker.partitions), unread)
    for _ in range(4):
        await asyncio.sleep(1)
        unread.note("who does not read", 0)
        unread.note("another who does not read", BYTES_MAX)
        await settle()
        assert not waiting.done()
        unread.note("who does not read", BYTES_MAX)
        unread.note("another who does not read", 0)
    assert values(await waiting) == [[]]
    assert loop.time() - began == pytest.approx(5)


async def test_a_response_is_counted_when_it_is_made_and_one_that_is_not_wanted_any_more_never(broker: Broker) -> None:
    committed(broker, LARGE)
    unread = without_room()
    left = begun(fetch_handler(broker.partitions), unread)
    waiting = begun(fetch_handler(broker.partitions), unread)
    await settle()
    left.cancel()
    unread.note("who does not read", 0)
    assert values(await waiting) == [[LARGE]]
    assert unread.budget.held_most == BYTES_MAX
    await settle()
    assert (unread.budget.held, unread.budget.waiting_count) == (0, 0)


@given(
    appends=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=6),
    late=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), min_size=1, max_size=4),
    bytes_max=st.integers(1, 2_000),
    partition_bytes_max=st.integers(1, 1_500),
    waiting_bytes_max=st.sampled_from([0, 300, 1 << 20]),
)
# While the first partition is empty, the second one's first batch is returned whatever its size; later it is not.
@example(appends=[(1, 300)], late=[(0, 0)], bytes_max=2_000, partition_bytes_max=100, waiting_bytes_max=0)
# The third partition finds no room at first, and has some when the second no longer fits behind the first.
@example(appends=[(0, 0), (1, 65), (2, 0)], late=[(0, 45)], bytes_max=249, partition_bytes_max=313, waiting_bytes_max=0)
@settings(max_examples=60, deadline=None)
def test_what_is_read_in_two_steps_is_what_one_read_gives(
    tmp_path_factory: pytest.TempPathFactory,
    appends: list[tuple[int, int]],
    late: list[tuple[int, int]],
    bytes_max: int,
    partition_bytes_max: int,
    waiting_bytes_max: int,
) -> None:
    """Holds for any bounds: some of the records arrive while the request waits, whose records may be dropped."""

    async def scenario() -> None:
        broker = Broker(tmp_path_factory.mktemp("logs"))
        held = [committed(broker, number=number) for number in range(3)]
        for number, size in appends:
            append(broker, held[number], "x" * size)
        partitions = [asking(number=number, bytes_max=partition_bytes_max) for number in range(3)]
        handler = fetch_handler(broker.partitions, waiting_bytes_max)
        wanted = request(*partitions, max_wait_ms=1_000, min_bytes=bytes_max, max_bytes=bytes_max)
        waiting = asyncio.ensure_future(handler.handle(wanted))
        await settle()
        if waiting.done():
            return
        for number, size in late:
            append(broker, held[number], "x" * size)
        at_once = await handler.handle(request(*partitions, max_bytes=bytes_max))
        assert values(await waiting) == values(at_once)

    run_virtually(scenario())
