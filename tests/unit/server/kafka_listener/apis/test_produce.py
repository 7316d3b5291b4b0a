from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerFenced
from kraft.model import produce as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, TopicPartition
from kraft.server.handlers.produce_verification import TransactionSupport
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.requests import DECODED_ON_LOOP_MAX, KafkaRequests
from kraft.server.replica.waiting_appends import WaitingClient
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.cluster_images import epoch_of
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import WALL_MS, Broker, append_to, batch, follow, lead_begun, settle, values_in
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

VERSIONS = versions_of(ProduceRequest)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path, partitions=partitions_of())


def api(broker: Broker, image: MetadataImage = IMAGE) -> ProduceApi:
    handler = produce_handler(broker.partitions)
    return ProduceApi(handler.begin, leaders(image), handler.refuse_unknown)


def topic(version: int, name: str, *partitions: tuple[int, bytes | None]) -> TopicProduceData:
    data = tuple(PartitionProduceData(index=index, records=records) for index, records in partitions)
    named: TopicProduceData = topic_named(
        TopicProduceData, version >= 13, name, id_of(name), "name", partition_data=data
    )
    return named


def request(*topics: TopicProduceData, acks: int = 1, timeout_ms: int = 1_000) -> ProduceRequest:
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(broker: Broker, wanted: ProduceRequest, version: int, image: MetadataImage = IMAGE) -> ProduceResponse:
    response: ProduceResponse = run_virtually(answered(api(broker, image), wanted, version, ProduceResponse))
    return response


