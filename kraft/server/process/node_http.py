"""What a node answers at `metrics.address`, from the beginning of its start to the end of its stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kraft.model.refused_for import RefusedFor
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.burrow import paths as burrow_paths
from kraft.server.burrow.paths import BurrowPaths
from kraft.server.config.node_config import NodeConfig
from kraft.server.controller.controller_node import ControllerNode
from kraft.server.http.listener import HttpListener
from kraft.server.http.messages import Routes
from kraft.server.kafka_listener.listener import KafkaListener
from kraft.server.loop.watch import LoopFacts
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.scrapes import Scrapes
from kraft.server.metrics.snapshot import Values, take
from kraft.server.metrics.table import collecting
from kraft.server.process.health_routes import health_routes
from kraft.server.process.pulse import Pulse

Parts = tuple[BrokerNode | None, ControllerNode | None, KafkaListener | None]
"""The parts that the node has by now."""


class NodeHttp:
    """Listens if the node has a `metrics.address`."""

    def __init__(
        self,
        config: NodeConfig,
        parts: Callable[[], Parts],
        pulse: Pulse,
        loop_facts: LoopFacts,
        refused: Mapping[RefusedFor, int],
    ) -> None:
        """`parts` is called on the node's loop."""
        self._refused = refused
        self._config = config
        self._pulse = pulse
        self._loop_facts = loop_facts
        self._parts_by_now = parts
        self._listener: HttpListener | None = None

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be bound."""
        address = self._config.metrics.address
        if address is not None:
            self._listener = HttpListener(address, self._routes())
            await self._listener.start()

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.stop()

    def close(self) -> None:
        """Close all connections soon, without a wait."""
        if self._listener is not None:
            self._listener.close()

    def _routes(self) -> Routes:
        scrapes = Scrapes(asyncio.get_running_loop(), self._take)
        burrow = BurrowPaths(asyncio.get_running_loop(), self._lags)
        return {
            "/metrics": scrapes.answer,
            **health_routes(self._pulse),
            burrow_paths.ROOT: burrow.answer,
            f"{burrow_paths.ROOT}/": burrow.answer,
        }

    def _lags(self) -> ClusterLags | None:
        broker = self._parts().broker
        return None if broker is None else broker.cluster_lags

    async def _take(self) -> Values:
        return await take(collecting(self._parts()))

    def _parts(self) -> NodeParts:
        broker, controller, kafka = self._parts_by_now()
        return NodeParts(
            config=self._config,
            loop=self._loop_facts,
            refused=self._refused,
            broker=broker,
            controller=controller,
            kafka=kafka,
        )
