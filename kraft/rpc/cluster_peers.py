"""The calling side between the nodes of a cluster: a controller as brokers see it, a leader as followers see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import grpc.aio

from kraft.metadata import commands
from kraft.model import replica_requests as replica
from kraft.rpc import cluster_messages as messages
from kraft.rpc.pb import controller_pb2_grpc, replication_pb2_grpc
from kraft.rpc.peers import CallStream, answer, answers

ReplicaFetchStream = CallStream[replica.ReplicaFetchRequest, replica.ReplicaFetchResponse]


class ControllerPeer:
    """A controller. All calls but `follow_metadata` are answered by the active one only."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self._stub = controller_pb2_grpc.ControllerStub(channel)

    async def register_broker(
        self, request: commands.RegisterBrokerRequest, timeout_s: float
    ) -> commands.RegistrationResult:
        message = messages.REGISTER_BROKER_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.RegisterBroker, message, timeout_s)
        return messages.REGISTRATION_RESULT.to_value(response)

    async def heartbeat(self, request: commands.HeartbeatRequest, timeout_s: float) -> commands.HeartbeatResult:
        message = messages.HEARTBEAT_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.Heartbeat, message, timeout_s)
        return messages.HEARTBEAT_RESULT.to_value(response)

    async def attend(self, request: messages.AttendRequest) -> AsyncGenerator[messages.Attendance, None]:
        """Something as soon as the call counts. Raises Unreachable when it breaks, or the Refusal that ended it.

        Nothing else is to come, so the wait for the end has no deadline but the connection's own pings.
        """
        call = self._stub.Attend(messages.ATTEND_REQUEST.to_message(request))
        try:
            async for message in answers(self.address, call):
                yield messages.ATTENDANCE.to_value(message)
        finally:
            call.cancel()

    async def alter_partition(
        self, request: commands.AlterPartitionRequest, timeout_s: float
    ) -> commands.AlterPartitionResult:
        message = messages.ALTER_PARTITION_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.AlterPartition, message, timeout_s)
        return messages.ALTER_PARTITION_RESULT.to_value(response)

    async def fail_replicas(
        self, request: commands.FailReplicasRequest, timeout_s: float
    ) -> commands.FailReplicasResult:
        message = messages.FAIL_REPLICAS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.FailReplicas, message, timeout_s)
        return messages.FAIL_REPLICAS_RESULT.to_value(response)

    async def allocate_producer_ids(
        self, request: commands.AllocateProducerIdsRequest, timeout_s: float
    ) -> commands.ProducerIdBlock:
        message = messages.ALLOCATE_PRODUCER_IDS_REQUEST.to_message(request)
        response = await answer(self.address, self._stub.AllocateProducerIds, message, timeout_s)
        return messages.PRODUCER_ID_BLOCK.to_value(response)

    async def follow_metadata(
        self, request: messages.FollowMetadataRequest
    ) -> AsyncGenerator[messages.MetadataBatch, None]:
        """Committed entries in order, and a beat while there are none. Raises Unreachable when the stream breaks.

        The stream has no end of its own: the caller bounds the wait for each next batch.
        """
        call = self._stub.FollowMetadata(messages.FOLLOW_METADATA_REQUEST.to_message(request))
        try:
            async for message in answers(self.address, call):
                yield messages.METADATA_BATCH.to_value(message)
        finally:
            call.cancel()


class ReplicationPeer:
    """A broker that leads partitions, as its followers see it."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self._stub = replication_pb2_grpc.ReplicationStub(channel)

    def fetch_stream(self) -> ReplicaFetchStream:
        call = self._stub.Fetch()
        return CallStream(self.address, call, messages.REPLICA_FETCH_REQUEST, messages.REPLICA_FETCH_RESPONSE)
