"""The answering side between the nodes of a cluster: the controller's service and the leaders' replication."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import grpc.aio

from kraft.metadata import commands
from kraft.model import replica_requests as replica
from kraft.rpc import cluster_messages as messages
from kraft.rpc.pb import controller_pb2, controller_pb2_grpc, replication_pb2, replication_pb2_grpc
from kraft.rpc.services import Context, answered, in_order, read_value, read_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHandlers:
    """What answers each call of the Controller service."""

    register_broker: Callable[[commands.RegisterBrokerRequest], Awaitable[commands.RegistrationResult]]
    heartbeat: Callable[[commands.HeartbeatRequest], Awaitable[commands.HeartbeatResult]]
    attend: Callable[[messages.AttendRequest], AsyncGenerator[messages.Attendance, None]]
    alter_partition: Callable[[commands.AlterPartitionRequest], Awaitable[commands.AlterPartitionResult]]
    fail_replicas: Callable[[commands.FailReplicasRequest], Awaitable[commands.FailReplicasResult]]
    allocate_producer_ids: Callable[[commands.AllocateProducerIdsRequest], Awaitable[commands.ProducerIdBlock]]
    follow_metadata: Callable[[messages.FollowMetadataRequest], AsyncGenerator[messages.MetadataBatch, None]]


class ControllerService(controller_pb2_grpc.ControllerServicer):
    def __init__(self, handlers: ControllerHandlers) -> None:
        self._handlers = handlers

    async def RegisterBroker(
        self, request: controller_pb2.RegisterBrokerRequest, context: Context
    ) -> controller_pb2.RegistrationResult:
        value = await read_value(messages.REGISTER_BROKER_REQUEST, request, context)
        return messages.REGISTRATION_RESULT.to_message(await answered(self._handlers.register_broker(value), context))

    async def Heartbeat(
        self, request: controller_pb2.HeartbeatRequest, context: Context
    ) -> controller_pb2.HeartbeatResult:
        value = await read_value(messages.HEARTBEAT_REQUEST, request, context)
        return messages.HEARTBEAT_RESULT.to_message(await answered(self._handlers.heartbeat(value), context))

    async def Attend(
        self, request: controller_pb2.AttendRequest, context: Context
    ) -> AsyncIterator[controller_pb2.Attendance]:
        value = await read_value(messages.ATTEND_REQUEST, request, context)
        async with aclosing(self._handlers.attend(value)) as attendances:
            while (attendance := await answered(anext(attendances, None), context)) is not None:
                yield messages.ATTENDANCE.to_message(attendance)

    async def AlterPartition(
        self, request: controller_pb2.AlterPartitionRequest, context: Context
    ) -> controller_pb2.AlterPartitionResult:
        value = await read_value(messages.ALTER_PARTITION_REQUEST, request, context)
        return messages.ALTER_PARTITION_RESULT.to_message(
            await answered(self._handlers.alter_partition(value), context)
        )

    async def FailReplicas(
        self, request: controller_pb2.FailReplicasRequest, context: Context
    ) -> controller_pb2.FailReplicasResult:
        value = await read_value(messages.FAIL_REPLICAS_REQUEST, request, context)
        return messages.FAIL_REPLICAS_RESULT.to_message(await answered(self._handlers.fail_replicas(value), context))

    async def AllocateProducerIds(
        self, request: controller_pb2.AllocateProducerIdsRequest, context: Context
    ) -> controller_pb2.ProducerIdBlock:
        value = await read_value(messages.ALLOCATE_PRODUCER_IDS_REQUEST, request, context)
        return messages.PRODUCER_ID_BLOCK.to_message(
            await answered(self._handlers.allocate_producer_ids(value), context)
        )

    async def FollowMetadata(
        self, request: controller_pb2.FollowMetadataRequest, context: Context
    ) -> AsyncIterator[controller_pb2.MetadataBatch]:
        value = await read_value(messages.FOLLOW_METADATA_REQUEST, request, context)
        async with aclosing(self._handlers.follow_metadata(value)) as batches:
            while (batch := await answered(anext(batches, None), context)) is not None:
                yield messages.METADATA_BATCH.to_message(batch)

    def add_to(self, server: grpc.aio.Server) -> None:
        controller_pb2_grpc.add_ControllerServicer_to_server(self, server)


class ReplicationService(replication_pb2_grpc.ReplicationServicer):
    def __init__(self, fetch: Callable[[replica.ReplicaFetchRequest], Awaitable[replica.ReplicaFetchResponse]]) -> None:
        self._fetch = fetch

    async def Fetch(
        self, request_iterator: AsyncIterator[replication_pb2.ReplicaFetchRequest], context: Context
    ) -> AsyncIterator[replication_pb2.ReplicaFetchResponse]:
        requests = read_values(request_iterator, messages.REPLICA_FETCH_REQUEST)
        async for response in in_order(requests, self._fetch, context):
            yield messages.REPLICA_FETCH_RESPONSE.to_message(response)

    def add_to(self, server: grpc.aio.Server) -> None:
        replication_pb2_grpc.add_ReplicationServicer_to_server(self, server)
