"""A broker's node, created from a configuration file and a formatted directory, not started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.config.loading import load
from kraft.server.identity import machine_secret, storage
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.world import NodeWorld

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"


def broker(directory: Path, durability: str, *, stopped_cleanly: bool) -> BrokerNode:
    """Return a node on a formatted directory, which the last process stopped cleanly or not."""
    file = directory / "server.properties"
    file.write_text(
        "process.roles=broker\nnode.id=4\nlisteners=GRPC://localhost:9494\n"
        "controller.quorum.voters=1@localhost:9193\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={directory / 'data'}\nlog.durability={durability}\ncluster.secret.file={directory / 'secret'}\n"
    )
    machine_secret.write_new(directory / "secret")
    config = load(file)
    storage.format(config, CLUSTER)
    if stopped_cleanly:
        storage.leave_clean_shutdown_markers(config.log_dirs)
    world = NodeWorld(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        disk=RealDisk(),
        credentials=NodeCredentials(config, CLUSTER, RefusalLog(SystemClock().monotonic_ms)),
        fatal=pytest.fail,
    )
    return BrokerNode(
        config, storage.take_clean_shutdown_markers(config, storage.load(config)), world, own_controller=()
    )
