"""The answering side of the public API: messages become values, a handler answers, the answer becomes a message.

Whatever a handler raises ends in here: a Refusal that it did not put into its answer, bad field values, and our own
bugs. Nothing of a failed call reaches another call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from kraft.model import broker_requests as brokers
from kraft.model import config_requests as configs
from kraft.model import feature_requests as features
from kraft.model import partition_requests as partitions
from kraft.model import quota_requests as quotas
from kraft.model import requests as values
from kraft.model.errors import Refusal
from kraft.rpc import messages
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import admin_pb2, admin_pb2_grpc, broker_pb2, broker_pb2_grpc
from kraft.rpc.peers import MESSAGE_BYTES_MAX

Request = TypeVar("Request")
Response = TypeVar("Response")

Context = grpc.aio.ServicerContext[Any, Any]

SERVER_OPTIONS: Final = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Two nodes on one port would otherwise share it silently.
    ("grpc.so_reuseport", 0),
    # Clients may ping a quiet connection, to notice a peer that vanished.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A client that vanished without a word would otherwise keep its streams for two hours, gRPC's default.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Whoever connects and says nothing, or only half a greeting, does not hold a connection for two minutes.
    ("grpc.server_handshake_timeout_ms", 10_000),
]

STREAM_REQUESTS_IN_FLIGHT_MAX: Final = 64
"""A stream with more unanswered requests is not read from until some are answered."""

PLAIN_RECORDS_AT_ONCE: Final = 200
"""Records encoded before others have their turn on the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHandlers:
    """What answers each call of the Broker service.

    `produce` must have appended by the time it hands back its awaitable: that is what keeps the order of a stream's
    requests. Its answer is None for acks=0.
    """

    produce: Callable[[values.ProduceRequest], Awaitable[values.ProduceResponse | None]]
    fetch: Callable[[values.FetchRequest], Awaitable[values.FetchResponse]]
    produce_records: Callable[[values.ProduceRecordsRequest], Awaitable[values.ProducePartitionResult]]
    fetch_records: Callable[[values.FetchRecordsRequest], Awaitable[values.FetchRecordsResponse]]
    metadata: Callable[[values.MetadataRequest], Awaitable[values.MetadataResponse]]
    list_offsets: Callable[[values.ListOffsetsRequest], Awaitable[values.ListOffsetsResponse]]
    offset_for_leader_epoch: Callable[
        [values.OffsetForLeaderEpochRequest], Awaitable[values.OffsetForLeaderEpochResponse]
    ]
    delete_records: Callable[[values.DeleteRecordsRequest], Awaitable[values.DeleteRecordsResponse]]
    init_producer_id: Callable[[], Awaitable[values.InitProducerIdResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAdminHandlers:
    """What answers the calls of the Admin service about brokers, features and quotas. A Refusal ends the call."""

    describe_brokers: Callable[[brokers.DescribeBrokersRequest], Awaitable[brokers.DescribeBrokersResponse]]
    fence_broker: Callable[[brokers.FenceBrokerRequest], Awaitable[brokers.BrokerActionResult]]
    unfence_broker: Callable[[brokers.UnfenceBrokerRequest], Awaitable[brokers.BrokerActionResult]]
    unregister_broker: Callable[[brokers.UnregisterBrokerRequest], Awaitable[brokers.BrokerActionResult]]
    describe_features: Callable[[], Awaitable[features.DescribeFeaturesResponse]]
    update_features: Callable[[features.UpdateFeaturesRequest], Awaitable[features.UpdateFeaturesResponse]]
    describe_client_quotas: Callable[
        [quotas.DescribeClientQuotasRequest], Awaitable[quotas.DescribeClientQuotasResponse]
    ]
    alter_client_quotas: Callable[[quotas.AlterClientQuotasRequest], Awaitable[quotas.AlterClientQuotasResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdminHandlers:
    """What answers the calls of the Admin service about partitions and their replicas."""

    create_partitions: Callable[[partitions.CreatePartitionsRequest], Awaitable[values.TopicResults]]
    elect_leaders: Callable[[partitions.ElectLeadersRequest], Awaitable[partitions.ElectLeadersResponse]]
    alter_reassignments: Callable[
        [partitions.AlterPartitionReassignmentsRequest], Awaitable[partitions.AlterPartitionReassignmentsResponse]
    ]
    list_reassignments: Callable[
        [partitions.ListPartitionReassignmentsRequest], Awaitable[partitions.ListPartitionReassignmentsResponse]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminHandlers:
    """What answers each call of the Admin service."""

    create_topics: Callable[[values.CreateTopicsRequest], Awaitable[values.TopicResults]]
    delete_topics: Callable[[values.DeleteTopicsRequest], Awaitable[values.TopicResults]]
    describe_topics: Callable[[values.DescribeTopicsRequest], Awaitable[values.DescribeTopicsResponse]]
    describe_configs: Callable[[configs.DescribeConfigsRequest], Awaitable[configs.DescribeConfigsResponse]]
    incremental_alter_configs: Callable[
        [configs.IncrementalAlterConfigsRequest], Awaitable[configs.IncrementalAlterConfigsResponse]
    ]
    describe_quorum: Callable[[], Awaitable[values.QuorumDescription]]
    cluster: ClusterAdminHandlers
    partitions: PartitionAdminHandlers


class BrokerService(broker_pb2_grpc.BrokerServicer):
    def __init__(self, handlers: BrokerHandlers) -> None:
        self._handlers = handlers

    async def Produce(
        self, request_iterator: AsyncIterator[broker_pb2.ProduceRequest], context: Context
    ) -> AsyncIterator[broker_pb2.ProduceResponse]:
        requests = read_values(request_iterator, messages.PRODUCE_REQUEST)
        async for response in in_order(requests, self._handlers.produce, context):
            yield messages.PRODUCE_RESPONSE.to_message(response)

    async def Fetch(
        self, request_iterator: AsyncIterator[broker_pb2.FetchRequest], context: Context
    ) -> AsyncIterator[broker_pb2.FetchResponse]:
        requests = read_values(request_iterator, messages.FETCH_REQUEST)
        async for response in in_order(requests, self._handlers.fetch, context):
            yield messages.FETCH_RESPONSE.to_message(response)

    async def ProduceRecords(
        self, request: broker_pb2.ProduceRecordsRequest, context: Context
    ) -> broker_pb2.ProducePartitionResult:
        value = await read_value(messages.PRODUCE_RECORDS_REQUEST, request, context)
        return messages.PRODUCE_RECORDS_RESULT.to_message(
            await answered(self._handlers.produce_records(value), context)
        )

    async def FetchRecords(
        self, request: broker_pb2.FetchRecordsRequest, context: Context
    ) -> broker_pb2.FetchRecordsResponse:
        value = await read_value(messages.FETCH_RECORDS_REQUEST, request, context)
        response = await answered(self._handlers.fetch_records(value), context)
        message = messages.FETCH_RECORDS_RESPONSE.to_message(replace(response, records=[]))
        for number, record in enumerate(response.records, 1):
            messages.PLAIN_RECORD.write(record, message.records.add())
            if number % PLAIN_RECORDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return message

    async def Metadata(self, request: broker_pb2.MetadataRequest, context: Context) -> broker_pb2.MetadataResponse:
        value = await read_value(messages.METADATA_REQUEST, request, context)
        return messages.METADATA_RESPONSE.to_message(await answered(self._handlers.metadata(value), context))

    async def ListOffsets(
        self, request: broker_pb2.ListOffsetsRequest, context: Context
    ) -> broker_pb2.ListOffsetsResponse:
        value = await read_value(messages.LIST_OFFSETS_REQUEST, request, context)
        return messages.LIST_OFFSETS_RESPONSE.to_message(await answered(self._handlers.list_offsets(value), context))

    async def OffsetForLeaderEpoch(
        self, request: broker_pb2.OffsetForLeaderEpochRequest, context: Context
    ) -> broker_pb2.OffsetForLeaderEpochResponse:
        value = await read_value(messages.EPOCH_END_REQUEST, request, context)
        response = await answered(self._handlers.offset_for_leader_epoch(value), context)
        return messages.EPOCH_END_RESPONSE.to_message(response)

    async def DeleteRecords(
        self, request: broker_pb2.DeleteRecordsRequest, context: Context
    ) -> broker_pb2.DeleteRecordsResponse:
        value = await read_value(messages.DELETE_RECORDS_REQUEST, request, context)
        response = await answered(self._handlers.delete_records(value), context)
        return messages.DELETE_RECORDS_RESPONSE.to_message(response)

    async def InitProducerId(
        self, request: broker_pb2.InitProducerIdRequest, context: Context
    ) -> broker_pb2.InitProducerIdResponse:
        response = await answered(self._handlers.init_producer_id(), context)
        return messages.INIT_PRODUCER_ID_RESPONSE.to_message(response)

    def add_to(self, server: grpc.aio.Server) -> None:
        broker_pb2_grpc.add_BrokerServicer_to_server(self, server)


class AdminService(admin_pb2_grpc.AdminServicer):
    def __init__(self, handlers: AdminHandlers) -> None:
        self._handlers = handlers

    async def CreateTopics(self, request: admin_pb2.CreateTopicsRequest, context: Context) -> admin_pb2.TopicResults:
        value = await read_value(messages.CREATE_TOPICS_REQUEST, request, context)
        return messages.TOPIC_RESULTS.to_message(await answered(self._handlers.create_topics(value), context))

    async def DeleteTopics(self, request: admin_pb2.DeleteTopicsRequest, context: Context) -> admin_pb2.TopicResults:
        value = await read_value(messages.DELETE_TOPICS_REQUEST, request, context)
        return messages.TOPIC_RESULTS.to_message(await answered(self._handlers.delete_topics(value), context))

    async def DescribeTopics(
        self, request: admin_pb2.DescribeTopicsRequest, context: Context
    ) -> admin_pb2.DescribeTopicsResponse:
        value = await read_value(messages.DESCRIBE_TOPICS_REQUEST, request, context)
        response = await answered(self._handlers.describe_topics(value), context)
        return messages.DESCRIBE_TOPICS_RESPONSE.to_message(response)

    async def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, context: Context
    ) -> admin_pb2.DescribeConfigsResponse:
        value = await read_value(messages.DESCRIBE_CONFIGS_REQUEST, request, context)
        response = await answered(self._handlers.describe_configs(value), context)
        return messages.DESCRIBE_CONFIGS_RESPONSE.to_message(response)

    async def IncrementalAlterConfigs(
        self, request: admin_pb2.IncrementalAlterConfigsRequest, context: Context
    ) -> admin_pb2.IncrementalAlterConfigsResponse:
        value = await read_value(messages.ALTER_CONFIGS_REQUEST, request, context)
        response = await answered(self._handlers.incremental_alter_configs(value), context)
        return messages.ALTER_CONFIGS_RESPONSE.to_message(response)

    async def DescribeBrokers(
        self, request: admin_pb2.DescribeBrokersRequest, context: Context
    ) -> admin_pb2.DescribeBrokersResponse:
        value = await read_value(messages.DESCRIBE_BROKERS_REQUEST, request, context)
        response = await answered(self._handlers.cluster.describe_brokers(value), context)
        return messages.DESCRIBE_BROKERS_RESPONSE.to_message(response)

    async def FenceBroker(
        self, request: admin_pb2.FenceBrokerRequest, context: Context
    ) -> admin_pb2.BrokerActionResult:
        value = await read_value(messages.FENCE_BROKER_REQUEST, request, context)
        response = await answered(self._handlers.cluster.fence_broker(value), context)
        return messages.BROKER_ACTION_RESULT.to_message(response)

    async def UnfenceBroker(
        self, request: admin_pb2.UnfenceBrokerRequest, context: Context
    ) -> admin_pb2.BrokerActionResult:
        value = await read_value(messages.UNFENCE_BROKER_REQUEST, request, context)
        response = await answered(self._handlers.cluster.unfence_broker(value), context)
        return messages.BROKER_ACTION_RESULT.to_message(response)

    async def UnregisterBroker(
        self, request: admin_pb2.UnregisterBrokerRequest, context: Context
    ) -> admin_pb2.BrokerActionResult:
        value = await read_value(messages.UNREGISTER_BROKER_REQUEST, request, context)
        response = await answered(self._handlers.cluster.unregister_broker(value), context)
        return messages.BROKER_ACTION_RESULT.to_message(response)

    async def DescribeFeatures(
        self, request: admin_pb2.DescribeFeaturesRequest, context: Context
    ) -> admin_pb2.DescribeFeaturesResponse:
        response = await answered(self._handlers.cluster.describe_features(), context)
        return messages.DESCRIBE_FEATURES_RESPONSE.to_message(response)

    async def UpdateFeatures(
        self, request: admin_pb2.UpdateFeaturesRequest, context: Context
    ) -> admin_pb2.UpdateFeaturesResponse:
        value = await read_value(messages.UPDATE_FEATURES_REQUEST, request, context)
        response = await answered(self._handlers.cluster.update_features(value), context)
        return messages.UPDATE_FEATURES_RESPONSE.to_message(response)

    async def DescribeClientQuotas(
        self, request: admin_pb2.DescribeClientQuotasRequest, context: Context
    ) -> admin_pb2.DescribeClientQuotasResponse:
        value = await read_value(messages.DESCRIBE_QUOTAS_REQUEST, request, context)
        response = await answered(self._handlers.cluster.describe_client_quotas(value), context)
        return messages.DESCRIBE_QUOTAS_RESPONSE.to_message(response)

    async def AlterClientQuotas(
        self, request: admin_pb2.AlterClientQuotasRequest, context: Context
    ) -> admin_pb2.AlterClientQuotasResponse:
        value = await read_value(messages.ALTER_QUOTAS_REQUEST, request, context)
        response = await answered(self._handlers.cluster.alter_client_quotas(value), context)
        return messages.ALTER_QUOTAS_RESPONSE.to_message(response)

    async def CreatePartitions(
        self, request: admin_pb2.CreatePartitionsRequest, context: Context
    ) -> admin_pb2.TopicResults:
        value = await read_value(messages.CREATE_PARTITIONS_REQUEST, request, context)
        response = await answered(self._handlers.partitions.create_partitions(value), context)
        return messages.TOPIC_RESULTS.to_message(response)

    async def ElectLeaders(
        self, request: admin_pb2.ElectLeadersRequest, context: Context
    ) -> admin_pb2.ElectLeadersResponse:
        value = await read_value(messages.ELECT_LEADERS_REQUEST, request, context)
        response = await answered(self._handlers.partitions.elect_leaders(value), context)
        return messages.ELECT_LEADERS_RESPONSE.to_message(response)

    async def AlterPartitionReassignments(
        self, request: admin_pb2.AlterPartitionReassignmentsRequest, context: Context
    ) -> admin_pb2.AlterPartitionReassignmentsResponse:
        value = await read_value(messages.ALTER_REASSIGNMENTS_REQUEST, request, context)
        response = await answered(self._handlers.partitions.alter_reassignments(value), context)
        return messages.ALTER_REASSIGNMENTS_RESPONSE.to_message(response)

    async def ListPartitionReassignments(
        self, request: admin_pb2.ListPartitionReassignmentsRequest, context: Context
    ) -> admin_pb2.ListPartitionReassignmentsResponse:
        value = await read_value(messages.LIST_REASSIGNMENTS_REQUEST, request, context)
        response = await answered(self._handlers.partitions.list_reassignments(value), context)
        return messages.LIST_REASSIGNMENTS_RESPONSE.to_message(response)

    async def DescribeQuorum(
        self, request: admin_pb2.DescribeQuorumRequest, context: Context
    ) -> admin_pb2.QuorumDescription:
        response = await answered(self._handlers.describe_quorum(), context)
        return messages.QUORUM_DESCRIPTION.to_message(response)

    def add_to(self, server: grpc.aio.Server) -> None:
        admin_pb2_grpc.add_AdminServicer_to_server(self, server)


async def read_value(mapping: Mapping[Request, Any], message: Any, context: Context) -> Request:
    """The request's value; a message whose fields are no such value ends the call."""
    try:
        return mapping.to_value(message)
    except ValueError as error:
        await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))


class _BadMessage(Exception):
    """A message of a stream whose fields are no value. Not an abort yet: that would take the earlier answers along."""


async def read_values(requests: AsyncIterator[Any], mapping: Mapping[Request, Any]) -> AsyncIterator[Request]:
    """The values of a stream's messages, for `in_order`."""
    messages_left = aiter(requests)
    while True:
        try:
            value = mapping.to_value(await anext(messages_left))
        except StopAsyncIteration:
            return
        except DecodeError as error:
            raise _BadMessage(f"bytes that are no request: {error}") from None
        except ValueError as error:
            raise _BadMessage(str(error)) from error
        yield value


async def answered(response: Awaitable[Response], context: Context) -> Response:
    """The handler's answer; a Refusal that it raised ends the call, with its one line."""
    try:
        return await response
    except Refusal as refusal:
        await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(refusal))


async def _abort(context: Context, code: grpc.StatusCode, details: str) -> NoReturn:
    await context.abort(code, details)
    raise AssertionError("abort always raises")


async def in_order(
    requests: AsyncIterator[Request], begin: Callable[[Request], Awaitable[Response | None]], context: Context
) -> AsyncIterator[Response]:
    """Begins requests as they arrive and answers them in that order, many of them under way at once."""
    begun: asyncio.Queue[asyncio.Future[Response | None] | None] = asyncio.Queue(STREAM_REQUESTS_IN_FLIGHT_MAX)
    unanswered: set[asyncio.Future[Response | None]] = set()

    async def begin_all() -> None:
        try:
            async for request in requests:
                response = asyncio.ensure_future(begin(request))
                unanswered.add(response)
                await begun.put(response)
        finally:
            await begun.put(None)

    reading = asyncio.create_task(begin_all())
    try:
        while (response := await begun.get()) is not None:
            answer = await answered(response, context)
            unanswered.discard(response)
            if answer is not None:
                yield answer
        # What was begun before reading failed has been answered; now the stream ends with that failure.
        try:
            await reading
        except _BadMessage as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
    finally:
        reading.cancel()
        for response in unanswered:
            response.cancel()
        # A reader that waits for a place in the queue finds one, and ends.
        while not begun.empty():
            begun.get_nowait()
