"""Three nodes of the demo, each a broker and a controller, from three configuration files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.local.node_process import NodeFailed
from kraft.server.identity import storage

NODES: Final = 3


@contextmanager
def started_nodes(directory: Path) -> Iterator[LocalCluster]:
    """Start the nodes, without waiting for them, and stop them afterwards; kill those that do not stop in time."""
    with ReservedPorts(2 * NODES) as ports:
        plans = [
            NodePlan(node_id=node_id, grpc_port=grpc_port, controller_port=controller_port)
            for node_id, (grpc_port, controller_port) in enumerate(zip(ports[::2], ports[1::2], strict=True), start=1)
        ]
        cluster_files.write(directory, plans, storage.random_cluster_id())
        cluster = LocalCluster(directory, plans)
        try:
            cluster.start()
            yield cluster
        except BaseException:
            # Report the first error, not how the nodes then ended.
            with suppress(NodeFailed):
                cluster.stop()
            raise
        cluster.stop()
