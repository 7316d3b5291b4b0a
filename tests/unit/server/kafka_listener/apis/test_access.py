from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import CurrentAuthorizer
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode
from kraft.server.access.asker import Askers
from kraft.server.access.audit import USE, AuditEvent
from kraft.server.access.data_audit import DataAudit
from kraft.server.config.access_settings import DataAccess
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.fetch_sessions import FetchSessions, SharedFetches
from kraft.server.loop.budget import Budget
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.acl_entries import acls_of, entry
from tests.support.log.transactional_log import transactional
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, append_to, batch, lead, lead_begun, values_of
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import (
    IMAGE,
    answered,
    ask,
    id_of,
    leaders,
    partitions_of,
    topic_named,
    versions_of,
)

REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def allowed(operation: Operation, name: str = "orders", host: str = "10.0.0.7") -> AclEntry:
    return entry(name, operation, principal="User:ANONYMOUS", host=host)


class World:
    """A broker that leads the first partition of `orders`, and ACLs that may change."""

    def __init__(self, directory: Path) -> None:
        self.broker = Broker(directory, partitions=partitions_of())
        self.partition = self.broker.open()
        self.image = IMAGE
        self.noted: list[AuditEvent] = []
        reads, writes = (
            DataAudit(access, lambda event, _: self.noted.append(event), "SASL", bool, lambda: 0, 60_000)
            for access in (DataAccess.READS, DataAccess.WRITES)
        )
        askers = Askers(lambda: self.image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False)).told_to(
            lambda event, _: self.noted.append(event), "SASL"
        )
        handler = produce_handler(self.broker.partitions)
        self.produce_api = ProduceApi(handler.begin, leaders(), handler.refuse_unknown, askers, writes)
        numbers: Iterator[int] = count(501)
        shared = SharedFetches(FetchSessions(lambda: next(numbers)), Budget(100), lambda: self.broker.now_ms)
        self.fetch_api = FetchApi(fetch_handler(self.broker.partitions).begin, leaders(), shared, askers, reads)

    def allow(self, *entries: AclEntry) -> None:
        self.image = replace(IMAGE, acls=acls_of(entries))

    def append(self, value: str) -> None:
        append_to(self.partition, batch(value), 1)
        self.broker.sync()

    def produce(
        self, version: int, *topics: TopicProduceData, acks: int = 1, transactional_id: str | None = None
    ) -> ProduceResponse | None:
        wanted = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=topics)
        response: ProduceResponse | None = run_virtually(ask(self.produce_api, wanted, version, ProduceResponse))
        return response

    async def fetch(self, version: int, *topics: FetchTopic, **more: int) -> FetchResponse:
        fields = {"max_wait_ms": 0, "min_bytes": 1, **more}
        wanted = FetchRequest(topics=topics, **fields)  # type: ignore[arg-type]
        return await answered(self.fetch_api, wanted, version, FetchResponse)


@pytest.fixture
def written(tmp_path: Path) -> World:
    world = World(tmp_path)
    lead_begun(world.partition)
    return world


@pytest.fixture
def read(tmp_path: Path) -> World:
    world = World(tmp_path)
    lead(world.partition, replicas=(1,))
    return world


def records_for(version: int, *names: str, records: bytes | None = None) -> Iterable[TopicProduceData]:
    data = (PartitionProduceData(index=0, records=batch("a") if records is None else records),)
    return [
        topic_named(TopicProduceData, version >= 13, name, id_of(name), "name", partition_data=data) for name in names
    ]


def reading(version: int, *names: str) -> list[FetchTopic]:
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),)
    return [topic_named(FetchTopic, version >= 13, name, id_of(name), "topic", partitions=wanted) for name in names]


def codes(response: FetchResponse) -> list[int]:
    return [data.error_code for topic in response.responses for data in topic.partitions]


def uses(noted: Iterable[AuditEvent]) -> list[tuple[Operation | None, str]]:
    return [(each.operation, each.resource_name) for each in noted if each.api == USE]


def test_what_one_may_read_and_write_is_noted_as_used_and_nothing_else(written: World) -> None:
    written.allow(allowed(Operation.WRITE))
    for _ in range(2):
        written.produce(12, *records_for(12, "orders", "bills"))
    assert uses(written.noted) == [(Operation.WRITE, "orders")]
    written.allow(allowed(Operation.READ))
    for _ in range(2):
        run_virtually(written.fetch(12, *reading(12, "orders", "bills")))
    assert uses(written.noted) == [(Operation.WRITE, "orders"), (Operation.READ, "orders")]


# --- produce ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions_of(ProduceRequest))
def test_a_topic_that_one_may_not_write_is_refused_in_every_version(written: World, version: int) -> None:
    for entries, code in (
        ((), REFUSED),
        ((allowed(Operation.READ),), REFUSED),
        ((allowed(Operation.WRITE, host="10.0.0.8"),), REFUSED),
        ((allowed(Operation.WRITE),), 0),
    ):
        written.allow(*entries)
        response = written.produce(version, *records_for(version, "orders"))
        assert response is not None
        (result,) = response.responses[0].partition_responses
        assert result.error_code == code
        assert (result.base_offset == -1) == bool(code)
        assert response.responses[0].name == ("" if version >= 13 else "orders")
        assert ("orders" in (result.error_message or "")) == (code != 0 and 8 <= version < 13), "an id is not named"


