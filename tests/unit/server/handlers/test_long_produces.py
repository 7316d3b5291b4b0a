"""Produce requests with so many entries that they are appended in several turns of the loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kraft.log.append_work import AppendMustWait, AppendResult
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset, TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest, ProduceResponse
from kraft.server.handlers.long_produces import (
    ENTRIES_AT_ONCE,
    ENTRY_BYTES,
    LONG_FROM,
    ROOM_S_MAX,
    WAITING_MAX,
    LongProduces,
    PackedEntries,
)
from kraft.server.handlers.produce import TURN_S_MIN
from kraft.server.replica.partition import ProduceOutcome
from kraft.server.replica.waiting_appends import WaitingAppends, WaitingClient
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, batch, follow, lead_begun, settle, values_in
from tests.support.turn_counter import TurnCounter

ENTRIES = LONG_FROM + 500
HOUR_MS = 3_600_000


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A broker that leads three partitions alone."""
    broker = Broker(tmp_path, sync_before_ack=False)
    for number in range(3):
        lead_begun(broker.open(TopicPartition("orders", number)), replicas=(1,))
    return broker


def entries(count: int, *partitions: int) -> list[ProducePartition]:
    """Return entries for the partitions in turn, each with its number as its value."""
    return [
        ProducePartition(
            topic="orders", partition=partitions[number % len(partitions)], records=memoryview(batch(str(number)))
        )
        for number in range(count)
    ]


def request(partitions: list[ProducePartition], acks: int = 1, timeout_ms: int = 30_000) -> ProduceRequest:
    return ProduceRequest(request_id=7, acks=acks, timeout_ms=timeout_ms, partitions=partitions)


def values(broker: Broker, number: int) -> list[str]:
    return values_in(broker.partitions.by_name("orders", number))


async def answered(answer: object) -> ProduceResponse:
    response = await answer if asyncio.isfuture(answer) or asyncio.iscoroutine(answer) else answer
    assert isinstance(response, ProduceResponse)
    return response


def offsets(response: ProduceResponse) -> list[int]:
    return [each.base_offset for each in response.partitions]


