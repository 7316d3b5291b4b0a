from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import pytest

from kraft.metadata.new_topics import new_topic
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.liveness import LivenessRequest, LivenessResponse
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, PlainRecord
from kraft.model.produce import ProduceRequest, ProduceResponse
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc import services
from kraft.rpc.calls import (
    ALTER_PARTITION_REASSIGNMENTS,
    DELETE_RECORDS,
    DESCRIBE_QUORUM,
    FETCH,
    FETCH_RECORDS,
    METADATA,
    PRODUCE,
)
from kraft.rpc.cluster_calls import FOLLOW_METADATA, LIVENESS_STREAM, REPLICA_FETCH
from kraft.rpc.long_messages import ADMIN_ITEMS_MAX, ELEMENTS_MAX, ELEMENTS_ON_LOOP_MAX, receiving, sending, to_message
from kraft.rpc.mapping import Mapping
from kraft.rpc.requests_in_progress import RequestsInProgress
from kraft.rpc.services import (
    STREAM_REQUESTS_IN_FLIGHT_MAX,
    Service,
    in_order,
)
from kraft.rpc.topic_calls import CREATE_PARTITIONS, CREATE_TOPICS
from kraft.wire.schema import delete_records as values
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kraft.wire.schema.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.rpc_servers import public_service, served
from tests.unit.rpc.gated_streams import CALL_S, NO_PARTITIONS, Context, Gates, gathered, numbers, settle

pytestmark = pytest.mark.real_time

LIVENESS_REQUEST = LivenessRequest(broker_id=BrokerId(4), broker_epoch=BrokerEpoch(7))


def fetch(request_id: int) -> FetchRequest:
    return FetchRequest(request_id=request_id, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[])


def produce(request_id: int) -> ProduceRequest:
    return ProduceRequest(request_id=request_id, acks=-1, timeout_ms=0, partitions=[])


def ordered(requests: Any, begin: Callable[[int], Awaitable[int | None]], context: Context) -> AsyncIterator[int]:
    return in_order(requests, begin, cast("grpc.aio.ServicerContext[Any, Any]", context), RequestsInProgress())


# --- in_order ------------------------------------------------------------------------------------------------


async def test_a_request_without_an_answer_holds_nothing_up() -> None:
    async def even_only(number: int) -> int | None:
        return number if number % 2 == 0 else None

    assert await gathered(ordered(numbers(1, 2, 3, 4), even_only, Context())) == [2, 4]


