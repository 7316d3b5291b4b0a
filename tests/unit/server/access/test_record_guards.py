from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final

import pytest

from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.produce import ProducePartition, ProduceRequest, ProduceResponse
from kraft.rpc.client_gate import CALLER, Caller
from kraft.server.access import record_guards
from tests.support.acl_entries import entry
from tests.unit.server.access.cases import CASES
from tests.unit.server.access.record_cases import PLAIN_BATCH, TRANSACTIONAL_BATCH
from tests.unit.server.access.world import World, run

TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(params=[1_000, 0], ids=["at once", "in turns"], autouse=True)
def asked_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Requests are answered as if they named very many topics, too."""
    count: int = request.param
    monkeypatch.setattr(record_guards, "ASKED_AT_ONCE", count or 1)
    return count


def produce_of(*topics: str, acks: int = -1, records: bytes = PLAIN_BATCH, **more: Any) -> ProduceRequest:
    partitions = [ProducePartition(topic=each, partition=at, records=records) for at, each in enumerate(topics)]
    return ProduceRequest(request_id=1, acks=acks, timeout_ms=1, partitions=partitions, **more)


def produced(world: World, request: ProduceRequest) -> tuple[ProduceResponse | None, list[ProduceRequest]]:
    appended: list[ProduceRequest] = []

    def begin(request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        # What has to be in order is done before anything is awaited.
        appended.append(request)

        async def answer() -> ProduceResponse | None:
            return None if request.acks == 0 else CASES["Produce"].answer(request)

        return answer()

    async def go() -> ProduceResponse | None:
        begun = record_guards.produce(world.asker(), request, begin)
        assert not appended or len(appended) == 1
        return await begun

    return run(go()), appended


def test_records_of_topics_that_one_may_write_are_appended_and_results_keep_the_order() -> None:
    world = World([entry("orders", Operation.WRITE)])
    response, appended = produced(world, produce_of("orders", "secret", "orders"))
    assert response is not None
    assert [(each.partition, each.error_code) for each in response.partitions] == [(0, 0), (1, TOPIC_REFUSED), (2, 0)]
    assert [each.partition for each in appended[0].partitions] == [0, 2]


def test_the_next_request_of_a_stream_is_read_once_a_long_one_is_appended(asked_at_once: int) -> None:
    world, caller, appended = World([entry("orders", Operation.WRITE)]), Caller(), list[ProduceRequest]()

    async def answer(request: ProduceRequest) -> ProduceResponse:
        response: ProduceResponse = CASES["Produce"].answer(request)
        return response

    def begin(request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        appended.append(request)
        return answer(request)

    async def go() -> None:
        token = CALLER.set(caller)
        begun = asyncio.ensure_future(record_guards.produce(world.asker(), produce_of("orders", "orders"), begin))
        CALLER.reset(token)
        assert caller.pace.is_paused == (not appended) == (not asked_at_once)
        # Its client disconnects.
        begun.cancel()
        await caller.pace.over()
        assert len(appended) == 1

    run(go())


def test_a_refused_produce_without_acknowledgement_ends_the_stream() -> None:
    with pytest.raises(Refusal) as refused:
        produced(World([entry("orders", Operation.WRITE)]), produce_of("orders", "secret", acks=0))
    assert refused.value.error_code is TOPIC_REFUSED


@pytest.mark.parametrize("transactional_id", ["", "payments"])
def test_records_of_a_transaction_need_its_id(transactional_id: str) -> None:
    world = World([entry("orders", Operation.WRITE)])
    request = produce_of("orders", "secret", records=TRANSACTIONAL_BATCH, transactional_id=transactional_id)
    response, appended = produced(world, request)
    assert response is not None
    assert {each.error_code for each in response.partitions} == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert not appended
    response, appended = produced(world, produce_of("orders", transactional_id=transactional_id))
    assert appended, "these are of no transaction"


def test_records_of_a_transaction_need_an_id_also_of_those_who_may_write_all() -> None:
    everything = entry("*", Operation.ALL, resource_type=ResourceType.TRANSACTIONAL_ID)
    world = World([entry("orders", Operation.WRITE), everything])
    assert not produced(world, produce_of("orders", records=TRANSACTIONAL_BATCH))[1]
    assert produced(world, produce_of("orders", records=TRANSACTIONAL_BATCH, transactional_id="any"))[1]


def fetch_of(*topics: str) -> FetchRequest:
    return FetchRequest(
        request_id=1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=100,
        partitions=[
            FetchPartition(topic=each, partition=0, fetch_offset=0, partition_max_bytes=100) for each in topics
        ],
    )


def fetched(world: World, request: FetchRequest, meanwhile: Iterable[AclEntry] | None = None) -> FetchResponse:
    waits: list[int] = []

    async def wait(request: FetchRequest) -> FetchResponse:
        waits.append(request.max_wait_ms)
        if meanwhile is not None:
            world.change(meanwhile)
        results = [
            FetchPartitionResult(topic=each.topic, partition=0, error_code=ErrorCode.NONE, records=b"records")
            for each in request.partitions
        ]
        return FetchResponse(request_id=1, partitions=results)

    async def go() -> FetchResponse:
        return await record_guards.fetch(world.asker(), request, wait)

    response: FetchResponse = run(go())
    is_refused_at_once = meanwhile is None and any(each.error_code for each in response.partitions)
    assert waits == [0 if is_refused_at_once else 500]
    return response


def test_only_topics_that_one_may_read_are_read() -> None:
    world = World([entry("orders", Operation.READ)])
    response = fetched(world, fetch_of("secret", "orders"))
    assert [(each.topic, each.error_code, each.records) for each in response.partitions] == [
        ("secret", TOPIC_REFUSED, b""),
        ("orders", 0, b"records"),
    ]


def test_a_fetch_that_waits_while_its_right_is_taken_away_gets_no_record() -> None:
    world = World([entry("orders", Operation.READ), entry("parcels", Operation.READ)])
    response = fetched(world, fetch_of("orders", "parcels"), meanwhile=[entry("parcels", Operation.READ)])
    assert [(each.topic, each.error_code, each.records) for each in response.partitions] == [
        ("orders", TOPIC_REFUSED, b""),
        ("parcels", 0, b"records"),
    ]


def test_a_read_of_plain_records_ends_with_its_right() -> None:
    world = World([entry("orders", Operation.READ)])
    request, answer = CASES["FetchRecords"].request, CASES["FetchRecords"].answer

    async def proceed(_: Any) -> Any:
        world.change([])
        return answer(request)

    response = run(record_guards.fetch_records(world.asker(), request, proceed))
    assert (response.error_code, response.high_watermark) == (TOPIC_REFUSED, -1)


def test_records_that_are_no_batch_are_left_to_the_handler() -> None:
    """It says that they are damaged. An error here would close the connection."""
    world = World([entry("orders", Operation.WRITE)])
    for records in (b"", b"short", bytes(22)):
        _, appended = produced(world, produce_of("orders", records=records))
        assert [len(each.partitions) for each in appended] == [1]
