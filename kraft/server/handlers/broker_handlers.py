"""Handlers of a broker that its listeners share."""

from __future__ import annotations

from msgspec import Struct

from kraft.server.handlers.classic_groups import ClassicGroupsHandler
from kraft.server.handlers.committed_offsets import CommittedOffsetsHandler
from kraft.server.handlers.consumer_groups import ConsumerGroupsHandler
from kraft.server.handlers.describe_clients import DescribeClientsHandler
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.group_lags import GroupLagsHandler
from kraft.server.handlers.groups import GroupsHandler
from kraft.server.handlers.plain_records import PlainRecordsHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.quorum import QuorumHandler


class GroupHandlers(Struct, frozen=True, kw_only=True):
    """Handlers for the groups that this broker coordinates."""

    classic: ClassicGroupsHandler
    consumer: ConsumerGroupsHandler
    groups: GroupsHandler
    offsets: CommittedOffsetsHandler
    lags: GroupLagsHandler


class OperatorHandlers(Struct, frozen=True, kw_only=True):
    """Handlers of what operators ask about the node and the quorum."""

    quorum: QuorumHandler
    clients: DescribeClientsHandler


class RecordHandlers(Struct, frozen=True, kw_only=True):
    """Handlers that append and read records of the partitions that this broker leads."""

    produce: ProduceHandler
    fetch: FetchHandler
    plain: PlainRecordsHandler