def only(response: ProduceResponse) -> PartitionProduceResponse:
    ((result,),) = [each.partition_responses for each in response.responses]
    return result


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_appended_and_their_offsets_are_answered(broker: Broker, version: int) -> None:
    partition = broker.open()
    lead_begun(partition)
    for base_offset in (0, 2):
        response = produce(broker, request(topic(version, "orders", (0, batch("a", "b")))), version)
        assert only(response) == PartitionProduceResponse(
            index=0, error_code=0, base_offset=base_offset, log_start_offset=0 if version >= 5 else -1
        )
        (answered_topic,) = response.responses
        if version >= 13:
            assert answered_topic.topic_id == id_of("orders")
        else:
            assert answered_topic.name == "orders"
        assert (response.throttle_time_ms, response.node_endpoints) == (0, ())
    assert values_in(partition) == ["a", "b"] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_of_several_topics_are_answered_in_the_requests_order(broker: Broker, version: int) -> None:
    for number in (0, 1):
        lead_begun(broker.open(TopicPartition("orders", number)))
    append_to(broker.partitions.by_name("orders", 0), batch("before"), 1)
    wanted = request(
        topic(version, "payments", (0, batch("x"))),
        topic(version, "orders", (1, batch("a")), (7, batch("x")), (0, batch("b"))),
        topic(version, "payments", (1, batch("x"))),
    )
    response = produce(broker, wanted, version)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses]
        for topic in response.responses
    ] == [
        [(0, unknown, -1)],
        [(1, 0, 0), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (0, 0, 1)],
        [(1, unknown, -1)],
    ]
    if version >= 13:
        assert [topic.topic_id for topic in response.responses] == [
            id_of("payments"),
            id_of("orders"),
            id_of("payments"),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_asked_the_wrong_broker_learns_the_leader_and_its_address(broker: Broker, version: int) -> None:
    follow(broker.open(TopicPartition("orders", 2)))
    response = produce(broker, request(topic(version, "orders", (2, batch("a")))), version)
    result = only(response)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert result.current_leader == LeaderIdAndEpoch(leader_id=2, leader_epoch=0)
        assert [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints] == [
            (2, "localhost", 9096, None)
        ]
    else:
        assert (result.current_leader, response.node_endpoints) == (LeaderIdAndEpoch(), ())


def test_a_leader_without_an_address_is_named_without_one(broker: Broker) -> None:
    image = IMAGE.replay([BrokerFenced(broker_id=BrokerId(2), broker_epoch=epoch_of(IMAGE, 2))])
    without = MetadataImage(topics=image.topics, topic_ids=image.topic_ids)
    response = produce(broker, request(topic(13, "orders", (2, batch("a")))), 13, without)
    assert only(response).current_leader == LeaderIdAndEpoch(leader_id=2, leader_epoch=0)
    assert response.node_endpoints == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_0_is_answered_with_nothing(broker: Broker, version: int) -> None:
    partition = broker.open()
    lead_begun(partition)
    wanted = request(topic(version, "orders", (0, batch("a"))), acks=0)
    assert run_virtually(ask(api(broker), wanted, version, ProduceResponse)) is None
    assert values_in(partition) == ["a"]


@pytest.mark.parametrize("name", ["orders", "payments"])
def test_acks_0_that_fails_ends_the_connection(broker: Broker, name: str) -> None:
    for version in VERSIONS:
        wanted = request(topic(version, name, (0, batch("a"))), acks=0)
        with pytest.raises(CloseConnection, match="acks=0"):
            run_virtually(ask(api(broker), wanted, version, ProduceResponse))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_that_comes_twice_is_appended_once_and_a_gap_is_refused(broker: Broker, version: int) -> None:
    partition = broker.open()
    lead_begun(partition)

    def send(value: str, sequence: int) -> tuple[int, int]:
        records = batch(value, producer_id=9, sequence=sequence)
        result = only(produce(broker, request(topic(version, "orders", (0, records))), version))
        return result.error_code, result.base_offset

    assert [send("a", 0), send("b", 1), send("a", 0), send("b", 1)] == [(0, 0), (0, 1), (0, 0), (0, 1)]
    assert send("d", 3) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert values_in(partition) == ["a", "b"]


def test_what_is_under_way_behind_records_of_an_unknown_topic_id_is_not_taken_before_them(broker: Broker) -> None:
    """This broker learns of a new topic between two requests of one producer."""
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    before = ProduceApi(handler.begin, leaders(MetadataImage()), handler.refuse_unknown)
    after = ProduceApi(handler.begin, leaders(IMAGE), handler.refuse_unknown)
    first, second = (
        request(topic(13, "orders", (0, batch(each, producer_id=5, sequence=at)))) for at, each in enumerate("ab")
    )

    async def answers() -> list[int]:
        asked = [(before, first), (after, second), (after, first), (after, second)]
        return [only(await answered(api, wanted, 13, ProduceResponse)).error_code for api, wanted in asked]

    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert run_virtually(answers()) == [unknown, unknown, 0, 0]
    assert values_in(partition) == ["a", "b"]


def test_neither_is_what_is_under_way_behind_a_long_request_for_one(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    before = ProduceApi(handler.begin, leaders(MetadataImage()), handler.refuse_unknown)
    after = ProduceApi(handler.begin, leaders(IMAGE), handler.refuse_unknown)
    others = [(number, batch("x")) for number in range(1, DECODED_ON_LOOP_MAX + 1)]
    first = request(topic(13, "orders", (0, batch("a", producer_id=5, sequence=0)), *others))
    second = request(topic(13, "orders", (0, batch("b", producer_id=5, sequence=1))))
    frame = memoryview(b"".join(encode_request(first, 13, 1, "tests")))[SIZE_BYTES:]

    async def scenario() -> list[int]:
        requests = KafkaRequests({ApiKey.PRODUCE: before}, "tests")
        begun = requests.begin(frame)
        assert isinstance(begun, Awaitable)
        waits = [not requests.is_pipelined(frame)]
        _, refused = decode_response(ProduceResponse, 13, memoryview(b"".join(await begun))[SIZE_BYTES:])
        waits.append(not requests.is_pipelined(frame))
        assert waits == [True, False], "the client's next request is handled once the refusals are noted"
        (found,) = refused.responses
        codes = {each.error_code for each in found.partition_responses}
        return [*codes, only(await answered(after, second, 13, ProduceResponse)).error_code]

    # Virtual time does not wait for a thread.
    assert asyncio.run(scenario()) == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
    assert values_in(partition) == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_acks_all_waits_for_the_replicas_and_no_longer_than_was_said(broker: Broker, version: int) -> None:
    lead_begun(broker.open())
    wanted = request(topic(version, "orders", (0, batch("a"))), acks=-1, timeout_ms=500)
    answer = asyncio.ensure_future(answered(api(broker), wanted, version, ProduceResponse))
    await settle()
    assert not answer.done()
    assert only(await answer).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert asyncio.get_running_loop().time() == pytest.approx(1_000.5)


@pytest.mark.parametrize("records", [None, b"", batch("a")[:-1], b"x" * 100])
def test_records_that_are_none_are_refused(broker: Broker, records: bytes | None) -> None:
    partition = broker.open()
    lead_begun(partition)
    for version in VERSIONS:
        result = only(produce(broker, request(topic(version, "orders", (0, records))), version))
        assert result.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
        assert values_in(partition) == []
        assert (result.error_message is not None) == (version >= 8)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_break_a_rule_of_their_topic_are_named(broker: Broker, version: int) -> None:
    lead_begun(broker.open(cleanup_policy=("compact",)))
    keys = (b"key", None, b"", None)
    records = build_batch([Record(offset, 1_000, key, b"v") for offset, key in enumerate(keys)])
    result = only(produce(broker, request(topic(version, "orders", (0, records))), version))
    assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [each.batch_index for each in result.record_errors] == ([1, 3] if version >= 8 else [])
    assert all("needs a key" in (each.batch_index_error_message or "") for each in result.record_errors)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version < 13])