async def test_each_entry_has_its_result_in_the_order_of_the_request_and_others_have_turns(broker: Broker) -> None:
    begun = produce_handler(broker.partitions).handle(request(entries(ENTRIES, 0, 1)))
    async with TurnCounter() as others:
        response = await answered(begun)
    assert others.turns >= ENTRIES / ENTRIES_AT_ONCE
    assert [(each.partition, each.base_offset) for each in response.partitions] == [
        (number % 2, number // 2) for number in range(ENTRIES)
    ]
    assert values(broker, 1) == [str(number) for number in range(1, ENTRIES, 2)]


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_later_request_does_not_overtake_the_rest_of_a_long_one(broker: Broker, acks: int) -> None:
    handler = produce_handler(broker.partitions)
    long = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0, 1), acks)))
    later = asyncio.ensure_future(handler.handle(request(entries(2, 2, 0), acks)))
    assert values(broker, 2) == ["0"]
    (elsewhere, behind) = (await answered(later)).partitions
    assert (elsewhere.base_offset, behind.base_offset) == (0, ENTRIES // 2)
    assert values(broker, 0)[-1] == "1"
    await long


async def test_the_clients_next_request_waits_for_the_rest_of_a_long_one(broker: Broker) -> None:
    client = WaitingClient()
    begun = produce_handler(broker.partitions).begin(request(entries(ENTRIES, 0)), client)
    assert client.has_to_wait
    await answered(begun)
    assert not client.has_to_wait


async def test_the_records_are_copied_before_a_long_request_is_begun(broker: Broker) -> None:
    received = bytearray(batch("sent"))
    wanted = [ProducePartition(topic="orders", partition=0, records=memoryview(received))] * ENTRIES
    begun = produce_handler(broker.partitions).begin(request(wanted))
    received[:] = bytes(len(received))
    await answered(begun)
    assert values(broker, 0) == ["sent"] * ENTRIES


async def test_what_is_not_appended_in_time_is_refused_and_never_appended(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = produce_handler(broker.partitions)
    append = handler._append_partition

    def slowly(*arguments: object) -> object:
        # The clock of this test goes on by itself only while all tasks wait.
        monkeypatch.setattr(
            asyncio.get_running_loop(), "time", lambda: began_s + len(values(broker, 0)) * TURN_S_MIN / 3
        )
        return append(*arguments)  # type: ignore[arg-type]

    began_s = asyncio.get_running_loop().time()
    monkeypatch.setattr(handler, "_append_partition", slowly)
    response = await answered(handler.handle(request(entries(ENTRIES, 0), timeout_ms=0)))
    codes = [each.error_code for each in response.partitions]
    appended = codes.count(ErrorCode.NONE)
    assert codes == [ErrorCode.NONE] * appended + [ErrorCode.REQUEST_TIMED_OUT] * (ENTRIES - appended)
    await settle()
    assert len(values(broker, 0)) == appended < 10


async def test_the_rest_of_a_request_whose_client_is_gone_is_appended_and_nothing_waits_for_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, parked = broker.partitions.by_name("orders", 0), list[asyncio.Future[ErrorCode]]()
    lead_begun(partition, epoch=1)
    park = partition.park_produce

    def noted(required: Offset) -> ProduceOutcome:
        parked.append(outcome := park(required))  # type: ignore[arg-type]  # It waits for the replicas.
        return outcome

    monkeypatch.setattr(partition, "park_produce", noted)
    client = WaitingClient()
    begun = produce_handler(broker.partitions).begin(request(entries(ENTRIES, 0), acks=-1), client)
    answer = asyncio.ensure_future(begun)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    answer.cancel()
    await settle()
    assert len(values(broker, 0)) == ENTRIES
    assert not client.has_to_wait
    assert len(parked) == ENTRIES
    assert all(outcome.cancelled() for outcome in parked)
    follow(partition, epoch=2)


async def test_the_memory_of_empty_entries_counts(broker: Broker) -> None:
    handler = produce_handler(broker.partitions, WaitingAppends(bytes_max=ENTRIES * ENTRY_BYTES))
    empty = [ProducePartition(topic="orders", partition=0, records=memoryview(b""))] * ENTRIES
    first = asyncio.ensure_future(handler.handle(request(empty)))
    response = await answered(handler.handle(request(entries(ENTRIES, 1))))
    assert {each.error_code for each in response.partitions} == {ErrorCode.REQUEST_TIMED_OUT}
    await first


async def test_a_long_request_without_room_is_refused_as_a_whole(broker: Broker) -> None:
    waiting = WaitingAppends(bytes_max=1 << 10)
    handler = produce_handler(broker.partitions, waiting)
    first = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0))))
    response = await answered(handler.handle(request(entries(ENTRIES, 1))))
    assert {each.error_code for each in response.partitions} == {ErrorCode.REQUEST_TIMED_OUT}
    assert values(broker, 1) == []
    await first
    assert waiting.waiting_bytes == 0


async def test_entries_that_wait_at_their_partition_are_few_at_a_time() -> None:
    waiting: list[asyncio.Future[None]] = []

    def append(entry: ProducePartition) -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        rest.wait_for(waiting[-1])

    until_s = asyncio.get_running_loop().time() + 60
    rest = LongProduces(WaitingAppends()).join(entries(ENTRIES, 0), 0, append, lambda entry, refusal: None, until_s)
    while not rest.over.done():
        await settle()
        assert len(waiting) <= WAITING_MAX
        for outcome in waiting:
            outcome.set_result(None)
        waiting.clear()
    assert rest.is_empty


# --- a partition whose disk hangs ----------------------------------------------------------------------------


