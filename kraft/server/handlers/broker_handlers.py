"""The handlers of a broker: every listener calls them, whatever its protocol."""

from __future__ import annotations

from msgspec import Struct

from kraft.rpc.call import Served
from kraft.server.handlers.classic_groups import ClassicGroupsHandler
from kraft.server.handlers.committed_offsets import CommittedOffsetsHandler
from kraft.server.handlers.consumer_groups import ConsumerGroupsHandler
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.groups import GroupsHandler
from kraft.server.handlers.metadata import MetadataHandler
from kraft.server.handlers.plain_records import PlainRecordsHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.quorum import QuorumHandler


class GroupHandlers(Struct, frozen=True, kw_only=True):
    """Handlers for the groups that this broker coordinates."""

    classic: ClassicGroupsHandler
    consumer: ConsumerGroupsHandler
    groups: GroupsHandler
    offsets: CommittedOffsetsHandler

    def served(self) -> list[Served]:
        return [
            *self.consumer.served(),
            *self.offsets.served(),
        ]


class RecordHandlers(Struct, frozen=True, kw_only=True):
    """Handlers that append and read records of the partitions that this broker leads."""

    produce: ProduceHandler
    fetch: FetchHandler
    plain: PlainRecordsHandler


class BrokerHandlers(Struct, frozen=True, kw_only=True):
    metadata: MetadataHandler
    """Answers with the addresses of one listener; each listener has its own."""

    groups: GroupHandlers
    quorum: QuorumHandler

    def served(self) -> list[Served]:
        """Return the calls of the GRPC listener."""
        return [
            *self.metadata.served(),
            *self.groups.served(),
            *self.quorum.served(),
        ]
