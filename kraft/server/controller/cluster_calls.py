"""Calls that brokers make to the controller: registration, heartbeats, replicas, producer ids, users, metadata."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from itertools import chain
from typing import Final

import structlog

from kraft.metadata import broker_decisions, partition_decisions
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.imported_users import ImportUsersRequest, ImportUsersResult, import_users
from kraft.metadata.service_times import Newcomers
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailReplicasRequest, FailReplicasResult
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.ids import BrokerId
from kraft.model.register_broker import RegisterBrokerRequest, RegistrationResult
from kraft.rpc.call import ServedCall
from kraft.rpc.cluster_calls import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    FAIL_REPLICAS,
    FOLLOW_METADATA,
    HEARTBEAT,
    IMPORT_USERS,
    LIVENESS_STREAM,
    REGISTER_BROKER,
)
from kraft.server.cluster.metadata_snapshots import encode_image
from kraft.server.controller.broker_watch import BrokerWatch
from kraft.server.controller.quorum_view import QuorumView
from kraft.server.controller.state_machine_host import StateMachineHost

log = structlog.get_logger()

BEAT_INTERVAL_S: Final = 0.5
"""Interval of the empty batches that a broker receives while the metadata does not change."""


class ClusterCalls:
    def __init__(
        self,
        cluster_id: str,
        host: StateMachineHost,
        watch: BrokerWatch,
        view: QuorumView,
        *,
        topic_defaults: TopicDefaultsInEffect,
        newcomers: Newcomers,
    ) -> None:
        self._cluster_id = cluster_id
        self._host = host
        self._watch = watch
        self._view = view
        self._topic_defaults = topic_defaults
        self._newcomers = newcomers

    async def register_broker(self, request: RegisterBrokerRequest) -> RegistrationResult:
        changes = ChangeCounts()

        def register(image: MetadataImage) -> Decision[RegistrationResult]:
            decision = broker_decisions.register_broker(
                image, request, session_is_alive=alive, defaults=self._topic_defaults(image)
            )
            return changes.of(image, decision)

        try:
            self._check_initialised()
            alive = self._watch.has_live_session(request.broker_id)
            result = await self._host.submit(register)
        except Refusal as refusal:
            return RegistrationResult(error_code=refusal.error_code, error_message=refusal.message)
        self._watch.registered(request.broker_id, result.broker_epoch)
        log.info(
            "broker registration committed",
            broker=request.broker_id,
            broker_epoch=result.broker_epoch,
            advertised=[str(endpoint) for endpoint in request.endpoints],
            **changes.facts(),
        )
        return result

    def _check_initialised(self) -> None:
        self._host.check_active()
        if not self._host.image.cluster_id:
            raise Refusal(ErrorCode.NOT_CONTROLLER, "the controller is becoming active: retry")

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResult:
        changes, newcomers = ChangeCounts(), self._newcomers()

        def decide(image: MetadataImage) -> Decision[BrokerHeartbeatResult]:
            return broker_decisions.heartbeat(
                image,
                request,
                caught_up_from_index=self._caught_up_from(request.broker_id),
                committed_index=self._host.committed_index,
                defaults=self._topic_defaults(image),
                newcomers=newcomers,
            )

        try:
            self._host.check_active()
            decision = decide(self._host.image)
            self._watch.heartbeat_received(request.broker_id, request.broker_epoch)
            self._view.heartbeat_received(request.broker_id, request.metadata_index)
            result = decision.response
            if decision.records:
                result = await self._host.submit(lambda image: changes.of(image, decide(image)))
                _log_heartbeat(request, result, changes)
        except Refusal as refusal:
            return BrokerHeartbeatResult(error_code=refusal.error_code, error_message=refusal.message)
        if result.may_stop:
            self._watch.stops(request.broker_id, request.broker_epoch)
        return result

    def _caught_up_from(self, broker_id: BrokerId) -> int:
        return self._host.registration_index.get(broker_id, 0)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResult:
        try:
            return await self._host.submit(
                lambda image: partition_decisions.alter_partition(image, request, defaults=self._topic_defaults(image))
            )
        except Refusal as refusal:
            return AlterPartitionResult(error_code=refusal.error_code, error_message=refusal.message)

    async def fail_replicas(self, request: FailReplicasRequest) -> FailReplicasResult:
        changes = ChangeCounts()

        def fail(image: MetadataImage) -> Decision[FailReplicasResult]:
            return changes.of(
                image, partition_decisions.fail_replicas(image, request, defaults=self._topic_defaults(image))
            )

        try:
            result = await self._host.submit(fail)
        except Refusal as refusal:
            return FailReplicasResult(error_code=refusal.error_code, error_message=refusal.message)
        replicas = len(request.replicas)
        log.warning("replica failures reported", broker=request.broker_id, replicas=replicas, **changes.facts())
        return result

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> ProducerIdBlock:
        try:
            return await self._host.submit(lambda image: broker_decisions.allocate_producer_ids(image, request))
        except Refusal as refusal:
            return ProducerIdBlock(error_code=refusal.error_code, error_message=refusal.message)

    async def import_users(self, request: ImportUsersRequest) -> ImportUsersResult:
        try:
            return await self._host.submit(lambda image: import_users(image, request))
        except Refusal as refusal:
            return ImportUsersResult(error_code=refusal.error_code, error_message=refusal.message)

    async def follow_metadata(self, request: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        """Stream committed entries after the broker's last one, then each new one as it is committed.

        A broker that lags behind the oldest entry kept here gets a snapshot first.
        """
        if request.cluster_id != self._cluster_id:
            raise Refusal(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"this is cluster '{self._cluster_id}', the node belongs to cluster '{request.cluster_id}': "
                "check cluster.id",
            )
        sent = request.after_index
        while True:
            entries = self._host.entries.after(sent)
            if entries is None:
                for batch in self._snapshot():
                    sent = batch.index
                    yield batch
            elif entries:
                for entry in entries:
                    sent = entry.index
                    yield MetadataBatch(
                        index=sent, term=entry.term, records=entry.payload, committed_index=self._host.committed_index
                    )
            else:
                await self._host.progress(BEAT_INTERVAL_S)
                if not self._host.entries.after(sent):
                    yield MetadataBatch(index=sent, term=0, records=b"", committed_index=self._host.committed_index)

    def _snapshot(self) -> Iterator[MetadataBatch]:
        """Yield the whole current image in parts, each encoded on demand."""
        current = self._host.current_image()
        for chunk in chain(encode_image(current.image), [b""]):
            yield MetadataBatch(
                index=current.index,
                term=current.term,
                records=chunk,
                committed_index=self._host.committed_index,
                in_snapshot=True,
                ends_snapshot=not chunk,
            )

    def calls(self) -> list[ServedCall]:
        return [
            REGISTER_BROKER.served_by(self.register_broker),
            HEARTBEAT.served_by(self.heartbeat),
            LIVENESS_STREAM.served_by(self._watch.liveness_stream),
            ALTER_PARTITION.served_by(self.alter_partition),
            FAIL_REPLICAS.served_by(self.fail_replicas),
            ALLOCATE_PRODUCER_IDS.served_by(self.allocate_producer_ids),
            IMPORT_USERS.served_by(self.import_users),
            FOLLOW_METADATA.served_by(self.follow_metadata),
        ]


def _log_heartbeat(request: BrokerHeartbeatRequest, result: BrokerHeartbeatResult, changes: ChangeCounts) -> None:
    """Log what a heartbeat that changed the metadata brought about."""
    if not request.wants_shutdown:
        event = "broker unfencing committed"
    else:
        event = "controlled shutdown committed" if result.may_stop else "controlled shutdown accepted"
    log.info(event, broker=request.broker_id, **changes.facts())