async def test_what_was_begun_is_answered_before_a_failure_to_read_ends_the_stream() -> None:
    gates, answered = Gates(), list[int]()
    gates.open(1, 2)
    failing = numbers(1, 2, then=ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await gathered(ordered(failing, gates.answer, Context()), answered)
    assert answered == [1, 2]


async def test_a_refused_request_ends_the_stream_and_cancels_those_behind_it() -> None:
    gates, context = Gates(), Context()

    async def second_is_refused(number: int) -> int:
        if number == 2:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no")
        return await gates.answer(number)

    gates.open(1)
    answered: list[int] = []
    with pytest.raises(ConnectionAbortedError):
        await gathered(ordered(numbers(1, 2, 3), second_is_refused, context), answered)
    await settle()
    assert answered == [1]
    assert context.aborted == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_LEADER_OR_FOLLOWER: no")
    assert gates.cancelled == [3]


def test_a_client_that_does_not_wait_for_answers_is_not_read_from_without_end() -> None:
    async def scenario() -> None:
        read = 0

        async def endless() -> AsyncIterator[int]:
            nonlocal read
            while True:
                read += 1
                yield read

        gates = Gates()
        serving = asyncio.create_task(gathered(ordered(endless(), gates.answer, Context())))
        async with asyncio.timeout(CALL_S):
            while read < STREAM_REQUESTS_IN_FLIGHT_MAX:
                await settle()
        for _ in range(STREAM_REQUESTS_IN_FLIGHT_MAX):
            await settle()
        assert read <= STREAM_REQUESTS_IN_FLIGHT_MAX + 2
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(scenario())


# --- over a real connection ------------------------------------------------------------------------------------


async def test_a_produce_stream_answers_in_order_over_a_real_connection() -> None:
    gates = Gates()

    def begin(request: ProduceRequest) -> Awaitable[ProduceResponse]:
        async def respond() -> ProduceResponse:
            return ProduceResponse(request_id=await gates.answer(request.request_id), partitions=[])

        return respond()

    async with served(public_service(produce=begin)) as (connections, address):
        stream = connections.peer(address).open(PRODUCE)
        for request_id in (1, 2, 3):
            await stream.send(produce(request_id))
        gates.open(3, 2, 1)
        async with asyncio.timeout(CALL_S):
            assert [(await stream.receive()).request_id for _ in range(3)] == [1, 2, 3]
        await stream.close()


async def test_a_long_poll_is_cancelled_when_its_client_disconnects() -> None:
    begun, given_up = asyncio.Event(), asyncio.Event()

    async def long_poll(_: FetchRequest) -> FetchResponse:
        try:
            begun.set()
            await asyncio.sleep(600)
        finally:
            given_up.set()
        raise AssertionError("nobody waits that long")

    async with served(public_service(fetch=long_poll)) as (connections, address):
        stream = connections.peer(address).open(FETCH)
        await stream.send(fetch(1))
        async with asyncio.timeout(CALL_S):
            await begun.wait()
            assert not given_up.is_set()
            await stream.close()
            await given_up.wait()


async def test_a_refusal_that_a_handler_raises_reaches_the_caller_with_its_code_and_its_line() -> None:
    async def refuse(_: object) -> CreateTopicsResponse:
        raise Refusal(ErrorCode.NOT_CONTROLLER, "this is not the active controller; controller 2 is")

    async def describe(_: QuorumDescriptionRequest) -> QuorumDescription:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "a: line: with: colons")

    admin = public_service(create_topics=refuse, delete_topics=refuse, describe_quorum=describe)
    async with served(admin) as (connections, address):
        peer = connections.peer(address)
        with pytest.raises(Refusal) as refused:
            await peer.call(CREATE_TOPICS, CreateTopicsRequest(topics=(), timeout_ms=1), CALL_S)
        assert refused.value.error_code is ErrorCode.NOT_CONTROLLER
        assert refused.value.message == "this is not the active controller; controller 2 is"
        with pytest.raises(Refusal) as refused:
            await peer.call(DESCRIBE_QUORUM, QuorumDescriptionRequest(), CALL_S)
        assert refused.value.message == "a: line: with: colons"


async def test_a_bug_in_one_call_does_not_reach_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    async def metadata(request: MetadataRequest) -> MetadataResponse:
        assert request.topics, "our bug"
        return MetadataResponse(cluster_id="c", controller_id=1, brokers=(), topics=())

    async with served(public_service(metadata=metadata)) as (connections, address):
        peer = connections.peer(address)
        with pytest.raises(Exception, match="UNKNOWN"):
            await peer.call(METADATA, MetadataRequest(topics=()), CALL_S)
        assert (
            await peer.call(METADATA, MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), CALL_S)
        ).cluster_id == "c"


async def test_a_controller_that_refuses_a_follower_of_its_metadata_says_why() -> None:
    async def refuse(request: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        if request.cluster_id != "ours":
            raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "this is cluster 'ours': check cluster.id")
        yield MetadataBatch(index=1, term=1, records=b"", committed_index=1)

    async with served(Service(FOLLOW_METADATA.served_by(refuse))) as (connections, address):
        peer = connections.peer(address)
        with pytest.raises(Refusal, match=r"INCONSISTENT_CLUSTER_ID: this is cluster 'ours': check cluster\.id"):
            await anext(peer.follow(FOLLOW_METADATA, FollowMetadataRequest(cluster_id="x", broker_id=1, after_index=0)))


async def test_a_call_that_a_broker_holds_open_ends_with_its_connection() -> None:
    ended = asyncio.Event()

    async def attend(request: LivenessRequest) -> AsyncGenerator[LivenessResponse, None]:
        assert request == LIVENESS_REQUEST
        try:
            yield LivenessResponse()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(Service(LIVENESS_STREAM.served_by(attend))) as (connections, address):
        responses = connections.peer(address).follow(LIVENESS_STREAM, LIVENESS_REQUEST)
        assert await anext(responses) == LivenessResponse()
        assert not ended.is_set()
        await connections.close()
        await asyncio.wait_for(ended.wait(), 5)
        await responses.aclose()


