"""Configuration files that a node starts with."""

from __future__ import annotations

from collections.abc import Callable

from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import ConfigWarning

CONTRACT = """
process.roles=broker,controller
node.id=1
cluster.id=kJ2Yk0mVT0ma0wV2Yk0mVQ
controller.quorum.voters=1@localhost:9093,2@localhost:9193,3@localhost:9293
listeners=PLAINTEXT://localhost:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093
advertised.listeners=PLAINTEXT://localhost:9092,GRPC://localhost:9094
log.dirs=data/node-1
"""

COMBINED = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=GRPC://localhost:9094,CONTROLLER://localhost:9093
log.dirs=data
"""


def warned_of(config: NodeConfig) -> list[ConfigWarning]:
    """Return the warnings, but for those of settings that stand twice: the tests append to the files above."""
    return [warning for warning in config.warnings if not warning.message.startswith("set in lines ")]


Load = Callable[[str], NodeConfig]
"""Loads a file of this text."""

Refuse = Callable[[str], str]
"""Loads a file of this text, which must fail, and gives the message."""
