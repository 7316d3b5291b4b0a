"""The parts of a node whose values metrics read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kraft.model.refused_for import RefusedFor
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.config.node_config import NodeConfig
from kraft.server.controller.controller_node import ControllerNode
from kraft.server.kafka_listener.listener import KafkaListener
from kraft.server.loop.watch import LoopFacts


class NodeParts(Struct, frozen=True, kw_only=True):
    """Those that are there by now: a start takes a while, and is answered for, too."""

    config: NodeConfig
    loop: LoopFacts
    refused: Mapping[RefusedFor, int] = {}
    """How many connections and calls were refused on all listeners, by reason."""

    broker: BrokerNode | None = None
    controller: ControllerNode | None = None
    kafka: KafkaListener | None = None
