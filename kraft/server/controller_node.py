"""The controller role of a node: a voter of the metadata quorum that, while it leads, decides for the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from kraft.metadata import controller
from kraft.metadata.broker_sessions import BrokerSessions
from kraft.metadata.commands import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionResult,
    FailReplicasRequest,
    FailReplicasResult,
    HeartbeatRequest,
    HeartbeatResult,
    ProducerIdBlock,
    RegisterBrokerRequest,
    RegistrationResult,
)
from kraft.metadata.controller import ControllerDefaults
from kraft.model import config_requests as configs
from kraft.model import requests as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicId
from kraft.quorum.port import Quorum
from kraft.rpc.cluster_messages import FollowMetadataRequest, MetadataBatch
from kraft.rpc.cluster_services import ControllerHandlers
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.server.handlers.describe_topics import describe_topics
from kraft.server.state_machine_host import StateMachineHost

log = structlog.get_logger()

SESSION_CHECK_INTERVAL_S: Final = 0.1
BEAT_INTERVAL_S: Final = 0.5
"""How often a broker that follows the metadata hears something while nothing happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """`broker_session_timeout_ms` is broker.session.timeout.ms."""

    cluster_id: str
    node_id: int
    broker_session_timeout_ms: int
    defaults: ControllerDefaults


@dataclass(slots=True)
class _Observer:
    """A broker that follows the metadata, as its heartbeats tell."""

    metadata_index: int
    heard_ms: int


