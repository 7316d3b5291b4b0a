"""The topics that brokers write: each is created when it is first needed, such as by a client that looks for one of its
coordinators.

As in Kafka, none is created with fewer replicas than its setting says, because a cluster that is
just starting would keep the smaller number. The exception is a machine that is the whole cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from kraft.log.topic_config import COMPACT, DELETE, PRODUCER, UNCOMPRESSED
from kraft.metadata.image import CurrentImage
from kraft.metadata.machines import machines_of
from kraft.metadata.new_topics import new_topic
from kraft.metadata.topic_names import AUDIT_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.topic_calls import CREATE_TOPICS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.config.access_settings import AUDIT_REPLICATION_FACTOR
from kraft.server.config.group_settings import OFFSETS_REPLICATION_FACTOR
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.transaction_settings import TRANSACTIONS_REPLICATION_FACTOR
from kraft.server.loop import background
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest

log = structlog.get_logger()

CREATION_TIMEOUT_MS: Final = 5_000


def offsets_topic(config: NodeConfig, is_alone: bool) -> CreatableTopic:
    """Return `__consumer_offsets` as it is to be created; `is_alone`: the cluster can have one replica only."""
    settings = config.offsets_topic
    has_default = OFFSETS_REPLICATION_FACTOR not in config.settings
    return new_topic(
        OFFSETS_TOPIC,
        partitions=settings.partitions,
        replication_factor=1 if is_alone and has_default else settings.replication_factor,
        configs={
            "cleanup.policy": COMPACT,
            "compression.type": PRODUCER,
            "segment.bytes": str(settings.segment_bytes),
        },
    )


def transactions_topic(config: NodeConfig, is_alone: bool) -> CreatableTopic:
    """Return `__transaction_state` as it is to be created; `is_alone`: the cluster can have one replica only."""
    settings = config.transactions_topic
    has_default = TRANSACTIONS_REPLICATION_FACTOR not in config.settings
    replication_factor = 1 if is_alone and has_default else settings.replication_factor
    return new_topic(
        TRANSACTIONS_TOPIC,
        partitions=settings.partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": COMPACT,
            "compression.type": UNCOMPRESSED,
            "min.insync.replicas": str(min(settings.min_insync_replicas, replication_factor)),
            "segment.bytes": str(settings.segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def audit_topic(config: NodeConfig, is_alone: bool) -> CreatableTopic:
    """Return `__audit` as it is to be created; `is_alone`: the cluster can have one replica only.

    One partition, so that readers see the lines in one order. Lines that many clients cause must not fill the disks:
    the oldest go after a month, or above a GiB.
    """
    settings = config.audit
    has_default = AUDIT_REPLICATION_FACTOR not in config.settings
    replication_factor = 1 if is_alone and has_default else settings.replication_factor
    return new_topic(
        AUDIT_TOPIC,
        partitions=1,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": DELETE,
            "min.insync.replicas": str(min(2, replication_factor)),
            "retention.bytes": str(1 << 30),
            "retention.ms": str(30 * 24 * 3_600_000),
            "segment.bytes": str(64 << 20),
            "unclean.leader.election.enable": "false",
        },
    )


class InternalTopic:
    """One topic that brokers write."""

    def __init__(
        self,
        name: str,
        plan: Callable[[NodeConfig, bool], CreatableTopic],
        config: NodeConfig,
        image: CurrentImage,
        controllers: ControllerClient,
        fatal: Fatal,
    ) -> None:
        """`plan` returns the topic as it is to be created, such as `offsets_topic`."""
        self.name = name
        self._plan = plan
        self._config = config
        self._image = image
        self._controllers = controllers
        self._fatal = fatal
        self._creation: asyncio.Task[None] | None = None
        self._problem = ""
        """Why the last attempt to create it failed."""

    def create(self) -> None:
        """Begin to create the topic, unless this is under way."""
        if self._creation is None or self._creation.done():
            self._creation = background.start(self._create(), f"creation of {self.name}", self._fatal)

    def missing(self) -> Refusal:
        """Return the refusal of requests until the topic exists, with the problem of the last attempt to create it."""
        problem = f": {self._problem}" if self._problem else "; retry"
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {self.name} is being created{problem}")

    def plan(self) -> CreatableTopic:
        """Return the topic as it is to be created."""
        is_alone = self._config.is_whole_cluster_with_its_processes
        return self._plan(self._config, is_alone and len(machines_of(self._image().brokers.values())) == 1)

    async def _create(self) -> None:
        request = CreateTopicsRequest(topics=(self.plan(),), timeout_ms=CREATION_TIMEOUT_MS)
        try:
            (result,) = (await self._controllers.call(CREATE_TOPICS, request, CREATION_TIMEOUT_MS / 1_000)).topics
        except (NoController, Refusal) as error:
            self._failed(str(error))
            return
        if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._problem = ""
        else:
            self._failed(result.error_message or "")

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("topic not created", topic=self.name, reason=problem)
        self._problem = problem

    async def close(self) -> None:
        if self._creation is not None:
            await background.cancelled([self._creation])
