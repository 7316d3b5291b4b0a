"""A controller on a quorum of the test's, as brokers meet it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.topic_decisions import ControllerDefaults
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.server.controller.quorum_controller import ControllerConfig, QuorumController
from kraft.server.handlers import brokers
from kraft.server.handlers.topics import decide_creation
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest
from tests.support.cluster_images import CLUSTER, registration
from tests.support.virtual_time import LoopClock, Unchanging
from tests.unit.server.controller.fake_quorum import FakeQuorum

SESSION_S = 9.0


class Parts:
    """A controller, and the quorum that it proposes to."""

    def __init__(self) -> None:
        config = ControllerConfig(
            cluster_id=CLUSTER,
            node_id=1,
            broker_session_timeout_ms=int(SESSION_S * 1_000),
            topic_defaults=TopicDefaultsInEffect({}, KAFKA_DEFAULTS, "1"),
        )
        self.controller = QuorumController(config, LoopClock(), nobody_listens=self._nobody_listens)
        self.calls = self.controller.cluster_calls
        self.quorum = FakeQuorum(self.controller.host, commits_at_once=True)
        self.controller.attach(self.quorum)

    async def _nobody_listens(self, _: Sequence[Endpoint]) -> bool:
        return False

    async def create_topics(self, *topics: CreatableTopic) -> CreateTopicsResponse:
        return await decide_creation(
            self.controller.host,
            Unchanging(),
            lambda _: ControllerDefaults(),
            CreateTopicsRequest(topics=topics, timeout_ms=1),
        )

    async def fence(self, request: FenceBrokerRequest) -> BrokerActionResult:
        return await brokers.fence(self.controller.host, self.controller.topic_defaults, request)

    async def unfence(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        return await brokers.unfence(self.controller.host, request)

    async def unregister(self, broker_id: int) -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        await brokers.unregister(self.controller.host, self.controller.watch.has_live_session, request)

    def broker(self, broker_id: int) -> BrokerRegistration:
        return self.controller.host.image.brokers[BrokerId(broker_id)]

    async def register(self, broker_id: int) -> BrokerEpoch:
        result = await self.calls.register_broker(registration(broker_id))
        assert result.error_code is ErrorCode.NONE, result.error_message
        return result.broker_epoch

    async def beat(self, broker_id: int, epoch: int, *, index: int | None = None, wants_shutdown: bool = False) -> bool:
        """Send a heartbeat; return whether the broker is fenced after it."""
        result = await self.calls.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=BrokerId(broker_id),
                broker_epoch=BrokerEpoch(epoch),
                metadata_index=self.controller.host.committed_index if index is None else index,
                wants_shutdown=wants_shutdown,
            )
        )
        assert result.error_code is ErrorCode.NONE, result.error_message
        return result.is_fenced


@asynccontextmanager
async def controller(*, leading: bool = True) -> AsyncIterator[Parts]:
    parts = Parts()
    running = asyncio.create_task(parts.controller.run())
    if leading:
        parts.quorum.lead(1)
        await asyncio.sleep(0.2)
    try:
        yield parts
    finally:
        running.cancel()
        await asyncio.wait([running])
