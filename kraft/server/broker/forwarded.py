"""Assembly: the handlers of the requests that every broker forwards to the active controller."""

from __future__ import annotations

from kraft.server.config.node_config import NodeConfig
from kraft.server.handlers.broker_handlers import ForwardedHandlers
from kraft.server.handlers.brokers import BrokersHandler
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.handlers.partition_changes import PartitionChangesHandler


def forwarded_handlers(config: NodeConfig, forwarder: Forwarder) -> ForwardedHandlers:
    settings, topic_configs = config.settings, config.topics.configs
    return ForwardedHandlers(
        partition_changes=PartitionChangesHandler(forwarder, settings, topic_configs),
        brokers=BrokersHandler(forwarder),
    )