class Hanging:
    """The change of a log that waits for its disk until `ends`."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partition = broker.partitions.by_name("orders", 0)
        self._ended = asyncio.Event()
        self._append = self.partition.append
        monkeypatch.setattr(self.partition, "append", self.append)

    def append(self, *arguments: Any) -> AppendResult:
        if not self._ended.is_set():
            raise AppendMustWait(self)
        return self._append(*arguments)

    async def wait(self) -> None:
        await self._ended.wait()

    def ends(self) -> None:
        self._ended.set()


@pytest.fixture
def hanging(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """The disk of `orders-0` hangs."""
    return Hanging(broker, monkeypatch)


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def test_long_requests_to_other_partitions_do_not_wait_for_one_that_hangs(
    broker: Broker, hanging: Hanging
) -> None:
    handler, began_s = produce_handler(broker.partitions), now_s()
    hung = [asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0), timeout_ms=HOUR_MS))) for _ in range(3)]
    long = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 1))))
    behind = await answered(handler.handle(request(entries(1, 1))))
    assert offsets(behind) == [ENTRIES]
    assert offsets(await answered(long)) == list(range(ENTRIES))
    assert now_s() == began_s
    assert len(hanging.partition.waiting_appends.waiting) == WAITING_MAX
    hanging.ends()
    for number, each in enumerate(hung):
        assert offsets(await answered(each)) == list(range(number * ENTRIES, (number + 1) * ENTRIES))


async def test_a_partition_that_a_hanging_request_names_waits_for_it_so_long_and_no_longer(
    broker: Broker, hanging: Hanging
) -> None:
    handler, began_s = produce_handler(broker.partitions), now_s()
    hung = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0, 1), timeout_ms=HOUR_MS)))
    await settle()
    appended = values(broker, 1)
    assert 0 < len(appended) <= WAITING_MAX
    again = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0, 1), timeout_ms=HOUR_MS)))
    behind = await answered(handler.handle(request(entries(1, 1))))
    assert now_s() - began_s == pytest.approx(ROOM_S_MAX)
    (behind_it,) = behind.partitions
    assert behind_it.error_code is ErrorCode.NONE
    hanging.ends()
    codes: Counter[ErrorCode] = Counter()
    for each in (hung, again):
        codes.update(result.error_code for result in (await answered(each)).partitions)
    in_time = len(values(broker, 0)) + len(values(broker, 1)) - 1
    assert codes == {ErrorCode.NONE: in_time, ErrorCode.REQUEST_TIMED_OUT: 2 * ENTRIES - in_time}
    assert in_time <= 4 * WAITING_MAX
    assert behind_it.base_offset == len(values(broker, 1)) - 1
    assert values(broker, 1)[: len(appended)] == appended


async def test_who_waits_behind_a_hanging_request_is_not_overtaken(broker: Broker, hanging: Hanging) -> None:
    handler, began_s = produce_handler(broker.partitions), now_s()
    hung = asyncio.ensure_future(handler.handle(request(entries(ENTRIES, 0, 1))))
    behind = asyncio.ensure_future(handler.handle(request(entries(4 * ENTRIES, 1, 2))))
    last = asyncio.ensure_future(handler.handle(request(entries(1, 2))))
    await settle()
    assert values(broker, 2) == []
    hanging.ends()
    while not values(broker, 2):
        await settle()
    assert not behind.done()
    assert offsets(await answered(handler.handle(request(entries(1, 1))))) == [ENTRIES // 2 + 2 * ENTRIES]
    assert offsets(await answered(last)) == [2 * ENTRIES]
    await asyncio.gather(hung, behind)
    numbers = [str(number) for number in range(4 * ENTRIES)]
    assert values(broker, 1) == [*numbers[1:ENTRIES:2], *numbers[::2], "0"]
    assert values(broker, 2) == [*numbers[1::2], "0"]
    assert now_s() == began_s


def test_packed_entries_are_those_that_were_packed() -> None:
    wanted = entries(5, 0, 1)
    packed = PackedEntries.of(wanted)
    assert list(packed) == wanted
    assert packed[3:] == wanted[3:]
    assert PackedEntries.of(packed) is packed
