"""Assembly: the audit of a broker, in its file and its topic."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kraft.metadata.topic_names import AUDIT_TOPIC
from kraft.model.append_audit import AppendAuditRequest, AppendAuditResponse
from kraft.model.ids import BrokerId
from kraft.rpc.cluster_calls import APPEND_AUDIT
from kraft.server.access.audit import Audit
from kraft.server.broker.audit_log import audit_log
from kraft.server.broker.audit_topic import DRAIN_S_MAX, AuditTopic
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.calls_in_service import while_in_service
from kraft.server.coordinator.internal_topic import InternalTopic, audit_topic
from kraft.server.handlers.append_audit import REPLICATED_MS_MAX, AppendAuditHandler
from kraft.server.identity.world import NodeWorld
from kraft.server.loop.periods import period_end

CALL_S_MAX: Final = 2 * REPLICATED_MS_MAX / 1_000
"""Deadline of a call to the leader, which answers within half of it."""

LOOK_S: Final = 0.1
"""Pause between looks at whether the last lines are in the topic."""


class BrokerAudit:
    def __init__(
        self, config: NodeConfig, world: NodeWorld, metadata: BrokerMetadata, handler: AppendAuditHandler
    ) -> None:
        """`handler` appends to the partitions of the topic that this broker leads."""
        self._node_id = config.node_id
        self._image = metadata.image
        self._handler = handler
        self._brokers = OtherBrokers(world, metadata.image)
        self.topic: InternalTopic | None = None
        """None: the lines are in the file alone."""

        self._sender: AuditTopic | None = None
        if config.audit.has_topic:
            self.topic = InternalTopic(
                AUDIT_TOPIC, audit_topic, config, metadata.image, metadata.controllers, world.fatal
            )
            self._sender = AuditTopic(config.node_id, metadata.image, self.topic.create, self._append, world.clock)
        self._log = audit_log(config.audit.of_node(config.node_id), world.clock, self._sender)
        self.note: Audit | None = None if self._log is None else self._log.note
        """None: nothing is audited."""

    @property
    def lost_count(self) -> int:
        """Lines since the start that are missing in the file or in the topic."""
        lost = 0 if self._sender is None else self._sender.lost_count
        return lost if self._log is None else lost + self._log.dropped_count + self._log.unwritten_count

    async def run(self) -> None:
        """Send lines to the topic until cancelled."""
        if self._sender is not None:
            await self._sender.run()

    async def drain(self) -> None:
        """Wait a short time for the last lines to be in the topic, while `run` goes on."""
        if self._log is None or self._sender is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S_MAX):
                while not (self._log.is_idle and self._sender.is_empty):
                    await period_end(LOOK_S)

    async def close(self) -> None:
        """Write what waits to the file."""
        if self._log is not None:
            await asyncio.to_thread(self._log.close)
        if self._sender is not None and self.topic is not None:
            await self.topic.close()
            self._sender.close()
        await self._brokers.connections.close()

    async def _append(self, broker_id: BrokerId, request: AppendAuditRequest) -> AppendAuditResponse:
        if broker_id == self._node_id:
            return await self._handler.append(request)
        answer = self._brokers.peer(broker_id).call(APPEND_AUDIT, request, CALL_S_MAX)
        return await while_in_service(broker_id, answer, self._image)