@pytest.mark.parametrize(("row", "good"), [(FETCH, fetch(1)), (REPLICA_FETCH, NO_PARTITIONS)], ids=str)
async def test_an_invalid_message_ends_its_stream_after_the_responses_to_earlier_ones(
    row: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, bad_is_read = asyncio.Event(), asyncio.Event()

    class Noticed(services._BadMessage):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            bad_is_read.set()

    monkeypatch.setattr(services, "_BadMessage", Noticed)

    async def answer(request: FetchRequest) -> FetchResponse:
        await gate.wait()
        return FetchResponse(request_id=request.request_id, partitions=[])

    async def copy(request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        await gate.wait()
        return lambda: ReplicaFetchResponse(number=request.number, partitions=[])

    service = Service(FETCH.served_by(answer), REPLICA_FETCH.served_by(copy))
    async with served(service) as (connections, address):
        call: Any = connections.channel(address).stream_stream(row.method)()
        await call.write(row.request.serialize(row.request.to_message(good)))
        await call.write(b"\xff" * 20)
        async with asyncio.timeout(CALL_S):
            await bad_is_read.wait()
        gate.set()
        assert row.response.to_value(row.response.parse(await call.read())).partitions == []
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call.read()
        assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "not a valid request" in (ended.value.details() or "")


@pytest.mark.parametrize("count", [1, ELEMENTS_ON_LOOP_MAX + 1, ELEMENTS_MAX, ELEMENTS_MAX + 1])
async def test_a_request_of_many_elements_arrives_whole_and_one_of_too_many_is_refused(count: int) -> None:
    async def delete(request: values.DeleteRecordsRequest) -> values.DeleteRecordsResponse:
        assert len(request.topics) == count
        return values.DeleteRecordsResponse(topics=())

    topics = tuple(values.DeleteRecordsTopic(name=str(each), partitions=()) for each in range(count))
    request = values.DeleteRecordsRequest(timeout_ms=100, topics=topics)
    async with served(public_service(delete_records=delete)) as (connections, address):
        calling = connections.peer(address).call(DELETE_RECORDS, request, 30)
        if count > ELEMENTS_MAX:
            with pytest.raises(KraftError, match="elements"):
                await calling
        else:
            assert (await calling).topics == ()


@pytest.mark.parametrize("count", [ADMIN_ITEMS_MAX, ADMIN_ITEMS_MAX + 1])
async def test_a_call_of_the_admin_service_names_no_more_things_than_allowed(count: int) -> None:
    async def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=())

    topics = (new_topic("t", configs={"a": "b"}),) * count
    async with served(public_service(create_topics=create)) as (connections, address):
        calling = connections.peer(address).call(CREATE_TOPICS, CreateTopicsRequest(topics=topics, timeout_ms=1), 30)
        if count > ADMIN_ITEMS_MAX:
            with pytest.raises(KraftError, match="names 16385 things"):
                await calling
        else:
            assert (await calling).topics == ()


async def test_what_is_asked_about_partitions_reaches_its_handler_and_its_answer_the_caller() -> None:
    moves = tuple(ReassignablePartition(partition_index=0, replicas=each) for each in ((1, 2), None, ()))
    asked = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="orders", partitions=moves),))
    altered = AlterPartitionReassignmentsResponse(error_code=0, error_message=None, responses=())
    placed = CreatePartitionsAssignment(broker_ids=(2, 1))
    growing = CreatePartitionsTopic(name="orders", count=4, assignments=(placed,))
    heard: list[object] = []

    def answers(response: object) -> Callable[[object], Awaitable[object]]:
        async def answer(request: object) -> object:
            heard.append(request)
            return response

        return answer

    admin = public_service(
        create_partitions=answers(CreatePartitionsResponse(results=())),
        alter_partition_reassignments=answers(altered),
    )
    more = CreatePartitionsRequest(topics=(growing,), timeout_ms=7, validate_only=True)
    async with served(admin) as (connections, address):
        peer = connections.peer(address)
        assert (await peer.call(CREATE_PARTITIONS, more, CALL_S)).results == ()
        assert await peer.call(ALTER_PARTITION_REASSIGNMENTS, asked, CALL_S) == altered
    assert heard == [more, asked]