class ControllerNode:
    def __init__(self, config: ControllerConfig, clock: Clock, entropy: Entropy) -> None:
        self._config = config
        self._clock = clock
        self._entropy = entropy
        self._sessions = BrokerSessions(timeout_ms=config.broker_session_timeout_ms)
        self._observers: dict[BrokerId, _Observer] = {}
        self._quorum: Quorum | None = None
        self.host = StateMachineHost(self._on_leadership)

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self.host.attach(quorum)

    async def run(self) -> None:
        """Decides and watches over the brokers' sessions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.host.run())
            tasks.create_task(self._watch_sessions())

    # --- leadership and sessions ---

    def _on_leadership(self, active: bool) -> None:
        log.info("controller is active" if active else "controller is not active", node=self._config.node_id)
        self._observers.clear()
        if active:
            # Nobody is fenced for silence that another controller was there to hear.
            self._sessions.activate(self.host.image, self._clock.monotonic_ms())

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(SESSION_CHECK_INTERVAL_S)
            if self.host.active:
                await self._initialise_and_fence()

    async def _initialise_and_fence(self) -> None:
        try:
            if not self.host.image.cluster_id:
                await self.host.submit(lambda image: controller.initialise_cluster(image, self._config.cluster_id))
            for broker_id in self._sessions.expired(self._clock.monotonic_ms()):
                await self._fence(broker_id)
        except Refusal as refusal:
            log.info("sessions are left to the next controller", reason=refusal.message)

    async def _fence(self, broker_id: BrokerId) -> None:
        registration = self.host.image.broker(broker_id)
        if registration is None or registration.fenced:
            self._sessions.end(broker_id)
            return
        log.warning("broker is fenced: no heartbeat within its session", broker=broker_id)
        epoch = registration.broker_epoch
        await self.host.submit(lambda image: controller.fence_broker(image, broker_id, epoch))
        if not self._sessions.is_alive(broker_id, self._clock.monotonic_ms()):
            # One that was heard from meanwhile may be back in service by now, and has to be watched over.
            self._sessions.end(broker_id)

    # --- what brokers ask for ---

    async def register_broker(self, request: RegisterBrokerRequest) -> RegistrationResult:
        try:
            self._check_initialised()
            alive = self._sessions.is_alive(request.broker_id, self._clock.monotonic_ms())
            result = await self.host.submit(
                lambda image: controller.register_broker(image, request, session_is_alive=alive)
            )
        except Refusal as refusal:
            return RegistrationResult(error_code=refusal.error_code, error_message=refusal.message)
        self._sessions.touch(request.broker_id, result.broker_epoch, self._clock.monotonic_ms())
        log.info("broker registered", broker=request.broker_id, broker_epoch=result.broker_epoch)
        return result

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        try:
            self.host.check_active()
            now_ms = self._clock.monotonic_ms()
            decision = controller.heartbeat(
                self.host.image,
                request,
                caught_up_from_index=self._caught_up_from(request.broker_id),
                committed_index=self.host.committed_index,
            )
            self._sessions.touch(request.broker_id, request.broker_epoch, now_ms)
            self._observers[request.broker_id] = _Observer(request.metadata_index, now_ms)
            if not decision.records:
                return decision.response
            return await self.host.submit(
                lambda image: controller.heartbeat(
                    image,
                    request,
                    caught_up_from_index=self._caught_up_from(request.broker_id),
                    committed_index=self.host.committed_index,
                )
            )
        except Refusal as refusal:
            return HeartbeatResult(error_code=refusal.error_code, error_message=refusal.message)

    def _caught_up_from(self, broker_id: BrokerId) -> int:
        return self.host.registration_index.get(broker_id, 0)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResult:
        try:
            return await self.host.submit(lambda image: controller.alter_partition(image, request))
        except Refusal as refusal:
            return AlterPartitionResult(error_code=refusal.error_code, error_message=refusal.message)

    async def fail_replicas(self, request: FailReplicasRequest) -> FailReplicasResult:
        try:
            result = await self.host.submit(lambda image: controller.fail_replicas(image, request))
        except Refusal as refusal:
            return FailReplicasResult(error_code=refusal.error_code, error_message=refusal.message)
        log.warning("replicas have failed", broker=request.broker_id, replicas=len(request.replicas))
        return result

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> ProducerIdBlock:
        try:
            return await self.host.submit(lambda image: controller.allocate_producer_ids(image, request))
        except Refusal as refusal:
            return ProducerIdBlock(error_code=refusal.error_code, error_message=refusal.message)

    async def follow_metadata(self, request: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        """Committed entries after the one that the broker holds, then each as it is committed."""
        if request.cluster_id != self._config.cluster_id:
            raise Refusal(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"this is cluster '{self._config.cluster_id}', not '{request.cluster_id}': check cluster.id",
            )
        entries = self.host.entries
        position = next((at for at, entry in enumerate(entries) if entry.index > request.after_index), len(entries))
        sent = request.after_index
        while True:
            while position < len(entries):
                entry = entries[position]
                position, sent = position + 1, entry.index
                yield MetadataBatch(
                    index=entry.index, term=entry.term, records=entry.payload, committed_index=self.host.committed_index
                )
            await self.host.progress(BEAT_INTERVAL_S)
            if position == len(entries):
                yield MetadataBatch(index=sent, term=0, records=b"", committed_index=self.host.committed_index)

    # --- what operators ask for ---

    async def create_topics(self, request: values.CreateTopicsRequest) -> values.TopicResults:
        # Ids and places are drawn here, because deciding is free of chance.
        topic_ids = [TopicId(UUID(bytes=self._entropy.bytes(16), version=4)) for _ in request.topics]
        start = self._entropy.below(2**31)
        return await self.host.submit(
            lambda image: controller.create_topics(
                image, request, topic_ids=topic_ids, placement_start=start, defaults=self._config.defaults
            )
        )

    async def delete_topics(self, request: values.DeleteTopicsRequest) -> values.TopicResults:
        return await self.host.submit(lambda image: controller.delete_topics(image, request))

    async def incremental_alter_configs(
        self, request: configs.IncrementalAlterConfigsRequest
    ) -> configs.IncrementalAlterConfigsResponse:
        return await self.host.submit(
            lambda image: controller.incremental_alter_configs(image, request, defaults=self._config.defaults.configs)
        )

    async def describe_topics(self, request: values.DescribeTopicsRequest) -> values.DescribeTopicsResponse:
        return describe_topics(self.host.image, request)

    async def describe_quorum(self) -> values.QuorumDescription:
        self.host.check_active()
        assert self._quorum is not None
        status = self._quorum.describe()
        now_ms = self._clock.monotonic_ms()
        voters = {voter.node_id for voter in status.voters}
        return values.QuorumDescription(
            leader_id=self._config.node_id,
            leader_epoch=status.term,
            high_watermark=status.commit_index,
            voters=[
                values.QuorumMember(
                    node_id=voter.node_id, log_end_offset=voter.match_index, last_fetch_ms_ago=voter.heard_ms_ago
                )
                for voter in status.voters
            ],
            observers=[
                values.QuorumMember(
                    node_id=broker_id,
                    log_end_offset=observer.metadata_index,
                    last_fetch_ms_ago=now_ms - observer.heard_ms,
                )
                for broker_id, observer in sorted(self._observers.items())
                if broker_id not in voters
            ],
        )

    def handlers(self) -> ControllerHandlers:
        return ControllerHandlers(
            register_broker=self.register_broker,
            heartbeat=self.heartbeat,
            alter_partition=self.alter_partition,
            fail_replicas=self.fail_replicas,
            allocate_producer_ids=self.allocate_producer_ids,
            follow_metadata=self.follow_metadata,
        )

    def _check_initialised(self) -> None:
        self.host.check_active()
        if not self.host.image.cluster_id:
            raise Refusal(ErrorCode.NOT_CONTROLLER, "the controller is just becoming active; ask again")
