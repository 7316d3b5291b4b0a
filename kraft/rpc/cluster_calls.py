"""What the nodes of a cluster ask each other, a row a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.metadata import commands
from kraft.model import replica_requests as replica
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.rpc.call import Call, ServerStream, Stream, service_of
from kraft.rpc.pb import controller_pb2, replication_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowMetadataRequest:
    """`after_index` is the last entry that the broker already holds, 0 for none."""

    cluster_id: str
    broker_id: int
    after_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """One committed entry of the metadata log, or a beat: no records, the last entry's index.

    With `in_snapshot`, a part of a snapshot that stands at `index`; `ends_snapshot` says that it is whole now.
    """

    index: int
    term: int
    records: bytes
    committed_index: int
    in_snapshot: bool = False
    ends_snapshot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendRequest:
    """A broker in service that holds this call open while it lives."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """The call counts from here on."""


# Answered by the active controller only, but for FOLLOW_METADATA.
_CONTROLLER: Final = service_of(controller_pb2.DESCRIPTOR, "Controller")

REGISTER_BROKER: Final = Call(
    _CONTROLLER, "RegisterBroker", commands.RegisterBrokerRequest, commands.RegistrationResult
)
HEARTBEAT: Final = Call(_CONTROLLER, "Heartbeat", commands.HeartbeatRequest, commands.HeartbeatResult)
ALTER_PARTITION: Final = Call(
    _CONTROLLER, "AlterPartition", commands.AlterPartitionRequest, commands.AlterPartitionResult
)
FAIL_REPLICAS: Final = Call(_CONTROLLER, "FailReplicas", commands.FailReplicasRequest, commands.FailReplicasResult)
ALLOCATE_PRODUCER_IDS: Final = Call(
    _CONTROLLER, "AllocateProducerIds", commands.AllocateProducerIdsRequest, commands.ProducerIdBlock
)

ATTEND: Final = ServerStream(_CONTROLLER, "Attend", AttendRequest, Attendance)
"""Something as soon as the call counts. Nothing else is to come, so the wait for the end has no deadline but the
connection's own pings.
"""

FOLLOW_METADATA: Final = ServerStream(_CONTROLLER, "FollowMetadata", FollowMetadataRequest, MetadataBatch)
"""Committed entries in order, and a beat while there are none. It has no end of its own: the caller bounds the wait for
each next batch.
"""

REPLICA_FETCH: Final = Stream(
    service_of(replication_pb2.DESCRIPTOR, "Replication"),
    "Fetch",
    replica.ReplicaFetchRequest,
    replica.ReplicaFetchResponse,
)