def test_an_unknown_topic_is_refused_as_one_that_one_may_not_write(written: World) -> None:
    written.allow(allowed(Operation.WRITE))
    response = written.produce(12, *records_for(12, "nothing", "orders"))
    assert response is not None
    found = [(each.name, each.partition_responses[0].error_code) for each in response.responses]
    assert found == [("nothing", REFUSED), ("orders", 0)]
    response = written.produce(13, *records_for(13, "nothing", "orders"))
    assert response is not None
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert [each.partition_responses[0].error_code for each in response.responses] == [unknown, 0]


def test_a_connection_is_closed_that_could_not_be_told_of_a_refusal(written: World) -> None:
    with pytest.raises(CloseConnection, match="has no write permission for topic 'orders'"):
        written.produce(12, *records_for(12, "orders"), acks=0)


def test_records_of_a_transaction_need_write_on_its_id(written: World) -> None:
    written.allow(allowed(Operation.WRITE))
    records = transactional(7, 0, "a")
    for transactional_id in (None, "payments"):
        response = written.produce(12, *records_for(12, "orders", records=records), transactional_id=transactional_id)
        assert response is not None
        (result,) = response.responses[0].partition_responses
        assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    write_id = entry(
        "payments", Operation.WRITE, principal="User:ANONYMOUS", resource_type=ResourceType.TRANSACTIONAL_ID
    )
    written.allow(allowed(Operation.WRITE), write_id)
    response = written.produce(12, *records_for(12, "orders", records=records), transactional_id="payments")
    assert response is not None
    (result,) = response.responses[0].partition_responses
    assert result.error_code not in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, REFUSED)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_batch_without_the_right_leaves_the_sequence_of_its_producer_alone(written: World, is_known: bool) -> None:
    """What Kafka 4.3.1 answers: a client is asked for its rights before the log is looked at."""
    first = int(is_known)

    def send(sequence: int) -> tuple[ErrorCode, int]:
        records = batch(f"v{sequence}", producer_id=7, sequence=sequence)
        response = written.produce(9, *records_for(9, "orders", records=records))
        assert response is not None
        (result,) = response.responses[0].partition_responses
        return ErrorCode(result.error_code), result.base_offset

    written.allow(allowed(Operation.WRITE))
    if is_known:
        assert send(0) == (ErrorCode.NONE, 0)
    written.allow()
    assert [send(first), send(first + 1)] == [(REFUSED, -1)] * 2
    written.allow(allowed(Operation.WRITE))
    gap = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    if is_known:
        assert [send(each) for each in (2, 1, 2)] == [gap, (ErrorCode.NONE, 1), (ErrorCode.NONE, 2)]
    else:
        # Of a producer that the log does not know any sequence is taken, and is a duplicate the second time.
        assert [send(each) for each in (1, 0, 1, 2)] == [
            (ErrorCode.NONE, 0),
            gap,
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
        ]


# --- fetch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions_of(FetchRequest))
def test_a_topic_that_one_may_not_read_is_refused_in_every_version(read: World, version: int) -> None:
    read.append("a")
    read.allow(allowed(Operation.WRITE))
    response = run_virtually(read.fetch(version, *reading(version, "orders", "nothing"), max_wait_ms=60_000))
    other = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else REFUSED
    assert codes(response) == [REFUSED, other]
    assert ("orders", REFUSED) in {(each.resource_name, each.error_code) for each in read.noted}
    assert not any(data.records for topic in response.responses for data in topic.partitions)
    read.allow(allowed(Operation.READ))
    assert codes(run_virtually(read.fetch(version, *reading(version, "orders", "nothing")))) == [0, other]


def test_a_refusal_is_told_at_once(read: World) -> None:
    async def scenario() -> float:
        read.allow(allowed(Operation.READ))
        began_s = asyncio.get_running_loop().time()
        assert codes(await read.fetch(12, *reading(12, "orders", "secret"), max_wait_ms=60_000)) == [0, REFUSED]
        return asyncio.get_running_loop().time() - began_s

    assert run_virtually(scenario()) < 1


def test_a_fetch_that_waits_while_the_right_is_taken_away_gets_no_records(read: World) -> None:
    async def scenario() -> FetchResponse:
        read.allow(allowed(Operation.READ))
        fetch = asyncio.create_task(read.fetch(12, *reading(12, "orders"), max_wait_ms=10_000))
        await asyncio.sleep(1)
        read.allow()
        read.append("secret")
        return await fetch

    response = run_virtually(scenario())
    assert codes(response) == [REFUSED]
    assert [data.records for topic in response.responses for data in topic.partitions] == [b""]


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_ends_and_goes_on_reading_with_the_right(read: World, version: int) -> None:
    """A request of a session that has not changed names no topic."""
    read.append("a")
    read.allow(allowed(Operation.READ))

    async def scenario() -> list[list[int]]:
        responses = [await read.fetch(version, *reading(version, "orders"), session_epoch=0)]
        session_id = responses[0].session_id
        for epoch, entries in ((1, ()), (2, ()), (3, (allowed(Operation.READ),))):
            read.allow(*entries)
            responses.append(await read.fetch(version, session_id=session_id, session_epoch=epoch))
        (data,) = responses[-1].responses[0].partitions
        assert values_of(bytes(data.records or b"")) == ["a"]
        return list(map(codes, responses))

    assert run_virtually(scenario()) == [[0], [REFUSED], [REFUSED], [0]]
