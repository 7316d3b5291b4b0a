"""Connections as a node of the cluster makes them: tests and benchmarks authenticate with its secret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from kraft.rpc.refusal_log import RefusalLog
from kraft.server.config.loading import load
from kraft.server.identity.credentials import NodeCredentials


def dial_as_node(config_path: Path) -> Callable[[str, Sequence[tuple[str, Any]]], grpc.aio.Channel]:
    """Return a dial function for `Connections`, to be used in an event loop. The file names cluster and secret."""
    config = load(config_path)
    assert config.cluster_id is not None, f"{config_path} names no cluster"
    return NodeCredentials(config, config.cluster_id, RefusalLog(lambda: 0)).dial_controller
