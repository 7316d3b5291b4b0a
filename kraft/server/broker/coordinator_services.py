"""What the coordinators of a broker stand on."""

from __future__ import annotations

from typing import NamedTuple

from kraft.server.broker.logs import BrokerLogs
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity.world import NodeWorld
from kraft.server.replica.waiting_appends import WaitingAppends


class CoordinatorServices(NamedTuple):
    config: NodeConfig
    world: NodeWorld
    metadata: BrokerMetadata
    logs: BrokerLogs
    waiting_appends: WaitingAppends
