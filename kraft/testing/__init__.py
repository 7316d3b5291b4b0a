"""Clusters of real nodes for tests.

    from kraft.testing import Cluster

    with Cluster(nodes=3) as cluster:
        cluster.node(1).kill()

With pytest, the fixture `kraft_cluster` is available without an import (see `kraft.testing.plugin`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kraft.local.node_process import NodeFailed, NodeProcess
    from kraft.testing.cluster import Cluster

__all__ = ["Cluster", "NodeFailed", "NodeProcess"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, because pytest loads this package, with the plugin, in every run."""
    if name == "Cluster":
        from kraft.testing.cluster import Cluster

        return Cluster
    if name in ("NodeFailed", "NodeProcess"):
        from kraft.local import node_process

        return getattr(node_process, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
