"""The function by which readers connect to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spark_connector.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Connector:
    """Connects with these client settings. Picklable, and equal to another with the same settings."""

    settings: tuple[tuple[str, str], ...] = field(repr=False)
    """A password may be among them."""

    def __call__(self, bootstrap_servers: Sequence[str]) -> Cluster:
        """Return the cluster at these addresses. The first call of its methods connects."""
        # Importing gRPC takes a tenth of a second, and the processes that only plan or check options do without.
        from spark_connector.kraft_cluster import KraftCluster

        return KraftCluster(bootstrap_servers, dict(self.settings))
