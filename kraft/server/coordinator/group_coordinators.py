"""The coordinators of consumer groups on this broker: one shard for each partition of `__consumer_offsets` it leads."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.commands import CommitOffsets, CommitTransactionOffsets, DeleteGroup, GroupCommand
from kraft.coordinator.groups.limits import group_id_error
from kraft.coordinator.groups.memory import wanted_bytes
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.offsets.commit import commit_bytes_min
from kraft.coordinator.shard_batches import TooLarge
from kraft.coordinator.shard_refusals import broker_stopping, coordinator_unavailable
from kraft.log.append_work import AppendOrigin
from kraft.metadata.image import CurrentImage, CurrentIndex, MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.server.coordinator.group_kind import GroupHost, GroupKind
from kraft.server.coordinator.group_log import GroupLog
from kraft.server.coordinator.offset_verification import OffsetVerification
from kraft.server.coordinator.rebalance_counts import RebalanceCounts
from kraft.server.coordinator.shard_host import HostSettings, ShardHostServices
from kraft.server.coordinator.topic_changes import Describable, TopicChanges
from kraft.server.coordinator.topic_shards import TopicShards, decision_context
from kraft.server.loop.threads import shut_down
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.schema.sync_group import SyncGroupRequest

RESPONSE_S_MAX: Final = 60.0
"""Deadline of a request that does not wait for other members: above the commit timeout, which answers it first."""

REBALANCE_S: Final = 300.0
"""Deadline of a SyncGroup, and the minimum of that of a JoinGroup. The timers of the group answer them first."""

MEMBERS_BYTES_MAX: Final = 128 * 1024 * 1024
"""Limit on the memory of the members of groups of both kinds, and of ids that were given out for members of classic
ones. Assignments that the coordinator computes count, but are never refused.
"""


class GroupsView(Struct, frozen=True, kw_only=True):
    """State of the groups in one partition, for queries."""

    committed: Groups
    """Everything that is committed: for answers that must not be taken back."""

    latest: Groups
    """Everything decided."""

    volatile: GroupsVolatile
    settings: GroupShardSettings


class GroupCoordinators:
    """Finds the shard of each group, and starts and stops shards as this broker begins and ceases to lead."""

    def __init__(
        self,
        kind: GroupKind,
        host_settings: HostSettings,
        *,
        group_settings: GroupShardSettings,
        image: CurrentImage,
        index: CurrentIndex,
        clock: Clock,
        entropy: Entropy,
        waiting_appends: WaitingAppends,
        fatal: Fatal,
        executor: Executor | None = None,
    ) -> None:
        """`image` returns the metadata that this broker has applied, and `index` how far that is."""
        self.verification = OffsetVerification()
        """Asks the coordinator of a transaction. Each coordinator needs the other, so the assembly sets it."""
        self._group_settings = group_settings
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="coordinator-load")
        self._background = executor or ThreadPoolExecutor(1, thread_name_prefix="coordinator-background")
        services = ShardHostServices(
            settings=host_settings,
            context=lambda: decision_context(clock, entropy, image()),
            waiting_appends=waiting_appends,
            executor=self._executor,
            background=self._background,
            fatal=fatal,
            loaded=self._loaded,
        )
        self.rebalances = RebalanceCounts(clock.monotonic_ms)
        group_log = GroupLog(services.backlog, clock.monotonic_ms, self.rebalances)
        services = replace(services, report=group_log.report)
        self._topic_changes = TopicChanges(image, index, clock, self._background, fatal)
        self._hosts = TopicShards(OFFSETS_TOPIC, kind, services, image)

    # --- requests --------------------------------------------------------------------------------------------

    async def decide(self, group_id: str, command: GroupCommand) -> Any:
        """Return the response to a command.

        Raises Refusal: INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and
        what the shard refuses.
        """
        # As in Kafka: consumers without a group may commit offsets under the empty id.
        if not group_id and not isinstance(command, CommitOffsets | DeleteGroup):
            raise empty_group_id()
        host = self._host(group_id)
        if isinstance(command, JoinGroup | SyncGroupRequest | ConsumerHeartbeat):
            self._check_room(host, command)
        if isinstance(command, CommitOffsets | CommitTransactionOffsets):
            _check_size(host, command)
        if isinstance(command, CommitTransactionOffsets):
            host.running()
            command = replace(command, guard=await self.verification.guard(host.partition, command))
        response = await host.decide_for_client(command, _timeout_s(command))
        if isinstance(command, ConsumerHeartbeat):
            self._topic_changes.member_heard(host, group_id)
            if command.topic_regex:
                self._topic_changes.resolve_regexes(host)
        return response

    def show_topics(self, describable: Describable) -> None:
        """Give groups, of the topics that match regular expressions, those that their members may describe."""
        self._topic_changes.describable = describable

    async def append_marker(self, partition: int, marker: bytes, origin: AppendOrigin) -> None:
        """Append a control batch to a partition of `__consumer_offsets` that this broker leads.

        Returns when it is committed. Raises Refusal, after which the transaction coordinator sends the marker again:
        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE; and one after which it does not:
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        await self._hosts.host(partition).append_marker(marker, origin, RESPONSE_S_MAX)

    def _check_room(self, host: GroupHost, command: JoinGroup | SyncGroupRequest | ConsumerHeartbeat) -> None:
        """Raise Refusal COORDINATOR_NOT_AVAILABLE for a request that needs more memory than is left."""
        shard = host.running()
        added = wanted_bytes(shard.latest, shard.volatile, command)
        if added > 0 and self.members_bytes + added > MEMBERS_BYTES_MAX:
            raise coordinator_unavailable("the members of groups take all memory that is meant for them; retry later")

    @property
    def members_bytes(self) -> int:
        """Memory of the groups here and their members."""
        volatiles = (host.volatile for host in self._hosts)
        classic = sum(each.classic_bytes for each in volatiles if each is not None)
        return classic + sum(host.latest.consumer_bytes for host in self._hosts if host.latest is not None)

    def view(self, group_id: str) -> GroupsView:
        """Return the state of the shard that has the group. Raises Refusal as `decide`, at once."""
        return self._view(self._host(group_id))

    def views(self) -> tuple[GroupsView, ...]:
        """Return the states of all shards here. A partition that this broker has just stopped leading is left out.

        Raises Refusal: COORDINATOR_LOAD_IN_PROGRESS while one is loading; COORDINATOR_NOT_AVAILABLE while one is loaded
        again after a failed write, and when this broker is stopping. Source: listGroups of Kafka's coordinator.
        """
        if self._hosts.is_stopping:
            raise broker_stopping()
        views = []
        for host in self._hosts:
            try:
                views.append(self._view(host))
            except Refusal as refusal:
                if refusal.error_code is not ErrorCode.NOT_COORDINATOR:
                    raise
        return tuple(views)

    def committed(self) -> dict[int, Groups]:
        """Return what is committed in the shards that answer now, by partition of `__consumer_offsets`."""
        found = dict[int, Groups]()
        for host in self._hosts:
            # The others are elsewhere by now, or are loaded.
            with suppress(Refusal):
                found[host.partition.topic_partition.partition] = host.running().committed
        return found

    def committed_of(self, group_id: str) -> tuple[int, Groups]:
        """Return the partition of `__consumer_offsets` that a group belongs to, and what is committed in its shard.

        Raises Refusal as `decide`, at once.
        """
        host = self._host(group_id)
        return host.partition.topic_partition.partition, host.running().committed

    def _view(self, host: GroupHost) -> GroupsView:
        shard = host.running()
        if shard.volatile is None:
            raise coordinator_unavailable("the coordinator is loaded again after a failed write; retry")
        return GroupsView(
            committed=shard.committed, latest=shard.latest, volatile=shard.volatile, settings=self._group_settings
        )

    def _host(self, group_id: str) -> GroupHost:
        # Before the partition is computed, which takes time for every character.
        if (refusal := group_id_error(group_id)) is not None:
            raise refusal
        return self._hosts.host_of(group_id)

    # --- leadership ------------------------------------------------------------------------------------------

    def role_changed(self, partition: Partition) -> None:
        self._hosts.role_changed(partition)

    def _loaded(self, partition: Partition) -> None:
        host = self._hosts.running(partition)
        if host is not None:
            self._topic_changes.resolve_regexes(host, again=True)

    def metadata_applied(self, before: MetadataImage, after: MetadataImage) -> None:
        self._topic_changes.metadata_applied(tuple(self._hosts), before, after)

    # --- end -------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Refuse new requests, wait briefly for the commit of what was decided, and refuse those that wait longer."""
        await self._hosts.drain()
        await self._topic_changes.close()

    async def close_threads(self) -> None:
        await shut_down(self._executor, self._background, drops_waiting=True)


def _check_size(host: GroupHost, command: CommitOffsets | CommitTransactionOffsets) -> None:
    """Raise Refusal for a commit that surely does not fit into one batch: to decide it takes long."""
    size, size_max = commit_bytes_min(command.group_id, command.topics), host.batch_bytes_max()
    if size > size_max:
        raise TooLarge(size, size_max)


def _timeout_s(command: GroupCommand) -> float:
    match command:
        case JoinGroup():
            wait_ms = max(command.request.rebalance_timeout_ms, command.request.session_timeout_ms)
            return max(wait_ms / 1_000, REBALANCE_S) + RESPONSE_S_MAX
        case SyncGroupRequest():
            return REBALANCE_S + RESPONSE_S_MAX
        case _:
            return RESPONSE_S_MAX
