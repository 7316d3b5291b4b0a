"""Dials a node of this machine as the node itself would, so that it is admitted also where clients have to log in."""

from __future__ import annotations

from typing import Any

import grpc.aio

from kraft.rpc.peers import Dial, dial_openly
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.config.listener_security import OPEN
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import GRPC
from kraft.server.identity import storage
from kraft.server.identity.credentials import NodeCredentials


def dial_as_node(config: NodeConfig) -> Dial:
    """Return what opens channels to the node of that configuration."""
    if config.security_of(GRPC) == OPEN:
        return dial_openly
    return _NodeDial(config)


class _NodeDial:
    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._credentials: NodeCredentials | None = None

    def __call__(self, address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        if self._credentials is None:
            # Only now: a new node formats its directories itself.
            cluster_id = storage.cluster_id_of(self._config) or ""
            self._credentials = NodeCredentials(self._config, cluster_id, RefusalLog(lambda: 0))
        advertised = self._config.advertised(GRPC)
        if advertised is not None and self._config.security_of(GRPC).tls is not None:
            # The address may be a number of this machine, and the certificate has the name that others use.
            options = [*options, ("grpc.ssl_target_name_override", advertised.host)]
        return self._credentials.dial_broker(address, options)
