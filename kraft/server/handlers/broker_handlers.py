"""The handlers of a broker: every listener calls them, whatever its protocol."""

from __future__ import annotations

from msgspec import Struct

from kraft.rpc.call import Served
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.classic_groups import ClassicGroupsHandler
from kraft.server.handlers.committed_offsets import CommittedOffsetsHandler
from kraft.server.handlers.consumer_groups import ConsumerGroupsHandler
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.groups import GroupsHandler
from kraft.server.handlers.metadata import MetadataHandler
from kraft.server.handlers.plain_records import PlainRecordsHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.quorum import QuorumHandler
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler


class GroupHandlers(Struct, frozen=True, kw_only=True):
    """Handlers for the groups that this broker coordinates."""

    classic: ClassicGroupsHandler
    consumer: ConsumerGroupsHandler
    groups: GroupsHandler
    offsets: CommittedOffsetsHandler

    def served(self) -> list[Served]:
        return [
            *self.classic.served(),
            *self.consumer.served(),
            *self.offsets.served(),
        ]


class BrokerHandlers(Struct, frozen=True, kw_only=True):
    produce: ProduceHandler
    awaited_replicas: AwaitedReplicasHandler
    fetch: FetchHandler
    plain_records: PlainRecordsHandler
    metadata: MetadataHandler
    """Answers with the addresses of one listener; each listener has its own."""

    groups: GroupHandlers
    quorum: QuorumHandler
    replica_fetch: ReplicaFetchHandler

    def served(self) -> list[Served]:
        """Return the calls of the GRPC listener."""
        return [
            *self.produce.served(),
            *self.fetch.served(),
            *self.plain_records.served(),
            *self.metadata.served(),
            *self.groups.served(),
            *self.quorum.served(),
            *self.replica_fetch.served(),
        ]
