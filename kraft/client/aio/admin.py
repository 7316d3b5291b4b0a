"""Asyncio admin client: topics and partitions; for more see `*_admin` beside this module."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from kraft.client.aio.cluster_admin import ClusterAdmin
from kraft.client.aio.config_admin import ConfigAdmin
from kraft.client.aio.dropped import close_when_dropped
from kraft.client.aio.group_admin import GroupAdmin
from kraft.client.aio.new_topics import checked_topics
from kraft.client.aio.record_admin import RecordAdmin
from kraft.client.aio.record_deletion import RecordDeletion
from kraft.client.aio.transaction_admin import TransactionAdmin
from kraft.client.aio.transaction_commits import TransactionCommits
from kraft.client.cluster.any_broker import AnyBroker, check
from kraft.client.cluster.controller_watch import watched
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.leader_calls import LeaderCalls
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.network import Network
from kraft.client.cluster.offset_lookup import OffsetLookup
from kraft.client.cluster.ports import Connections, Node
from kraft.client.model.arguments import checked_names
from kraft.client.model.errors import ClientClosed
from kraft.client.model.settings import LOCAL_BROKER, AdminSettings, settings_of
from kraft.client.model.values import NewTopic
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import TopicPartition
from kraft.model.metadata import MetadataRequest, MetadataResponse, TopicMetadata
from kraft.model.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    OngoingReassignment,
    PartitionName,
    PartitionResult,
    Reassignment,
)
from kraft.model.topics import DescribeTopicsRequest, TopicDescription
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, LIST_PARTITION_REASSIGNMENTS
from kraft.rpc.topic_calls import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_TOPICS
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest
from kraft.wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState

Answer = TypeVar("Answer")


class Admin(ClusterAdmin, ConfigAdmin, GroupAdmin, RecordAdmin, TransactionAdmin, TransactionCommits):
    """Asyncio admin client. A call tries one node after the other for at most `default_api_timeout_ms`.

    Raises NoBrokerReachable, which names every address that was tried, or the cluster's Refusal. Some brokers may not
    know a new topic for a moment; producers and consumers wait for that.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create an admin client; `settings` are the fields of AdminSettings. Connects at first use.

        Raises InvalidSetting.
        """
        self._settings = settings_of(AdminSettings, bootstrap_servers, settings)
        self._network = network or Network()
        self._connections: Connections | None = None
        self._metadata: MetadataCache | None = None
        self._when_dropped: weakref.finalize[..., Any] | None = None
        self._known_coordinators: dict[CoordinatorType, Coordinators] = {}
        self._is_closed = False

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. May be called more than once."""
        self._is_closed = True
        if self._metadata is not None and self._connections is not None:
            connections, self._connections = self._connections, None
            if self._when_dropped is not None:
                self._when_dropped.detach()
            await _close(self._metadata, connections)

    # --- topics -----------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str] | None = None,
    ) -> CreatableTopicResult:
        """Create one topic; -1 means the cluster's default. Raises the cluster's Refusal."""
        new = NewTopic(topic=topic, partitions=partitions, replication_factor=replication_factor, configs=configs or {})
        return (await self.create_topics([new]))[0]

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[CreatableTopicResult]:
        """Create topics. Raises the first Refusal after all were tried.

        TOPIC_ALREADY_EXISTS can mean that an earlier attempt of the same call succeeded and its response was lost.
        """
        allowed_ms, new = self._timeout(timeout_ms), checked_topics(topics)

        async def ask(node: Node, timeout_s: float) -> list[CreatableTopicResult]:
            request = CreateTopicsRequest(topics=new, timeout_ms=int(timeout_s * 1000), validate_only=validate_only)
            results = (await node.call(CREATE_TOPICS, request, timeout_s)).topics
            for result in results:
                check(result.error_code, result.error_message or f"topic {result.name!r}")
            return list(results)

        return await self._ask_admin(ask, allowed_ms, attempt_ms=self._settings.request_timeout_ms)

    async def delete_topics(
        self, topics: Sequence[str], *, timeout_ms: int | None = None
    ) -> list[DeletableTopicResult]:
        """Delete topics. Raises the first Refusal after all were tried."""
        allowed_ms, names = self._timeout(timeout_ms), checked_names(topics)
        states = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names)

        async def ask(node: Node, timeout_s: float) -> list[DeletableTopicResult]:
            request = DeleteTopicsRequest(topics=states, timeout_ms=int(timeout_s * 1000))
            results = (await node.call(DELETE_TOPICS, request, timeout_s)).responses
            for result in results:
                check(result.error_code, result.error_message or f"topic {result.name!r}")
            return list(results)

        return await self._ask_admin(ask, allowed_ms, attempt_ms=self._settings.request_timeout_ms)

    async def list_topics(self, *, timeout_ms: int | None = None) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(topic.topic for topic in (await self.describe_cluster(timeout_ms=timeout_ms)).topics)

    async def find_topics(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """Return id and partitions of those of the topics that exist, by name; of all topics without `topics`.

        One broker answers, which may not know a new topic or partition for a moment.
        """
        names = None if topics is None else checked_names(topics)
        if names == []:
            return {}
        metadata, _ = self._started()
        request = MetadataRequest(topics=names or [], all_topics=names is None)
        response = await metadata.fetch(request, self._timeout(timeout_ms))
        found: dict[str, TopicMetadata] = {}
        for topic in response.topics:
            if topic.error_code is ErrorCode.NONE:
                found[topic.topic] = topic
            elif topic.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Refusal(topic.error_code, topic.error_message or f"topic {topic.topic!r}")
        return found

    async def describe_topics(
        self, topics: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> list[TopicDescription]:
        """Return state and configs of the topics, sorted by name; all topics if none is given.

        Raises UNKNOWN_TOPIC_OR_PARTITION if one does not exist.
        """
        names = checked_names(topics)

        async def ask(node: Node, timeout_s: float) -> list[TopicDescription]:
            return (await node.call(DESCRIBE_TOPICS, DescribeTopicsRequest(topics=names), timeout_s)).topics

        described = await self._ask_admin(ask, self._timeout(timeout_ms))
        for each in described:
            name = each.metadata.topic
            check(each.metadata.error_code, each.metadata.error_message or f"topic {name!r}")
        missing = set(names) - {each.metadata.topic for each in described}
        if missing:
            listed = ", ".join(repr(name) for name in sorted(missing))
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {listed} does not exist")
        return sorted(described, key=lambda each: each.metadata.topic)

    # --- partitions and their replicas ------------------------------------------------------------------------

    async def create_partitions(
        self,
        topic: str,
        total_count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Add partitions to the topic until it has `total_count`. Partitions cannot be removed again.

        `assignments` are the brokers of each new partition, preferred leader first; without it the cluster chooses.
        Raises INVALID_PARTITIONS for a count that is not an increase; that can mean that an earlier attempt of the same
        call succeeded and its response was lost.
        """
        placed = tuple(CreatePartitionsAssignment(broker_ids=tuple(replicas)) for replicas in assignments or ())
        new = CreatePartitionsTopic(name=topic, count=total_count, assignments=placed)

        async def ask(node: Node, timeout_s: float) -> None:
            request = CreatePartitionsRequest(
                topics=(new,), timeout_ms=int(timeout_s * 1000), validate_only=validate_only
            )
            (result,) = (await node.call(CREATE_PARTITIONS, request, timeout_s)).results
            check(result.error_code, result.error_message or f"topic {topic!r}")

        await self._ask_admin(ask, self._timeout(timeout_ms), attempt_ms=self._settings.request_timeout_ms)

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """Elect a leader of each given partition, or of all partitions; return each partition's Refusal or None.

        A partition that needs no election has ELECTION_NOT_NEEDED; without `partitions` it is left out. An unclean
        election loses the records that the new leader does not have.
        """
        names = _names(partitions)

        async def ask(node: Node, timeout_s: float) -> dict[TopicPartition, Refusal | None]:
            request = ElectLeadersRequest(
                election_type=election_type,
                partitions=names,
                all_partitions=partitions is None,
                timeout_ms=int(timeout_s * 1000),
            )
            response = await node.call(ELECT_LEADERS, request, timeout_s)
            check(response.error_code, response.error_message)
            return _refusals(response.results)

        return await self._ask_admin(ask, self._timeout(timeout_ms), attempt_ms=self._settings.request_timeout_ms)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """Start to reassign each partition to these brokers, preferred leader first; None cancels a reassignment.

        Returns each partition's Refusal or None. `list_partition_reassignments` returns those not yet complete.
        """
        wanted = [
            Reassignment(
                topic=each.topic, partition=each.partition, replicas=list(replicas or ()), cancels=replicas is None
            )
            for each, replicas in reassignments.items()
        ]

        async def ask(node: Node, timeout_s: float) -> dict[TopicPartition, Refusal | None]:
            request = AlterPartitionReassignmentsRequest(
                partitions=wanted,
                timeout_ms=int(timeout_s * 1000),
                allow_replication_factor_change=allow_replication_factor_change,
            )
            response = await node.call(ALTER_PARTITION_REASSIGNMENTS, request, timeout_s)
            check(response.error_code, response.error_message)
            return _refusals(response.results)

        return await self._ask_admin(ask, self._timeout(timeout_ms), attempt_ms=self._settings.request_timeout_ms)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """Return the reassignments in progress: of these partitions, or of the whole cluster."""
        names = _names(partitions)

        async def ask(node: Node, timeout_s: float) -> list[OngoingReassignment]:
            request = ListPartitionReassignmentsRequest(partitions=names, all_partitions=partitions is None)
            return (await node.call(LIST_PARTITION_REASSIGNMENTS, request, timeout_s)).partitions

        found = await self._ask_admin(ask, self._timeout(timeout_ms))
        return {TopicPartition(each.topic, each.partition): each for each in found}

    # --- cluster ----------------------------------------------------------------------------------------------

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> MetadataResponse:
        """Return cluster id, active controller, brokers, and every topic with the leaders of its partitions."""
        metadata, _ = self._started()
        return await metadata.fetch(MetadataRequest(topics=[], all_topics=True), self._timeout(timeout_ms))

    # --- inside -----------------------------------------------------------------------------------------------

    async def _change(self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int | None) -> Answer:
        """Send a request whose change the quorum commits before the response, so one attempt gets more time."""
        return await self._ask_admin(ask, self._timeout(timeout_ms), attempt_ms=self._settings.request_timeout_ms)

    async def _ask_admin(
        self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int, attempt_ms: int | None = None
    ) -> Answer:
        metadata, connections = self._started()

        async def ask_at(address: str, timeout_s: float) -> Answer:
            return await ask(connections.peer(address), timeout_s)

        if attempt_ms is None:
            return await metadata.any_broker.call(ask_at, timeout_ms)
        return await self._watched(metadata.any_broker.call(ask_at, timeout_ms, attempt_ms), timeout_ms)

    async def _watched(self, call: Coroutine[Any, Any, Answer], timeout_ms: int | None) -> Answer:
        return await watched(call, partial(self.describe_quorum, wait_for_leader=False), self._timeout(timeout_ms))

    def _coordinators(self) -> Coordinators:
        return self._coordinators_of(CoordinatorType.GROUP)

    def _transaction_coordinators(self) -> Coordinators:
        return self._coordinators_of(CoordinatorType.TRANSACTION)

    def _coordinators_of(self, key_type: CoordinatorType) -> Coordinators:
        metadata, connections = self._started()
        if key_type not in self._known_coordinators:
            self._known_coordinators[key_type] = Coordinators(
                connections, metadata.any_broker, self._backoff(), self._network.clock, key_type
            )
        return self._known_coordinators[key_type]

    def _leader_calls(self) -> LeaderCalls:
        metadata, connections = self._started()
        return LeaderCalls(connections, metadata, self._backoff(), self._network.clock)

    def _record_deletion(self) -> RecordDeletion:
        metadata, connections = self._started()
        return RecordDeletion(
            connections, metadata, self._backoff(), self._network.clock, self._settings.request_timeout_ms
        )

    def _offset_lookup(self) -> OffsetLookup:
        metadata, connections = self._started()
        return OffsetLookup(connections, metadata, self._backoff(), self._network.clock, reads_committed=False)

    def _at(self, address: str) -> tuple[Connections, AnyBroker]:
        _, connections = self._started()
        return connections, AnyBroker([address], self._backoff(), self._network.clock)

    def _backoff(self) -> Backoff:
        return Backoff(
            first_ms=self._settings.retry_backoff_ms,
            max_ms=self._settings.retry_backoff_max_ms,
            chance=self._network.chance,
        )

    def _timeout(self, timeout_ms: int | None) -> int:
        return self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _deadline_ms(self, timeout_ms: int | None) -> int:
        return self._network.clock.monotonic_ms() + self._timeout(timeout_ms)

    def _left_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self._network.clock.monotonic_ms())

    def _started(self) -> tuple[MetadataCache, Connections]:
        if self._is_closed:
            raise ClientClosed("the admin client is closed")
        if self._metadata is None or self._connections is None:
            self._connections = self._network.connect(self._settings.client_id)
            self._metadata = MetadataCache(self._connections, self._settings, self._network.clock, self._network.chance)
            close = partial(_close, self._metadata, self._connections)
            self._when_dropped = close_when_dropped(self, close)
        return self._metadata, self._connections


async def _close(metadata: MetadataCache, connections: Connections) -> None:
    await metadata.close()
    await connections.close()


def _names(partitions: Iterable[TopicPartition] | None) -> list[PartitionName]:
    return [PartitionName(topic=each.topic, partition=each.partition) for each in partitions or ()]


def _refusals(results: list[PartitionResult]) -> dict[TopicPartition, Refusal | None]:
    return {
        TopicPartition(result.topic, result.partition): None
        if result.error_code is ErrorCode.NONE
        else Refusal(result.error_code, result.error_message)
        for result in results
    }
