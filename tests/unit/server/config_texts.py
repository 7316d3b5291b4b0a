"""Texts of server.properties, and the types of the fixtures that load and refuse them."""

from __future__ import annotations

from collections.abc import Callable

from kraft.server.config.values import NodeConfig

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

Load = Callable[[str], NodeConfig]
Refuse = Callable[[str], str]