@pytest.mark.parametrize("count", [1, ELEMENTS_ON_LOOP_MAX + 1])
async def test_records_arrive_whole_and_in_order_however_many_they_are(count: int) -> None:
    records = [PlainRecord(key=None, value=b"%d" % number, offset=number) for number in range(count)]
    answer = FetchRecordsResponse(error_code=ErrorCode.NONE, high_watermark=450, log_start_offset=3, records=records)
    request = FetchRecordsRequest(topic="orders", partition=0, fetch_offset=0, max_wait_ms=0, max_bytes=1 << 20)

    async def fetch_records(_: FetchRecordsRequest) -> FetchRecordsResponse:
        return answer

    async with served(public_service(fetch_records=fetch_records)) as (connections, address):
        assert await connections.peer(address).call(FETCH_RECORDS, request, CALL_S) == answer


@pytest.mark.parametrize("text", ["x" * 20_000, "漢" * 20_000, "no: %41\n\udcff" * 2_000])
async def test_a_refusal_keeps_its_code_and_the_start_of_its_reason_however_long_that_is(text: str) -> None:
    async def refuse(_: MetadataRequest) -> MetadataResponse:
        raise Refusal(ErrorCode.INVALID_REQUEST, text)

    async with served(public_service(metadata=refuse)) as (connections, address):
        with pytest.raises(Refusal) as refused:
            await connections.peer(address).call(METADATA, MetadataRequest(topics=()), CALL_S)
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST
    assert refused.value.message.endswith("...")
    readable = text.encode("utf-8", "backslashreplace").decode()
    assert readable.startswith(refused.value.message.removesuffix("..."))
    assert len(refused.value.message) > 400


async def test_a_refused_stream_gives_its_reason_to_the_task_that_sends_and_to_the_one_that_receives() -> None:
    async def refuse(_: FetchRequest) -> FetchResponse:
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "broker 2 is the leader")

    async def send_on(stream: Any) -> None:
        while True:
            await stream.send(fetch(1))

    async with served(public_service(fetch=refuse)) as (connections, address), asyncio.timeout(60):
        # Whether a write fails before the status is read differs from stream to stream.
        for _ in range(20):
            stream = connections.peer(address).open(FETCH)
            errors = await asyncio.gather(send_on(stream), stream.receive(), return_exceptions=True)
            for error in [*errors, *await asyncio.gather(stream.send(fetch(2)), return_exceptions=True)]:
                assert isinstance(error, Refusal), error
                assert (error.error_code, error.message) == (
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    "broker 2 is the leader",
                )


async def test_a_long_message_is_converted_while_the_loop_goes_on() -> None:
    on_loop = threading.get_ident()
    converted_in: list[int] = []

    class Noting(Mapping[values.DeleteRecordsRequest, Any]):
        def to_value(self, message: Any) -> values.DeleteRecordsRequest:
            converted_in.append(threading.get_ident())
            return super().to_value(message)

    message_type = DELETE_RECORDS.request.message_type
    codec = Noting(values.DeleteRecordsRequest, message_type)
    topic = message_type().topics.add()
    for count in (1, ELEMENTS_ON_LOOP_MAX + 1):
        message = receiving(codec)(message_type(topics=[topic] * count).SerializeToString())
        value = await services.read_value(codec, message, cast("grpc.aio.ServicerContext[Any, Any]", Context()))
        assert len(value.topics) == count
    assert [each == on_loop for each in converted_in] == [True, False]


async def test_a_long_response_is_encoded_while_the_loop_goes_on() -> None:
    on_loop = threading.get_ident()
    converted_in: list[int] = []

    class Noting(Mapping[values.DeleteRecordsRequest, Any]):
        def to_message(self, value: values.DeleteRecordsRequest) -> Any:
            converted_in.append(threading.get_ident())
            return super().to_message(value)

    codec = Noting(values.DeleteRecordsRequest, DELETE_RECORDS.request.message_type)
    topic = values.DeleteRecordsTopic(name="t", partitions=())
    for count in (1, ELEMENTS_ON_LOOP_MAX + 1):
        value = values.DeleteRecordsRequest(timeout_ms=1, topics=(topic,) * count)
        sent = sending(codec)(await to_message(codec, value))
        assert codec.to_value(codec.parse(sent)) == value
    assert [each == on_loop for each in converted_in] == [True, False]
