"""Assembly: the coordinators of consumer groups and of transactions on this broker."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.find_coordinator import CoordinatorType
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.broker.cluster_log_ends import ClusterLogEnds
from kraft.server.broker.coordinator_services import CoordinatorServices
from kraft.server.broker.transactions import BrokerTransactions
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.coordinator.group_kind import group_kind, group_shard_settings, host_settings
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.coordinator.internal_topic import InternalTopic, offsets_topic, transactions_topic
from kraft.server.coordinator.offset_verification import OffsetVerification
from kraft.server.handlers.broker_handlers import GroupHandlers
from kraft.server.handlers.classic_groups import ClassicGroupsHandler
from kraft.server.handlers.committed_offsets import CommittedOffsetsHandler
from kraft.server.handlers.consumer_groups import ConsumerGroupsHandler
from kraft.server.handlers.group_lags import GroupLagsHandler
from kraft.server.handlers.groups import GroupsHandler
from kraft.server.replica.partition import Partition


class BrokerCoordinators:
    def __init__(self, services: CoordinatorServices) -> None:
        config, world, metadata, logs, waiting_appends = services
        self._image = image = metadata.image
        controllers, fatal = metadata.controllers, world.fatal
        offsets = InternalTopic(OFFSETS_TOPIC, offsets_topic, config, image, controllers, fatal)
        state = InternalTopic(TRANSACTIONS_TOPIC, transactions_topic, config, image, controllers, fatal)
        self.topics: Mapping[int, InternalTopic] = {CoordinatorType.GROUP: offsets, CoordinatorType.TRANSACTION: state}
        settings = group_shard_settings(config, image)
        self.groups = GroupCoordinators(
            group_kind(settings),
            host_settings(config),
            group_settings=settings,
            image=image,
            index=metadata.published_index,
            clock=world.clock,
            entropy=world.entropy,
            waiting_appends=waiting_appends,
            fatal=fatal,
        )
        self.transactions = BrokerTransactions(
            services, create_offsets_topic=offsets.create, append_group_marker=self.groups.append_marker
        )
        self.groups.verification = OffsetVerification(
            self.transactions.verifier.verify_one, is_enabled=config.transaction_verification.enabled
        )

        ends = ClusterLogEnds(config.node_id, image, logs.partitions, self.transactions.brokers)
        self.lags = GroupLags(self.groups, ends.ask, image, world.clock, config.groups.lag_look_interval_ms)
        self._lags_handler = GroupLagsHandler(self.lags)
        self.cluster_lags = ClusterLags(config.node_id, image, self.transactions.brokers, self._lags_handler, ends)

    def group_handlers(self) -> GroupHandlers:
        return GroupHandlers(
            classic=ClassicGroupsHandler(self.groups),
            consumer=ConsumerGroupsHandler(self.groups, self._image),
            groups=GroupsHandler(self.groups),
            offsets=CommittedOffsetsHandler(self.groups, self._image),
            lags=self._lags_handler,
        )

    def role_changed(self, partition: Partition) -> None:
        self.groups.role_changed(partition)
        self.transactions.coordinators.role_changed(partition)

    def metadata_applied(self, before: MetadataImage, after: MetadataImage) -> None:
        self.groups.metadata_applied(before, after)

    async def drain(self) -> None:
        """Answer what is decided, while replicas are still led, and refuse everything else from now on."""
        for topic in self.topics.values():
            await topic.close()
        await self.transactions.coordinators.drain()
        await self.groups.drain()

    async def close(self) -> None:
        """End, also without `drain`."""
        await self.drain()
        await self.groups.close_threads()
        await self.transactions.close()
