"""The calling side: values in, values out, over one gRPC channel for each address.

Every call has a deadline. Whatever keeps an answer from arriving is one error, `Unreachable`, which names the address.
A call that the peer refused as a whole raises that Refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio

from kraft.model import broker_requests as brokers
from kraft.model import config_requests as configs
from kraft.model import feature_requests as features
from kraft.model import partition_requests as partitions
from kraft.model import quota_requests as quotas
from kraft.model import requests as values
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.rpc import messages
from kraft.rpc.connection_failures import connection_failure
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import admin_pb2, admin_pb2_grpc, broker_pb2, broker_pb2_grpc

Value = TypeVar("Value")
Request = TypeVar("Request")
Response = TypeVar("Response")

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Cap on one gRPC message. Above any fetch answer, which is bounded by its request."""

CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # A node that was started again is reached within a second, not after gRPC's default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A peer that vanished without closing its connection is noticed by these pings.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Channels of one process to one address would otherwise share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
]


class Unreachable(KraftError):
    """No answer from `address`: refused, broken off, or later than the deadline. The outcome there is unknown."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} cannot be reached: {reason}")
        self.address = address
        self.reason = reason


class NotServed(Unreachable):
    """The peer is there, and of a version that does not know the call."""


class NotAdmitted(Unreachable):
    """Somebody is there, and one of the two ends does not take the other for a node of its cluster."""


Dial = Callable[[str, list[tuple[str, Any]]], grpc.aio.Channel]
"""A channel to an address, with these options."""


def dial_openly(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=options)


class Connections:
    """The channels of one client or node, one for each address, opened at first use."""

    def __init__(self, dial: Dial = dial_openly) -> None:
        self._dial = dial
        self._channels: dict[str, grpc.aio.Channel] = {}

    def channel(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = self._dial(address, CHANNEL_OPTIONS)
        return self._channels[address]

    def broker(self, address: str) -> BrokerPeer:
        return BrokerPeer(address, self.channel(address))

    def admin(self, address: str) -> AdminPeer:
        return AdminPeer(address, self.channel(address))

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close(grace=None)


class BrokerPeer:
    """A broker, as producers and consumers see it."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self._stub = broker_pb2_grpc.BrokerStub(channel)

    async def metadata(self, request: values.MetadataRequest, timeout_s: float) -> values.MetadataResponse:
        message = messages.METADATA_REQUEST.to_message(request)
        return messages.METADATA_RESPONSE.to_value(await answer(self.address, self._stub.Metadata, message, timeout_s))

    async def list_offsets(self, request: values.ListOffsetsRequest, timeout_s: float) -> values.ListOffsetsResponse:
        message = messages.LIST_OFFSETS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.ListOffsets, message, timeout_s)
        return messages.LIST_OFFSETS_RESPONSE.to_value(response)

    async def offset_for_leader_epoch(
        self, request: values.OffsetForLeaderEpochRequest, timeout_s: float
    ) -> values.OffsetForLeaderEpochResponse:
        message = messages.EPOCH_END_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.OffsetForLeaderEpoch, message, timeout_s)
        return messages.EPOCH_END_RESPONSE.to_value(response)

    async def delete_records(
        self, request: values.DeleteRecordsRequest, timeout_s: float
    ) -> values.DeleteRecordsResponse:
        message = messages.DELETE_RECORDS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.DeleteRecords, message, timeout_s)
        return messages.DELETE_RECORDS_RESPONSE.to_value(response)

    async def init_producer_id(self, timeout_s: float) -> values.InitProducerIdResponse:
        request = broker_pb2.InitProducerIdRequest()
        response = await answer(self.address, self._stub.InitProducerId, request, timeout_s)
        return messages.INIT_PRODUCER_ID_RESPONSE.to_value(response)

    async def produce_records(
        self, request: values.ProduceRecordsRequest, timeout_s: float
    ) -> values.ProducePartitionResult:
        message = messages.PRODUCE_RECORDS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.ProduceRecords, message, timeout_s)
        return messages.PRODUCE_RECORDS_RESULT.to_value(response)

    async def fetch_records(self, request: values.FetchRecordsRequest, timeout_s: float) -> values.FetchRecordsResponse:
        message = messages.FETCH_RECORDS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.FetchRecords, message, timeout_s)
        return messages.FETCH_RECORDS_RESPONSE.to_value(response)

    def produce_stream(self) -> ProduceStream:
        return CallStream(self.address, self._stub.Produce(), messages.PRODUCE_REQUEST, messages.PRODUCE_RESPONSE)

    def fetch_stream(self) -> FetchStream:
        return CallStream(self.address, self._stub.Fetch(), messages.FETCH_REQUEST, messages.FETCH_RESPONSE)