def test_a_topic_without_a_name_is_unknown_by_name(broker: Broker, version: int) -> None:
    unnamed = TopicProduceData(name="", partition_data=(PartitionProduceData(index=0, records=batch("a")),))
    assert only(produce(broker, request(unnamed), version)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", VERSIONS)
def test_the_append_time_is_answered_if_it_is_the_records_timestamp(broker: Broker, version: int) -> None:
    lead_begun(broker.open(message_timestamp_type="LogAppendTime"))
    result = only(produce(broker, request(topic(version, "orders", (0, batch("a")))), version))
    assert (result.error_code, result.log_append_time_ms) == (0, WALL_MS)


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(broker: Broker, acks: int) -> None:
    lead_begun(broker.open())
    result = only(produce(broker, request(topic(9, "orders", (0, batch("a"))), acks=acks), 9))
    assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_nothing_to_append_is_answered_with_nothing_appended(broker: Broker) -> None:
    assert produce(broker, request(), 9).responses == ()


def test_the_records_are_in_the_log_when_the_request_was_begun(broker: Broker) -> None:
    """Their bytes are reused for the next request: `ask` overwrites them."""
    seen: list[Any] = []

    async def scenario() -> None:
        partition = broker.open()
        lead_begun(partition, replicas=(1,))
        asked = ask(api(broker), request(topic(9, "orders", (0, batch("a"))), acks=-1), 9, ProduceResponse)
        answer = asyncio.ensure_future(asked)
        await settle()
        broker.sync()
        await answer
        seen.extend(values_in(partition))

    run_virtually(scenario())
    assert seen == ["a"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_says_what_a_transactional_producer_understands(broker: Broker, version: int) -> None:
    begun: list[tuple[str, TransactionSupport]] = []

    def begin(wanted: values.ProduceRequest, _: WaitingClient | None, support: TransactionSupport) -> None:
        begun.append((wanted.transactional_id, support))

    for transactional_id in ("payments", None):
        wanted = ProduceRequest(transactional_id=transactional_id, acks=0, timeout_ms=1_000, topic_data=())
        assert (
            run_virtually(ask(ProduceApi(begin, leaders(), lambda *_: None), wanted, version, ProduceResponse)) is None
        )
    old = TransactionSupport.ABORTABLE if version == 11 else TransactionSupport.VERIFIES
    support = TransactionSupport.ADDS if version >= 12 else old
    assert begun == [("payments", support), ("", support)]