class AdminPeer:
    """A node, as operators see it."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self._stub = admin_pb2_grpc.AdminStub(channel)

    async def create_topics(self, request: values.CreateTopicsRequest, timeout_s: float) -> values.TopicResults:
        message = messages.CREATE_TOPICS_REQUEST.to_message(request)
        return messages.TOPIC_RESULTS.to_value(await answer(self.address, self._stub.CreateTopics, message, timeout_s))

    async def delete_topics(self, request: values.DeleteTopicsRequest, timeout_s: float) -> values.TopicResults:
        message = messages.DELETE_TOPICS_REQUEST.to_message(request)
        return messages.TOPIC_RESULTS.to_value(await answer(self.address, self._stub.DeleteTopics, message, timeout_s))

    async def describe_topics(
        self, request: values.DescribeTopicsRequest, timeout_s: float
    ) -> values.DescribeTopicsResponse:
        message = messages.DESCRIBE_TOPICS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.DescribeTopics, message, timeout_s)
        return messages.DESCRIBE_TOPICS_RESPONSE.to_value(response)

    async def describe_configs(
        self, request: configs.DescribeConfigsRequest, timeout_s: float
    ) -> configs.DescribeConfigsResponse:
        message = messages.DESCRIBE_CONFIGS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.DescribeConfigs, message, timeout_s)
        return messages.DESCRIBE_CONFIGS_RESPONSE.to_value(response)

    async def incremental_alter_configs(
        self, request: configs.IncrementalAlterConfigsRequest, timeout_s: float
    ) -> configs.IncrementalAlterConfigsResponse:
        message = messages.ALTER_CONFIGS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.IncrementalAlterConfigs, message, timeout_s)
        return messages.ALTER_CONFIGS_RESPONSE.to_value(response)

    async def describe_brokers(
        self, request: brokers.DescribeBrokersRequest, timeout_s: float
    ) -> brokers.DescribeBrokersResponse:
        message = messages.DESCRIBE_BROKERS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.DescribeBrokers, message, timeout_s)
        return messages.DESCRIBE_BROKERS_RESPONSE.to_value(response)

    async def fence_broker(self, request: brokers.FenceBrokerRequest, timeout_s: float) -> brokers.BrokerActionResult:
        message = messages.FENCE_BROKER_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.FenceBroker, message, timeout_s)
        return messages.BROKER_ACTION_RESULT.to_value(response)

    async def unfence_broker(
        self, request: brokers.UnfenceBrokerRequest, timeout_s: float
    ) -> brokers.BrokerActionResult:
        message = messages.UNFENCE_BROKER_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.UnfenceBroker, message, timeout_s)
        return messages.BROKER_ACTION_RESULT.to_value(response)

    async def unregister_broker(
        self, request: brokers.UnregisterBrokerRequest, timeout_s: float
    ) -> brokers.BrokerActionResult:
        message = messages.UNREGISTER_BROKER_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.UnregisterBroker, message, timeout_s)
        return messages.BROKER_ACTION_RESULT.to_value(response)

    async def describe_features(self, timeout_s: float) -> features.DescribeFeaturesResponse:
        request = admin_pb2.DescribeFeaturesRequest()
        response = await answer(self.address, self._stub.DescribeFeatures, request, timeout_s)
        return messages.DESCRIBE_FEATURES_RESPONSE.to_value(response)

    async def update_features(
        self, request: features.UpdateFeaturesRequest, timeout_s: float
    ) -> features.UpdateFeaturesResponse:
        message = messages.UPDATE_FEATURES_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.UpdateFeatures, message, timeout_s)
        return messages.UPDATE_FEATURES_RESPONSE.to_value(response)

    async def describe_client_quotas(
        self, request: quotas.DescribeClientQuotasRequest, timeout_s: float
    ) -> quotas.DescribeClientQuotasResponse:
        message = messages.DESCRIBE_QUOTAS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.DescribeClientQuotas, message, timeout_s)
        return messages.DESCRIBE_QUOTAS_RESPONSE.to_value(response)

    async def alter_client_quotas(
        self, request: quotas.AlterClientQuotasRequest, timeout_s: float
    ) -> quotas.AlterClientQuotasResponse:
        message = messages.ALTER_QUOTAS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.AlterClientQuotas, message, timeout_s)
        return messages.ALTER_QUOTAS_RESPONSE.to_value(response)

    async def create_partitions(
        self, request: partitions.CreatePartitionsRequest, timeout_s: float
    ) -> values.TopicResults:
        message = messages.CREATE_PARTITIONS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.CreatePartitions, message, timeout_s)
        return messages.TOPIC_RESULTS.to_value(response)

    async def elect_leaders(
        self, request: partitions.ElectLeadersRequest, timeout_s: float
    ) -> partitions.ElectLeadersResponse:
        message = messages.ELECT_LEADERS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.ElectLeaders, message, timeout_s)
        return messages.ELECT_LEADERS_RESPONSE.to_value(response)

    async def alter_partition_reassignments(
        self, request: partitions.AlterPartitionReassignmentsRequest, timeout_s: float
    ) -> partitions.AlterPartitionReassignmentsResponse:
        message = messages.ALTER_REASSIGNMENTS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.AlterPartitionReassignments, message, timeout_s)
        return messages.ALTER_REASSIGNMENTS_RESPONSE.to_value(response)

    async def list_partition_reassignments(
        self, request: partitions.ListPartitionReassignmentsRequest, timeout_s: float
    ) -> partitions.ListPartitionReassignmentsResponse:
        message = messages.LIST_REASSIGNMENTS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.ListPartitionReassignments, message, timeout_s)
        return messages.LIST_REASSIGNMENTS_RESPONSE.to_value(response)

    async def describe_quorum(self, timeout_s: float) -> values.QuorumDescription:
        request = admin_pb2.DescribeQuorumRequest()
        response = await answer(self.address, self._stub.DescribeQuorum, request, timeout_s)
        return messages.QUORUM_DESCRIPTION.to_value(response)


class CallStream(Generic[Request, Response]):
    """A bidirectional call: requests go out in order, answers come back in the same order.

    Sending and receiving may be done by two tasks at once. Once either raises, the stream is of no more use.
    """

    def __init__(
        self, address: str, call: Any, request: Mapping[Request, Any], response: Mapping[Response, Any]
    ) -> None:
        self.address = address
        self._call = call
        self._request = request
        self._response = response

    async def send(self, request: Request) -> None:
        """Hands the request to the connection; waits while the peer takes no more. Raises as `receive` does."""
        await self._whole(self._call.write(self._request.to_message(request)))

    async def receive(self) -> Response:
        """The next answer. Raises Unreachable when the stream ended or broke, or the Refusal that ended it."""
        message = await self._whole(self._call.read())
        if message is grpc.aio.EOF:
            raise Unreachable(self.address, "it ended the stream")
        return self._response.to_value(message)

    async def finish(self) -> None:
        """No more is sent. The peer ends the call when it has carried out everything. Raises as `receive` does."""
        await self._whole(self._call.done_writing())

    async def close(self) -> None:
        """Ends the call; answers still on their way are dropped, and whoever waits for one is told Unreachable."""
        self._call.cancel()

    async def _whole(self, step: Awaitable[Any]) -> Any:
        try:
            return await step
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            _pass_on_cancellation()
            raise self._broken(error) from error
        except asyncio.CancelledError as cancelled:
            # gRPC raises this, too, in a task that nobody cancelled: when another one has closed the stream.
            _pass_on_cancellation()
            raise self._broken(cancelled) from cancelled

    def _broken(self, error: BaseException) -> Unreachable | Refusal:
        if isinstance(error, grpc.aio.AioRpcError):
            return _failure(self.address, error)
        return Unreachable(self.address, "the stream is closed")


ProduceStream = CallStream[values.ProduceRequest, values.ProduceResponse]
FetchStream = CallStream[values.FetchRequest, values.FetchResponse]


async def answer(address: str, method: Callable[..., Awaitable[Value]], message: Any, timeout_s: float) -> Value:
    """One call, one answer. Raises Unreachable, or the Refusal with which the peer ended the call."""
    try:
        return await method(message, timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        _pass_on_cancellation()
        raise _failure(address, error) from error


async def answers(address: str, call: AsyncIterable[Value]) -> AsyncIterator[Value]:
    """The messages of a server's stream, as long as it lasts. Raises Unreachable, or the peer's Refusal."""
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as error:
        _pass_on_cancellation()
        raise _failure(address, error) from error


def _pass_on_cancellation() -> None:
    """gRPC may tell of a failed call where the caller was cancelled; who then tries again would never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _failure(address: str, error: grpc.aio.AioRpcError) -> Unreachable | Refusal:
    match error.code():
        case grpc.StatusCode.FAILED_PRECONDITION:
            code, _, message = (error.details() or "").partition(": ")
            return Refusal(ErrorCode.__members__.get(code, ErrorCode.UNKNOWN_SERVER_ERROR), message)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            reason = "no answer within the time allowed"
        case grpc.StatusCode.UNAVAILABLE:
            reason = connection_failure(error.details() or "")
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotServed(address, f"UNIMPLEMENTED: {error.details()}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return NotAdmitted(address, f"UNAUTHENTICATED: {error.details()}")
        case code:
            reason = f"{code.name}: {error.details()}"
    return Unreachable(address, reason)
